"""Checks a call's arguments against the simple part of a JSON Schema.

Types, values, required members, bounds and unknown members of one flat object: enough
for explicit schemas of a few scalars. It never follows a `$ref`, and what it does not
know it lets pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ToolError
from mcpwire.protocol.json_schema import properties_of, required_of

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

_SHOWN: Final = 200  # characters of the values that are allowed

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
    properties: Mapping[str, Any] = {
        name: rule if isinstance(rule, dict) else {}
        for name, rule in properties_of(schema).items()
    }
    wrong = [
        f"argument {name!r} is missing"
        for name in required_of(schema)
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
    kinds = kind if isinstance(kind, list) else [] if kind is None else [kind]
    checks = [_IS_TYPE[each] for each in kinds if each in _IS_TYPE]
    if checks and not any(fits(value) for fits in checks):
        expected = " or ".join(kinds)
        return [f"argument {name!r} must be of type {expected}, got {_name(value)}"]
    allowed = rule.get("enum", [rule["const"]] if "const" in rule else None)
    if allowed is not None and not any(_is_same(value, each) for each in allowed):
        return [f"argument {name!r} must be one of {str(allowed)[:_SHOWN]}"]
    if not _IS_TYPE["number"](value):
        return []
    if "minimum" in rule and value < rule["minimum"]:
        return [f"argument {name!r} must be at least {rule['minimum']}"]
    if "maximum" in rule and value > rule["maximum"]:
        return [f"argument {name!r} must be at most {rule['maximum']}"]
    return []


def _is_same(value: Any, other: Any) -> bool:
    # For Python 1 is True, for JSON it is not.
    return (type(value) is bool) is (type(other) is bool) and bool(value == other)


def _name(value: object) -> str:
    return _NAMES[type(value)]
