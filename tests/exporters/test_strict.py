"""Schemas that OpenAI's strict mode can express, and their strict form."""

import pytest

from mcpwire.exporters.openai import strict_schema

TEXT = {"type": "string"}
OPTIONAL = {"type": ["string", "null"]}


def closed(properties, **more):
    """Return an object's schema in the form that strict mode requires."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


def whole(properties, *required):
    """Return an object's schema as authors usually write it."""
    return {"type": "object", "properties": properties, "required": list(required)}


CASES = [
    ({"type": "object"}, closed({})),
    (whole({"a": TEXT}, "a"), closed({"a": TEXT})),
    (whole({"a": TEXT}), closed({"a": OPTIONAL})),
    (whole({"a": OPTIONAL}), closed({"a": OPTIONAL})),
    (
        whole({"a": {"type": ["string", "integer"], "enum": ["x", 1]}}),
        closed({"a": {"type": ["string", "integer", "null"], "enum": ["x", 1, None]}}),
    ),
    (
        whole({"a": {"type": ["string", "null"], "enum": ["x", None]}}),
        closed({"a": {"type": ["string", "null"], "enum": ["x", None]}}),
    ),
    (
        whole({"a": {"enum": ["x"]}, "b": {"const": 1, "type": "integer"}}),
        closed(
            {
                "a": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
                "b": {"anyOf": [{"const": 1, "type": "integer"}, {"type": "null"}]},
            }
        ),
    ),
    (
        whole({"a": {"oneOf": [TEXT, {"type": "integer"}]}}, "a"),
        closed({"a": {"anyOf": [TEXT, {"type": "integer"}]}}),
    ),
    (
        whole({"a": {**TEXT, "minLength": 1, "default": "x", "format": "uri"}}, "a"),
        closed({"a": TEXT}),
    ),
    (
        whole({"a": {**TEXT, "format": "date", "pattern": "^2"}}, "a"),
        closed({"a": {**TEXT, "format": "date", "pattern": "^2"}}),
    ),
    (
        whole({"a": {"type": "array", "items": TEXT, "minItems": 1}}, "a"),
        closed({"a": {"type": "array", "items": TEXT, "minItems": 1}}),
    ),
    (
        {
            **whole({"a": {"$ref": "#/$defs/p", "description": "x"}}, "a"),
            "$defs": {"p": whole({"x": TEXT}, "x")},
        },
        closed({"a": {"$ref": "#/$defs/p"}}, **{"$defs": {"p": closed({"x": TEXT})}}),
    ),
    (
        whole({"a": {"type": "object", "additionalProperties": False}}, "a"),
        closed({"a": closed({})}),
    ),
    (whole({"a": {"properties": {}}}, "a"), closed({"a": closed({})})),
]


@pytest.mark.parametrize(("schema", "strict"), CASES)
def test_strict_object_requires_all_members_and_is_closed(schema, strict):
    assert strict_schema(schema) == strict


@pytest.mark.parametrize(
    "inner",
    [
        {},
        True,
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "patternProperties": {"^x": TEXT}},
        {"type": "array"},
        {"type": "array", "prefixItems": [TEXT]},
        {"allOf": [TEXT]},
        {"not": TEXT},
        {"if": TEXT, "then": TEXT},
        {"anyOf": [TEXT, {}]},
    ],
)
def test_schema_that_strict_mode_cannot_express_gives_none(inner):
    assert strict_schema(whole({"a": inner})) is None


def test_definitions_must_be_strict_too():
    schema = {**whole({"a": {"$ref": "#/definitions/x"}}), "definitions": {"x": {}}}
    assert strict_schema(schema) is None


def test_schema_nested_over_ten_levels_is_not_strict():
    inner = TEXT
    for _ in range(9):
        inner = whole({"a": inner}, "a")
    assert strict_schema(whole({"a": inner}, "a")) is not None
    assert strict_schema(whole({"a": whole({"a": inner}, "a")}, "a")) is None
