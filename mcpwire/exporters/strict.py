"""Schemas for OpenAI's strict mode, where one can be written in it at all.

"Structured Outputs", supported schemas: each object forbids what it does not name and
requires all that it names, so that an optional member becomes one that may be null; the
root is an object and no alternative; a fixed list of keywords is known, and any other
is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.protocol.json_schema import (
    branches_of,
    properties_of,
    required_of,
)

if TYPE_CHECKING:
    from mcpwire.types import JsonObject

__all__ = ["strict_schema"]

_KNOWN: Final = frozenset(
    {
        "title",
        "description",
        "type",
        "enum",
        "const",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)

_FORMATS: Final = (
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
)

_BEYOND: Final = (
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "propertyNames",
    "prefixItems",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
)
"""What changes the meaning and has no place: such a tool is not strict."""

_DEEPEST: Final = 10
"""Levels of nesting that strict mode takes."""

_NULL: Final = {"type": "null"}


class _NotStrictError(Exception):
    """The schema says what strict mode cannot."""


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return the schema as strict mode takes it; ``None`` where it cannot say it.

    Bounds that it has no words for, such as `minLength`, are left out: the server
    looks at the arguments anyway.
    """
    root = dict(schema)
    root.setdefault("properties", {})
    try:
        strict = _strict(root, 0)
        for key in ("$defs", "definitions"):
            if isinstance(schema.get(key), dict):
                inner = schema[key].items()
                strict[key] = {name: _strict(each, 1) for name, each in inner}
    except _NotStrictError:
        return None
    return strict


def _strict(schema: Any, depth: int) -> JsonObject:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        raise _NotStrictError
    if any(key in schema for key in _BEYOND):
        raise _NotStrictError
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # nothing may stand beside it
    made = {key: value for key, value in schema.items() if key in _KNOWN}
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branches = branches_of(schema, key)
            made["anyOf"] = [_strict(inner, depth + 1) for inner in branches]
    kinds = _kinds(schema)
    if "object" in kinds or "properties" in schema:
        made.update(_object(schema, depth))
    if "array" in kinds:
        made["items"] = _strict(schema.get("items"), depth + 1)
    if not kinds and not made.keys() & {"anyOf", "enum", "const", "type"}:
        raise _NotStrictError  # anything at all
    return made


def _kinds(schema: JsonObject) -> list[Any]:
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _object(schema: JsonObject, depth: int) -> JsonObject:
    if schema.get("additionalProperties", False) is not False:
        raise _NotStrictError
    if "properties" not in schema and "additionalProperties" not in schema:
        raise _NotStrictError  # an object of any members
    required = required_of(schema)
    made = {}
    for name, inner in properties_of(schema).items():
        one = _strict(inner, depth + 1)
        made[name] = one if name in required else _or_null(one)
    return {
        "type": schema.get("type", "object"),
        "properties": made,
        "required": list(made),
        "additionalProperties": False,
    }


def _or_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if kind is None or "const" in schema or "anyOf" in schema:
        return {"anyOf": [schema, _NULL]}
    kinds = kind if isinstance(kind, list) else [kind]
    made = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in made and None not in (values := branches_of(made, "enum")):
        made = {**made, "enum": [*values, None]}
    return made
