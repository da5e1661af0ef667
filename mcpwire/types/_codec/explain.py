"""Find out where a value is wrong: the slow second pass over the same specifications.

Only a refused message comes here, so this is an interpreter that favours clarity; it
raises where the compiled decoders would, with the path that they do not carry.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.errors import InvalidMessage, LocalProtocolError
from mcpwire.types._codec.base import UNSET
from mcpwire.types._codec.forgive import ANY_TYPE, forgives
from mcpwire.types._codec.spec import (
    Array,
    Closed,
    Either,
    FieldSpec,
    Kind,
    Leaf,
    Map,
    Nested,
    Picked,
    Tagged,
    spec_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.types._codec.base import Json, WireType

__all__ = ["check", "describe", "explain_decoding", "explain_encoding", "member"]

_SHOWN: Final = 40
_PLAIN: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_JSON_NAMES: Final[Mapping[type, str]] = {
    str: "str",
    int: "int",
    float: "number",
    bool: "bool",
    dict: "object",
    list: "array",
    type(None): "null",
}


def describe(value: object) -> str:
    """Name a value's JSON type."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


def member(path: str, name: str) -> str:
    """Return the path of an object's member."""
    return f"{path}.{name}" if _PLAIN.match(name) else f"{path}[{json.dumps(name)}]"


def explain_decoding(cls: type[WireType], value: Json) -> InvalidMessage:
    """Return the exception for a value that a decoder refused."""
    try:
        _object(cls, value, cls.__name__)
    except InvalidMessage as error:
        return error
    raise AssertionError(f"{cls.__name__}: refused, but nothing is wrong with it")


def _wrong(path: str, expected: str, got: str) -> NoReturn:
    raise InvalidMessage(path, expected=expected, got=got)


def _object(cls: type[WireType], value: Json, path: str) -> None:
    if type(value) is not dict:
        _wrong(path, "object", describe(value))
    spec = spec_of(cls)
    for name, constant in spec.constants.items():
        check(Closed((constant,)), value.get(name, UNSET), member(path, name))
    # The compiled decoders read the demanded fields first; so the first one to fail
    # is reported here as well.
    for field in sorted(spec.fields, key=lambda field: field.accepts_missing):
        _field(field, value.get(field.wire, UNSET), member(path, field.wire))


def _field(field: FieldSpec, value: Json, path: str) -> None:
    if value is UNSET and field.accepts_missing:
        return
    if value is None and (field.accepts_null or field.nullable):
        return
    check(field.kind, value, path)


def check(kind: Kind, value: Json, path: str) -> None:
    """Check a value that stands at a path.

    Raises:
        InvalidMessage: It is not of that kind.
    """
    if value is UNSET:
        _wrong(path, expected(kind), "nothing")
    match kind:
        case Leaf():
            _leaf(kind, value, path)
        case Closed(values) if value not in values:
            _wrong(path, expected(kind), _shown(value))
        case Array(item):
            _array(item, value, path)
        case Map(item):
            _map(item, value, path)
        case Nested(cls):
            _object(cls, value, path)
        case Either():
            _either(kind, value, path)
        case Tagged():
            _tagged(kind, value, path)
        case Picked():
            _picked(kind, value, path)


def _either(kind: Either, value: Json, path: str) -> None:
    if type(value) is list:
        _array(kind.many.item, value, path)
    elif isinstance(kind.one, Leaf) and type(value) not in kind.one.types:
        _wrong(path, expected(kind), describe(value))
    elif isinstance(kind.one, Closed) and value not in kind.one.values:
        _wrong(path, expected(kind), _shown(value))
    else:
        check(kind.one, value, path)


def _leaf(leaf: Leaf, value: Json, path: str) -> None:
    if not leaf.types or type(value) in leaf.types:
        return
    if (
        leaf.types == (int,)
        and type(value) is float
        and value.is_integer()
        and forgives(ANY_TYPE, "", "integral float", optional=False)
    ):
        return
    _wrong(path, leaf.name, describe(value))


def _array(item: Kind, value: Json, path: str) -> None:
    if type(value) is not list:
        _wrong(path, "array", describe(value))
    for index, each in enumerate(value):
        check(item, each, f"{path}[{index}]")


def _map(item: Kind, value: Json, path: str) -> None:
    if type(value) is not dict:
        _wrong(path, "object", describe(value))
    for name, each in value.items():
        check(item, each, member(path, name))


def _tagged(union: Tagged, value: Json, path: str) -> None:
    if type(value) is not dict:
        _wrong(path, "object", describe(value))
    tag = value.get(union.key, UNSET)
    if type(tag) is not str:
        got = "nothing" if tag is UNSET else describe(tag)
        _wrong(member(path, union.key), "str", got)
    cls = union.members.get(tag, union.fallback)
    if cls is None:
        _wrong(member(path, union.key), expected(union), _shown(tag))
    _object(cls, value, path)


def _picked(union: Picked, value: Json, path: str) -> None:
    if type(value) is not dict:
        _wrong(path, "object", describe(value))
    cls = union.pick.choose(value)
    if cls is None:
        _wrong(path, union.pick.expected, "neither")
    _object(cls, value, path)


def _shown(value: Json) -> str:
    if type(value) is not str:
        return describe(value)
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")


def expected(kind: Kind) -> str:
    """Say what a kind asks for."""
    match kind:
        case Leaf():
            return kind.name
        case Closed(values):
            return " or ".join(map(repr, values))
        case Array():
            return "array"
        case Either(one, _):
            return f"{expected(one)} or array"
        case Tagged() if kind.fallback is None:
            return " or ".join(map(repr, kind.members))
    return "object"


# --- encoding


def explain_encoding(value: Any, symptom: Exception) -> None:
    """Raise the error of one of our own values that could not be encoded.

    Raises:
        LocalProtocolError: A field holds what it cannot; otherwise this returns, and
            the symptom is all that is known.
    """
    try:
        _instance(Nested(type(value)), value, type(value).__name__)
    except LocalProtocolError as error:
        raise error from symptom


def _instance(kind: Kind, value: Any, path: str) -> None:
    # Leaves pass: they are looked at when the message is written.
    match kind:
        case Nested(cls):
            _members_of((cls,), value, path)
        case Tagged() | Picked():
            _members_of(kind.classes, value, path)
        case Array(item):
            _own(isinstance(value, list | tuple), path, "list", value)
            for index, each in enumerate(value):
                _instance(item, each, f"{path}[{index}]")
        case Map(item):
            _own(isinstance(value, dict), path, "dict", value)
            for name, each in value.items():
                _instance(item, each, member(path, name))
        case Either(one, many):
            inner = many if isinstance(value, list | tuple) else one
            _instance(inner, value, path)


def _members_of(classes: tuple[type[WireType], ...], value: Any, path: str) -> None:
    names = " or ".join(cls.__name__ for cls in classes)
    _own(type(value) in classes, path, names, value)
    extra = getattr(value, "extra", None)
    _own(extra is None or isinstance(extra, dict), f"{path}.extra", "dict", extra)
    for field in spec_of(type(value)).fields:
        inside = getattr(value, field.attribute)
        absent = inside is field.default or (inside is None and field.nullable)
        if not absent:
            _instance(field.kind, inside, member(path, field.attribute))


def _own(fits: bool, path: str, expected: str, value: Any) -> None:  # noqa: FBT001 - a check reads best with its condition first
    if not fits:
        got = type(value).__name__
        raise LocalProtocolError(f"{path}: expected {expected}, got {got}")
