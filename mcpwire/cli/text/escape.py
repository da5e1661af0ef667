"""Makes text of a server's harmless to a terminal, and readable.

Terminals obey control characters: they retitle windows, write the clipboard, hide and
reorder what is shown. Whatever would not be visible as itself is written out.
"""

from __future__ import annotations

from typing import Final

__all__ = ["one_line", "printable", "shorten"]

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
