"""One readable line for a wire type, with long data elided."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.types._codec.base import UNSET, WireType, factory_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["one_line"]

LONGEST_STRING: Final = 60
MOST_ITEMS: Final = 4
DEEPEST: Final = 4


def one_line(value: WireType) -> str:
    """Return a type's name with the fields that are not at their default."""
    return _shown(value, 0)


def _shown(value: Any, depth: int) -> str:
    match value:
        case str():
            return _string(value)
        case WireType():
            name, fields = type(value).__name__, list(_fields_set(value))
            parts = (f"{field}={_shown(v, depth + 1)}" for field, v in fields)
            return _enclosed(f"{name}(", parts, len(fields), ")", depth)
        case dict():
            members = (
                f"{_shown(name, depth)}: {_shown(v, depth + 1)}"
                for name, v in itertools.islice(value.items(), MOST_ITEMS)
            )
            return _enclosed("{", members, len(value), "}", depth)
        case list():
            items = (_shown(item, depth + 1) for item in value[:MOST_ITEMS])
            return _enclosed("[", items, len(value), "]", depth)
    return repr(value)


def _string(text: str) -> str:
    if len(text) <= LONGEST_STRING:
        return repr(text)
    return f"{text[:LONGEST_STRING]!r}… ({len(text)} characters)"


def _enclosed(
    start: str, parts: Iterable[str], length: int, end: str, depth: int
) -> str:
    if depth > DEEPEST and length:
        # The parts are made on demand, so what lies deeper is not even looked at.
        return f"{start}…{end}"
    shown = list(parts)
    if length > len(shown):
        shown.append(f"… {length} in all")
    return start + ", ".join(shown) + end


def _fields_set(value: WireType) -> Iterable[tuple[str, Any]]:
    """Yield what differs from the default; `raw` says again what the rest says."""
    for field in attrs.fields(type(value)):
        inside = getattr(value, field.name)
        if field.eq and inside is not UNSET and not _is_default(field, inside):
            yield field.name, inside


def _is_default(field: attrs.Attribute[Any], value: Any) -> bool:
    factory = factory_of(field.default)
    return bool(value == (factory() if factory else field.default))
