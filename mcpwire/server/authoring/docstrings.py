"""Descriptions of parameters, taken from a docstring.

Three styles are understood, told apart by their marks: sections that end in a colon
(Google), sections that are underlined (NumPy) and field lists (Sphinx). Whatever is in
none of them is description. Nothing here fails: what is not understood stays text.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read_docstring"]

_NAMES: Final = frozenset(
    {"args", "arguments", "parameters", "params", "other parameters", "keyword args"}
)
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_GOOGLE_ITEM: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?")
_NUMPY_ITEM: Final = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_ITEM: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:\s]+\s+)*?\*{0,2}(\w+)\s*:"
    r"\s*(.*)"
)
_SPHINX_TYPE: Final = re.compile(r":(?:type|vartype)\s[^:]*:")
_LONGEST_LINE: Final = 2_000  # what is longer is prose; the patterns see no more


def read_docstring(text: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the description in a docstring, and those of its parameters.

    What is said of parameters is not in the description; all the rest is.
    """
    if not text:
        return None, {}
    reader = _Reader(inspect.cleandoc(text).splitlines())
    reader.read()
    description = "\n".join(reader.prose).strip()
    return description or None, {
        name: joined
        for name, lines in reader.found.items()
        if (joined := " ".join(filter(None, map(str.strip, lines))))
    }


class _Reader:
    """Sorts the lines of one docstring."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self.prose: list[str] = []
        self.found: dict[str, list[str]] = {}

    def read(self) -> None:
        """Go through all lines once."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            short = line[:_LONGEST_LINE]
            if (item := _SPHINX_ITEM.match(short)) is not None:
                self._at += 1
                self.found[item[1]] = [item[2], *self._indented()]
            elif _SPHINX_TYPE.match(short):
                self._at += 1
                self._indented()
            elif not self._section(line):
                self.prose.append(line)
                self._at += 1

    def _section(self, line: str) -> bool:
        """Take a section about parameters that begins here, if one does."""
        title = line.strip().lower()
        after = "".join(self._lines[self._at + 1 : self._at + 2])
        if title in _NAMES and _UNDERLINE.fullmatch(after):
            self._at += 2
            self._items(self._until_underlined(), _NUMPY_ITEM)
            return True
        is_heading = title.endswith(":") and title[:-1] in _NAMES
        if is_heading and not _indent(line) and after.strip() and _indent(after):
            self._at += 1
            self._items(self._indented(), _GOOGLE_ITEM)
            return True
        return False

    def _items(self, body: Iterable[str], pattern: re.Pattern[str]) -> None:
        """Take a list of parameters: each begins at the least indented column."""
        lines = [line for line in body if line.strip()]
        indent = min((_indent(line) for line in lines), default=0)
        names: list[str] = []
        for line in lines:
            item = pattern.match(line[indent:][:_LONGEST_LINE])
            if _indent(line) == indent and item is not None:
                names = [name.strip() for name in item[1].split(",")]
                first = item[2] if pattern.groups > 1 else ""
                for name in names:
                    self.found[name] = [first or ""]
            else:
                for name in names:
                    self.found[name].append(line)

    def _indented(self) -> list[str]:
        """Take the lines that are indented, and blank ones between them."""
        taken: list[str] = []
        start = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not _indent(line):
                break
            taken.append(line)
            self._at += 1
        while taken and not taken[-1].strip():
            taken.pop()
        self._at = start + len(taken)
        return taken

    def _until_underlined(self) -> list[str]:
        """Take the lines before the next underlined title."""
        start = self._at
        while self._at < len(self._lines):
            after = self._lines[self._at + 1 : self._at + 2]
            if after and _UNDERLINE.fullmatch(after[0]):
                break
            self._at += 1
        return self._lines[start : self._at]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
