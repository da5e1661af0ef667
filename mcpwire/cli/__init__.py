"""The command line: ``mcpwire ls|call|read|prompt|complete|ping|info|demo TARGET``.

Thin: it turns words into calls of `mcpwire.Client` and results into text. `main` has
the table of the commands, `options` that of the options.
"""
