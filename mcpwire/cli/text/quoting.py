"""Shows the words of a server among our own so that they cannot be taken for ours."""

from __future__ import annotations

from typing import Final

from mcpwire.cli.text.escape import one_line, shorten

__all__ = ["plain", "quoted"]

MARK: Final = "| "
MIN_WIDTH: Final = 20

MAX_LINES: Final = 30
"""More would push out of sight who is asking."""

MAX_CHARACTERS: Final = 4_000


def plain(text: str) -> str:
    """Return the text as one harmless line in which no terminal finds a link.

    2025-11-25 client/elicitation, "Safe URL Handling": URLs SHOULD NOT be clickable in
    any field but the one that is meant for them.
    """
    return one_line(text).replace("://", "[://]")


def quoted(text: str, width: int, indent: str = "  ") -> list[str]:
    """Return the text as lines of that width, each with a mark before it."""
    from textwrap import wrap

    head = f"{indent}{MARK}"
    found: list[str] = []
    for line in shorten(text, MAX_CHARACTERS).strip().splitlines():
        shown = plain(line)
        # Letters beyond ASCII may take two columns each.
        room = (width - len(head)) // (1 if shown.isascii() else 2)
        found += wrap(shown, max(room, MIN_WIDTH)) or [""]
    if len(found) > MAX_LINES:
        left = len(found) - MAX_LINES
        found[MAX_LINES:] = [f"({left} more lines)"]
    return [f"{head}{line}" for line in found]
