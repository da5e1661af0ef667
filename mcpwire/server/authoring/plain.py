"""Values of any kind as JSON values."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.server.authoring.hints.foreign import load, to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_record", "plain"]

_AS_THEY_ARE: Final = frozenset({str, int, float, bool, type(None)})
_DEEPEST: Final = 200


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Raises:
        TypeError: It has no JSON form.
        RecursionError: It is nested too deeply.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    try:
        msgspec = load()
    except LocalProtocolError:
        return _by_hand(value, _DEEPEST)
    return msgspec.to_builtins(value, str_keys=True, enc_hook=to_plain)


def is_record(value: Any) -> bool:
    """Tell whether a value's JSON form is an object."""
    kind = type(value)
    return (
        isinstance(value, dict)
        or attrs.has(kind)
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__struct_fields__")
        or hasattr(kind, "model_fields")
    )


def _by_hand(value: Any, depth: int) -> Any:
    if depth == 0:
        raise RecursionError("the value is nested too deeply")
    if isinstance(value, (str, int, float)) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_by_hand(each, depth - 1) for each in value]
    members = _members(value)
    if members is not None:
        return {_key(name): _by_hand(v, depth - 1) for name, v in members.items()}
    if isinstance(value, enum.Enum):
        return _by_hand(value.value, depth - 1)
    return None if value is None else _leaf(value)


def _leaf(value: Any) -> Any:
    if hasattr(value, "isoformat"):  # dates and times
        return value.isoformat()
    if isinstance(value, uuid.UUID) or type(value).__name__ == "Decimal":
        return str(value)
    return to_plain(value)


def _members(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, dict):
        return value
    kind = type(value)
    if attrs.has(kind):
        return {f.name: getattr(value, f.name) for f in attrs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(kind)}
    return None


def _key(name: Any) -> str:
    return name if isinstance(name, str) else str(plain(name))
