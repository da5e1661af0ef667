"""The command line: ``mcpwire ls|call|read|prompt|complete|ping|info|demo TARGET``.

A thin layer: it converts arguments into calls of `mcpwire.Client` and results into
text. `main` has the table of the commands, `options` the table of their options.
"""
