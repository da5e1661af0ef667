"""Schemas for OpenAI's strict mode, if it can express them.

"Structured Outputs", supported schemas: each object forbids additional properties and
requires all its properties, so that an optional one must accept null; the root is an
object without alternatives; keywords outside a fixed list are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.protocol.json_schema import branches_of, properties_of, required_of

if TYPE_CHECKING:
    from mcpwire.types import JsonObject

_SUPPORTED: Final = frozenset(
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

_UNSUPPORTED: Final = (
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
"""Keywords that change the meaning and are not supported: the tool is not strict."""

_MAX_DEPTH: Final = 10
"""Levels of nesting that strict mode takes."""

_NULL: Final = {"type": "null"}


class _NotStrictError(Exception):
    """Strict mode cannot express the schema."""


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return the schema for strict mode, or ``None`` if it cannot be expressed.

    Unsupported bounds, such as `minLength`, are left out: the server checks the
    arguments anyway.
    """
    root = dict(schema)
    root.setdefault("properties", {})
    try:
        strict = _make_strict(root, 0)
        for key in ("$defs", "definitions"):
            if isinstance(schema.get(key), dict):
                inner = schema[key].items()
                strict[key] = {name: _make_strict(each, 1) for name, each in inner}
    except _NotStrictError:
        return None
    return strict


def _make_strict(schema: Any, depth: int) -> JsonObject:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        raise _NotStrictError
    if any(key in schema for key in _UNSUPPORTED):
        raise _NotStrictError
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # no other keyword is allowed beside it
    converted = {key: value for key, value in schema.items() if key in _SUPPORTED}
    if schema.get("format") in _FORMATS:
        converted["format"] = schema["format"]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branches = branches_of(schema, key)
            converted["anyOf"] = [_make_strict(inner, depth + 1) for inner in branches]
    kinds = _kinds(schema)
    if "object" in kinds or "properties" in schema:
        converted.update(_object(schema, depth))
    if "array" in kinds:
        converted["items"] = _make_strict(schema.get("items"), depth + 1)
    if not kinds and not converted.keys() & {"anyOf", "enum", "const", "type"}:
        raise _NotStrictError  # it accepts any value
    return converted


def _kinds(schema: JsonObject) -> list[Any]:
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _object(schema: JsonObject, depth: int) -> JsonObject:
    if schema.get("additionalProperties", False) is not False:
        raise _NotStrictError
    if "properties" not in schema and "additionalProperties" not in schema:
        raise _NotStrictError  # an object of any members
    required = required_of(schema)
    members = {}
    for name, inner in properties_of(schema).items():
        member = _make_strict(inner, depth + 1)
        members[name] = member if name in required else _make_nullable(member)
    return {
        "type": schema.get("type", "object"),
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _make_nullable(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if kind is None or "const" in schema or "anyOf" in schema:
        return {"anyOf": [schema, _NULL]}
    kinds = kind if isinstance(kind, list) else [kind]
    nullable = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in nullable and None not in (values := branches_of(nullable, "enum")):
        nullable = {**nullable, "enum": [*values, None]}
    return nullable
