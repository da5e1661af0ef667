"""What every wire type shares: equality, one readable line, and the mark for "absent".

The modules of the types import this and `attrs`, nothing else, so that a program pays
for the codec only when a value is decoded or encoded.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UNSET", "Json", "JsonObject", "Pick", "Unset", "WireType", "factory_of"]

Json: TypeAlias = Any
"""Any JSON value."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that the specification leaves open."""


class Unset(Enum):
    """The type of `UNSET`, so that type checkers can tell it from every value."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        """Return the name that users write."""
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        """Be false, as nothing is there."""
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
        """Show the fields that are set on one line, with long data elided."""
        from mcpwire.types._codec.one_line import one_line

        return one_line(self)


@attrs.frozen
class Pick:
    """Mark a union with the function that chooses the member for an object."""

    choose: Callable[[JsonObject], type[WireType] | None]
    expected: str
    """What the object lacks when none is chosen."""


def factory_of(default: Any) -> Callable[[], Any] | None:
    """Return what makes a field's default, where that is not a constant."""
    factory: Callable[[], Any] | None = getattr(default, "factory", None)
    return factory
