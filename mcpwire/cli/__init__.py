"""The command line: ``mcpwire ls|call|read|prompt|complete|ping|info|demo TARGET``.

Thin: it turns words into calls of `mcpwire.Client` and results into text. Importing it
loads nothing of the client, so that ``--help`` and a typing error cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; raises nothing, prints no traceback.

    Args:
        argv: The words after the program's name; omitted: the process's own.
    """
    import sys

    from mcpwire.cli.app import run

    if argv is not None:
        return run(list(argv))
    code = run(sys.argv[1:])
    signal = sys.modules.get("signal")
    if signal is not None:
        # Nothing is left to be cleaned up: from here on Ctrl-C just ends the process.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code
