"""The command line: ``mcpwire ls|call|read|prompt|complete|ping|info|demo TARGET``.

Thin: it turns words into calls of `mcpwire.Client` and results into text. `main` has
the table of the commands, `options` that of the options.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> int:
    """Run the command line; console scripts of earlier versions call this one."""
    from mcpwire.cli.main import main as run

    return run()
