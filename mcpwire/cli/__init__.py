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

    return run(sys.argv[1:] if argv is None else list(argv))
