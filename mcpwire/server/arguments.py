"""Checks a call's arguments against the simple part of a JSON Schema.

Types, required members, bounds and unknown members of one flat object: enough for
explicit schemas of a few scalars. It never follows a `$ref`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["check_arguments"]

_IS_TYPE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "array": lambda value: type(value) is list,
    "boolean": lambda value: type(value) is bool,
    # JSON Schema 2020-12 validation, 6.1.1: a number without a fraction is an integer.
    "integer": lambda value: (
        type(value) is int or (type(value) is float and value.is_integer())
    ),
    "null": lambda value: value is None,
    "number": lambda value: type(value) in {int, float},
    "object": lambda value: type(value) is dict,
    "string": lambda value: type(value) is str,
}

_NAMES: Final = {dict: "object", list: "array", str: "string", type(None): "null"}
_NAMES.update({bool: "boolean", int: "integer", float: "number"})


def check_arguments(schema: Mapping[str, Any], arguments: object) -> dict[str, Any]:
    """Return the arguments with the schema's defaults filled in.

    Raises:
        ToolError: They do not fit; names each argument that is wrong, and why.
    """
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        raise ToolError(f"arguments must be an object, got {_name(arguments)}")
    properties: Mapping[str, Any] = schema.get("properties", {})
    wrong = [
        f"argument {name!r} is missing"
        for name in schema.get("required", ())
        if name not in arguments
    ]
    for name, value in arguments.items():
        if name in properties:
            wrong += _faults(name, value, properties[name])
        elif schema.get("additionalProperties") is False:
            wrong.append(f"argument {name[:100]!r} is unknown")
    if wrong:
        raise ToolError("; ".join(wrong))
    checked = {
        name: rule["default"] for name, rule in properties.items() if "default" in rule
    }
    for name, value in arguments.items():
        is_whole = properties.get(name, {}).get("type") == "integer"
        checked[name] = int(value) if is_whole else value
    return checked


def _faults(name: str, value: Any, rule: Mapping[str, Any]) -> list[str]:
    kind = rule.get("type")
    if kind is not None and not _IS_TYPE[kind](value):
        return [f"argument {name!r} must be of type {kind}, got {_name(value)}"]
    if "minimum" in rule and value < rule["minimum"]:
        return [f"argument {name!r} must be at least {rule['minimum']}"]
    if "maximum" in rule and value > rule["maximum"]:
        return [f"argument {name!r} must be at most {rule['maximum']}"]
    return []


def _name(value: object) -> str:
    return _NAMES[type(value)]
