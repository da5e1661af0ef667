"""Conversion of structured content to a type of the caller.

This module constructs dataclasses, attrs classes, TypedDicts and containers of the
standard library; pydantic and msgspec construct their own classes. Unknown members are
ignored, because a newer server may send more.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import sys
import types
import typing
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    NotRequired,
    Required,
)

import attrs

from mcpwire.errors import InvalidMessage
from mcpwire.types._base import UNSET
from mcpwire.types._codec import (
    json_type,
    member_path,
    read_fields,
    replace_variables,
    type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types._base import Json
    from mcpwire.types.tools import CallToolResult

_LEAVES: Final[Mapping[Any, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "str"),
    bool: ((bool,), "bool"),
    int: ((int,), "int"),
    float: ((int, float), "number"),
    types.NoneType: ((types.NoneType,), "null"),
    None: ((types.NoneType,), "null"),
}


def convert_result(result: CallToolResult, kind: Any) -> Any:
    """Convert the structured content of a result; see `CallToolResult.as_`."""
    path = "CallToolResult.structuredContent"
    if result.structured_content is UNSET:
        _raise_invalid(path, _type_name(kind), "nothing")
    try:
        return _convert(kind, result.structured_content, path)
    except RecursionError:
        _raise_invalid(path, _type_name(kind), "a value that is nested too deeply")


_WRAPPERS: Final = frozenset({Annotated, NotRequired, Required})


def _convert(kind: Any, value: Json, path: str) -> Any:
    if kind is Any or kind is object:
        return value
    origin = typing.get_origin(kind) or kind
    if origin in _WRAPPERS:
        return _convert(typing.get_args(kind)[0], value, path)
    if origin in _GENERIC:
        arguments = typing.get_args(kind) or (Any, Any)
        return _GENERIC[origin](origin, arguments, value, path)
    if kind in _LEAVES:
        return _convert_leaf(kind, value, path)
    alias = getattr(kind, "__supertype__", None) or getattr(kind, "__value__", None)
    if alias is not None:  # a NewType, or a `type` statement
        return _convert(replace_variables(alias, kind), value, path)
    return _convert_class(kind, value, path)


def _convert_class(kind: Any, value: Json, path: str) -> Any:
    cls = typing.get_origin(kind) or kind
    if not isinstance(cls, type):
        raise TypeError(f"{kind!r} is not a type that can be made from JSON")
    if hasattr(kind, "model_validate"):  # pydantic
        return _call_constructor(kind.model_validate, ValueError, kind, value, path)
    if hasattr(cls, "__struct_fields__"):
        msgspec: Any = sys.modules["msgspec"]  # imported: a struct class exists
        build = functools.partial(msgspec.convert, type=kind)
        return _call_constructor(build, msgspec.ValidationError, kind, value, path)
    if issubclass(cls, enum.Enum):
        return _call_constructor(kind, ValueError, kind, value, path)
    return _convert_object(kind, value, path)


def _raise_invalid(path: str, expected: str, got: str) -> NoReturn:
    raise InvalidMessage(path, expected=expected, got=got)


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) in _WRAPPERS:
        kind = typing.get_args(kind)[0]
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _convert_leaf(kind: Any, value: Json, path: str) -> Any:
    allowed, name = _LEAVES[kind]
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) not in allowed:
        _raise_invalid(path, name, json_type(value))
    return float(value) if kind is float else value


def _convert_array(
    container: Any, arguments: tuple[Any, ...], value: Json, path: str
) -> Any:
    if type(value) is not list:
        _raise_invalid(path, "array", json_type(value))
    items = [
        _convert(arguments[0], element, f"{path}[{index}]")
        for index, element in enumerate(value)
    ]
    return container(items) if container in {set, frozenset} else items


def _convert_tuple(_: Any, arguments: tuple[Any, ...], value: Json, path: str) -> Any:
    if len(arguments) == 2 and arguments[1] in {Ellipsis, Any}:
        return tuple(_convert_array(list, arguments, value, path))
    if type(value) is not list or len(value) != len(arguments):
        got = f"{len(value)} items" if type(value) is list else json_type(value)
        _raise_invalid(path, f"array of {len(arguments)} items", got)
    return tuple(
        _convert(kind, element, f"{path}[{index}]")
        for index, (kind, element) in enumerate(zip(arguments, value, strict=True))
    )


def _convert_mapping(_: Any, arguments: tuple[Any, ...], value: Json, path: str) -> Any:
    if type(value) is not dict:
        _raise_invalid(path, "object", json_type(value))
    return {
        _convert(arguments[0], name, path): _convert(
            arguments[1], element, member_path(path, name)
        )
        for name, element in value.items()
    }


def _convert_union(_: Any, arguments: tuple[Any, ...], value: Json, path: str) -> Any:
    for kind in arguments:
        try:
            return _convert(kind, value, path)
        except InvalidMessage:
            continue
    _raise_invalid(path, " or ".join(map(_type_name, arguments)), json_type(value))


def _convert_literal(_: Any, arguments: tuple[Any, ...], value: Json, path: str) -> Any:
    for choice in arguments:
        if type(choice) is type(value) and choice == value:
            return value
    _raise_invalid(path, " or ".join(map(repr, arguments)), json_type(value))


_GENERIC: Final[Mapping[Any, Callable[[Any, tuple[Any, ...], Json, str], Any]]] = {
    **dict.fromkeys(
        (
            list,
            set,
            frozenset,
            collections.abc.Sequence,
            collections.abc.Iterable,
            collections.abc.Collection,
        ),
        _convert_array,
    ),
    **dict.fromkeys(
        (dict, collections.abc.Mapping, collections.abc.MutableMapping),
        _convert_mapping,
    ),
    **dict.fromkeys((types.UnionType, typing.Union), _convert_union),
    tuple: _convert_tuple,
    Literal: _convert_literal,
}


def _convert_object(kind: Any, value: Json, path: str) -> Any:
    fields = read_fields(kind)
    if fields is None:
        raise TypeError(f"{_type_name(kind)} is not a type that can be made from JSON")
    if type(value) is not dict:
        _raise_invalid(path, "object", json_type(value))
    hints, arguments = type_hints(kind), {}
    for name, parameter, default in fields:
        place, hint = member_path(path, name), hints.get(name, Any)
        if name in value:
            arguments[parameter] = _convert(hint, value[name], place)
        elif default is attrs.NOTHING:
            _raise_invalid(place, _type_name(hint), "nothing")
    refusals = (TypeError, ValueError)  # of `attrs.validators.instance_of`, too
    return _call_constructor(lambda _: kind(**arguments), refusals, kind, value, path)


def _call_constructor(
    build: Callable[[Json], Any],
    error_type: type[Exception] | tuple[type[Exception], ...],
    kind: Any,
    value: Json,
    path: str,
) -> Any:
    """Construct a type by its own function; raise `InvalidMessage` if that fails."""
    try:
        return build(value)
    except error_type as error:
        reason = " ".join(str(error).split())
        got = f"{json_type(value)} ({reason})"
        raise InvalidMessage(path, expected=_type_name(kind), got=got) from error
