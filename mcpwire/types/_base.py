"""What every wire type shares: equality, one readable line, marks on fields.

The modules of the types import this and `attrs`, nothing else, so that a program pays
for the codec only when a value is decoded or encoded.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeAlias,
)

import attrs

from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["UNSET", "Json", "JsonObject", "Pick", "Spec", "Unset", "WireType"]

Json: TypeAlias = Any
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that the specification leaves open."""


class Unset(Enum):
    """The type of `UNSET`, so that type checkers can tell it from every value."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset.UNSET
"""Not on the wire; where ``None`` means that a JSON `null` is."""


class WireType:
    """The base of all wire types; it has behaviour and no fields.

    The types are mutable values: compared by content, unhashable. `attrs` would write
    equality and representation for each class, which is half of what importing costs.
    """

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable values have none
    if TYPE_CHECKING:
        __attrs_attrs__: ClassVar[tuple[attrs.Attribute[Any], ...]]

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `raw`, which says again what the others say."""
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, field.name) == getattr(other, field.name)
            for field in attrs.fields(type(self))
            if field.eq
        )

    def __repr__(self) -> str:
        """Show the fields that are not at their default, with long data elided."""
        return _shown(self, 0)


# --- marks in annotations


@attrs.frozen(eq=False)
class Spec:
    """Mark a field with what its Python type does not say."""

    since: str = REVISIONS[0].name
    """The first revision that has the field."""

    until: str | None = None
    """The last revision that has the field."""

    required: bool | tuple[str, ...] = False
    """Whether (or in which revisions) it must be on the wire despite the default."""

    wire: str | None = None
    """Its name on the wire, where that is not the attribute's in camel case."""


@attrs.frozen(eq=False)
class Pick:
    """Mark a union with the function that chooses the member for an object."""

    choose: Callable[[JsonObject], type[WireType] | None]
    expected: str
    """What the object lacks when none is chosen."""


Extra: TypeAlias = JsonObject | None
"""The members that the type does not know, ``None`` when there are none."""

Raw: TypeAlias = JsonObject | None
"""The decoded JSON object itself; ``None`` when the result was made here."""

Meta: TypeAlias = JsonObject | None
"""``_meta``; results and notifications have had it from the start."""

MetaOfTypes: TypeAlias = Annotated[JsonObject | None, Spec("2025-06-18")]
"""``_meta`` of the types inside results."""

RequestMeta: TypeAlias = Annotated[JsonObject | None, Spec(required=("2026-07-28",))]
"""``_meta`` of a request."""

Title: TypeAlias = Annotated[str | None, Spec("2025-06-18")]
"""A name for people."""

# 2026-07-28 basic/index, "ResultType": absent means "complete".
ResultType: TypeAlias = Annotated[str, Spec("2026-07-28", required=("2026-07-28",))]
"""What kind of result this is."""

# 2026-07-28 server/utilities/caching: absent means stale at once.
TtlMs: TypeAlias = Annotated[int | None, Spec("2026-07-28", required=("2026-07-28",))]
"""For how many milliseconds the result may be used again."""

KnownScope: TypeAlias = Literal["public", "private"]

CacheScope: TypeAlias = Annotated[
    KnownScope | str | None,
    Spec("2026-07-28", required=("2026-07-28",)),
]
"""Who may use the result again."""


# --- one readable line

_LONGEST_STRING: Final = 60
_MOST_ITEMS: Final = 4
_DEEPEST: Final = 4


def _shown(value: Any, depth: int) -> str:
    match value:
        case str() if len(value) > _LONGEST_STRING:
            return f"{value[:_LONGEST_STRING]!r}… ({len(value)} characters)"
        case WireType():
            names = [f.name for f in attrs.fields(type(value)) if _is_told(f, value)]
            parts = (f"{n}={_shown(getattr(value, n), depth + 1)}" for n in names)
            return _enclosed(f"{type(value).__name__}(", parts, len(names), ")", depth)
        case dict():
            members = (
                f"{_shown(name, depth)}: {_shown(inside, depth + 1)}"
                for name, inside in itertools.islice(value.items(), _MOST_ITEMS)
            )
            return _enclosed("{", members, len(value), "}", depth)
        case list():
            items = (_shown(item, depth + 1) for item in value[:_MOST_ITEMS])
            return _enclosed("[", items, len(value), "]", depth)
    return repr(value)


def _is_told(field: attrs.Attribute[Any], value: WireType) -> bool:
    inside = getattr(value, field.name)
    make = getattr(field.default, "factory", None)
    default = make() if make else field.default
    return field.eq and inside is not UNSET and bool(inside != default)


def _enclosed(
    start: str, parts: Iterable[str], length: int, end: str, depth: int
) -> str:
    if depth > _DEEPEST and length:
        # The parts are made on demand, so what lies deeper is not even looked at.
        return f"{start}…{end}"
    shown = list(parts)
    if length > len(shown):
        shown.append(f"… {length} in all")
    return start + ", ".join(shown) + end
