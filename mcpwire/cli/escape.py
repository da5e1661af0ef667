"""Makes text of a server's harmless to a terminal, and readable.

Terminals obey control characters: they retitle windows, write the clipboard, hide and
reorder what is shown. Whatever would not be visible as itself is written out.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "MARKS",
    "head_lines",
    "one_line",
    "plain",
    "printable",
    "quoted",
    "shorten",
]

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# `str.isprintable` is false for controls, format characters (bidi among them), line
# separators and surrogates, as wanted, and for these, which do no harm: spaces of other
# widths, and the joiners that emoji and several scripts are written with.
_HARMLESS: Final = frozenset(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u200c\u200d\u202f\u205f\u3000"
)


def one_line(text: str) -> str:
    """Return the text as one line, with everything that is not visible written out."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def printable(text: str) -> str:
    """Return the text, its lines and tabs kept, what else is invisible written out."""
    if text.isprintable():
        return text
    return "\n".join(
        line if line.isprintable() else "\t".join(map(one_line, line.split("\t")))
        for line in text.split("\n")
    )


def shorten(text: str, limit: int) -> str:
    """Cut a text to so many characters; the cut shows."""
    return text if len(text) <= limit else f"{text[: max(limit - 3, 0)]}..."


def _visible(character: str) -> str:
    if character.isprintable() or character in _HARMLESS:
        return character
    if character in _NAMED:
        return _NAMED[character]
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


# Words of a server among our own...


MARK: Final = "| "
MIN_WIDTH: Final = 20

MAX_LINES: Final = 30
"""More lines would push the name of the server out of sight."""

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


# Heads of requests and responses, as curl shows them...


MARKS: Final = {"request": ">", "response": "<"}
"""The events of the client's trace that are heads, and how each line of one begins."""


def head_lines(event: str, head: str) -> list[str]:
    """Return the lines of a head; control characters are not escaped."""
    mark = MARKS[event]
    lines = [line.removesuffix("\r") for line in head.split("\n")]
    return [f"{mark} {line}" for line in lines if line]
