"""Shortens values before an error message shows them."""

from __future__ import annotations

from typing import Final

_MAX_EXCERPT_CHARS: Final = 40


def excerpt(value: object) -> str:
    """Return a short `repr` for a sentence about a value of unknown size."""
    if isinstance(value, str):
        is_short = len(value) <= _MAX_EXCERPT_CHARS
        return repr(value if is_short else value[:_MAX_EXCERPT_CHARS] + "…")
    if value is None or isinstance(value, (bool, int, float)):
        text = repr(value)
        return text if len(text) <= _MAX_EXCERPT_CHARS else f"a huge {_kind(value)}"
    return f"a value of type {_kind(value)}"


def _kind(value: object) -> str:
    return type(value).__name__
