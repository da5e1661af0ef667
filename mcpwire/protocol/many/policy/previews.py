"""One line about a call, for whoever is to confirm it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PREVIEW", "preview"]

PREVIEW: Final = 80
"""How many characters of an argument are shown."""

TELLING: Final = ("path", "query", "sql", "url", "name", "id", "command", "input")
"""The arguments that say most about a call, the most telling first."""


def preview(arguments: Mapping[str, Any] | None, length: int = PREVIEW) -> str:
    """Return the argument that says most, on one line; empty where there is none."""
    given = arguments or {}
    texts = [given.get(name) for name in TELLING] + list(given.values())
    found = next((text for text in texts if isinstance(text, str) and text), "")
    # Names and texts come from models and servers, and may drive a terminal.
    start = found[: 4 * length]
    line = "".join(each if each.isprintable() else " " for each in start)
    line = " ".join(line.split())
    is_whole = len(line) <= length and len(found) == len(start)
    return line if is_whole else f"{line[: length - 3]}..."
