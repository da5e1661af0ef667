"""Leave out of a refused value what the table lets be lost, and say what that was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.errors import InvalidMessage
from mcpwire.types._codec.explain import check, member
from mcpwire.types._codec.forgive import forgives
from mcpwire.types._codec.spec import Array, Kind, Nested, spec_of

if TYPE_CHECKING:
    from mcpwire.types._codec.base import Json, JsonObject, WireType

__all__ = ["without_malformed"]


def without_malformed(
    cls: type[WireType], value: JsonObject
) -> tuple[JsonObject, list[str]]:
    """Return a copy without the malformed members that are forgiven, and their paths.

    Everything else stays as it is, and is refused when the copy is decoded.
    """
    lost: list[str] = []
    return _repaired(Nested(cls), value, cls.__name__, lost), lost


def _repaired(kind: Kind, value: Json, path: str, lost: list[str]) -> Json:
    if isinstance(kind, Array) and type(value) is list:
        return [
            _repaired(kind.item, each, f"{path}[{index}]", lost)
            for index, each in enumerate(value)
        ]
    if not isinstance(kind, Nested) or type(value) is not dict:
        return value
    kept = dict(value)
    for field in spec_of(kind.cls).fields:
        name, where = field.wire, member(path, field.wire)
        if kept.get(name) is None:
            continue
        kept[name] = _repaired(field.kind, kept[name], where, lost)
        if not forgives(kind.cls.__name__, name, "malformed", optional=True):
            continue
        try:
            check(field.kind, kept[name], where)
        except InvalidMessage:
            del kept[name]
            lost.append(where)
    return kept
