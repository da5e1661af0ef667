"""Schemas are read as far as they say something, however strange they are."""

import pytest
from hypothesis import given
from schema_values import JSON

from mcpwire.cli.arguments import KINDS, MAX_STEPS, SchemaReader, json_text

ROOT = {
    "$defs": {
        "name": {"type": "string"},
        "again": {"$ref": "#/$defs/name"},
        "a/b~c": {"type": "integer"},
        "loop": {"$ref": "#/$defs/loop"},
        "": {"type": "null"},
    }
}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "integer"}, ["integer"]),
        ({"type": ["string", "null"]}, ["null", "string"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["null", "string"]),
        (
            {"oneOf": [{"type": "array"}, {"anyOf": [{"type": "number"}]}]},
            ["number", "array"],
        ),
        ({"anyOf": [{"type": "string"}, {}]}, []),
        ({"$ref": "#/$defs/name"}, ["string"]),
        ({"$ref": "#/$defs/again", "description": "x"}, ["string"]),
        ({"$ref": "#/$defs/a~1b~0c"}, ["integer"]),
        ({"allOf": [{"type": "boolean"}]}, ["boolean"]),
        ({"$ref": "#/$defs/loop"}, []),
        ({"$ref": "#/$defs/none"}, []),
        ({"$ref": "https://example.com/schema.json"}, []),
        ({"$ref": "#"}, []),
        ({"$ref": "#/$defs/"}, ["null"]),
        ({"$ref": 7, "type": "string"}, ["string"]),
        ({"type": 7}, []),
        ({"type": "money"}, []),
        ({"anyOf": []}, []),
        ({"anyOf": 3}, []),
        (True, []),
        (None, []),
        ([], []),
    ],
)
def test_the_types_of_a_schema(schema, kinds):
    assert SchemaReader(ROOT).kinds(schema) == kinds


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        ({"enum": ["a", 1, None]}, ["a", 1, None]),
        ({"const": False}, [False]),
        ({"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]}, ["a", "b", "c"]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, ["a", None]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, None),
        ({"type": "string"}, None),
        ({"enum": []}, None),
        ({"enum": "ab"}, None),
        ({}, None),
    ],
)
def test_the_listed_values_of_a_schema(schema, choices):
    assert SchemaReader(ROOT).choices(schema) == choices


def test_the_properties_of_an_object_include_those_of_its_parts():
    schema = {
        "properties": {"a": 1},
        "allOf": [{"properties": {"b": 2}}, {"$ref": "#/$defs/c"}],
        "anyOf": [{"properties": {"d": 4, "a": 0}}],
        "$defs": {"c": {"properties": {"c": 3}}},
    }
    assert SchemaReader(schema).properties() == {"d": 4, "a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"required": ["a", 1, None]}, ["a"]),
        ({"required": "a"}, []),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["b"]}}}, ["b"]),
        (True, []),
    ],
)
def test_the_required_names(schema, names):
    assert SchemaReader(schema).required() == names


@pytest.mark.parametrize(
    ("schema", "is_open"),
    [
        ({"properties": {}}, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, False),
        ({"properties": {"a": {}}, "additionalProperties": True}, True),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, True),
        ({"properties": {"a": {}}, "patternProperties": {}}, True),
        ({"properties": {"a": {}}, "anyOf": [{}]}, True),
        ({"type": "object"}, True),
        ({}, True),
    ],
)
def test_whether_an_object_may_have_other_members(schema, is_open):
    assert SchemaReader(schema).is_open() is is_open


@given(JSON)
def test_no_schema_stops_the_reader(schema):
    reader = SchemaReader(schema)
    assert set(reader.kinds(schema)) <= set(KINDS)
    assert isinstance(reader.choices(schema), list | None)
    assert isinstance(reader.properties(), dict)
    assert isinstance(reader.required(), list)
    assert isinstance(reader.is_open(), bool)


def test_a_schema_of_circles_is_read_in_bounded_time(monkeypatch):
    steps = []
    resolve = SchemaReader.resolve

    def noted(self, schema):
        steps.append(1)
        return resolve(self, schema)

    monkeypatch.setattr(SchemaReader, "resolve", noted)
    schema = {"anyOf": [{"$ref": "#"}] * 300, "properties": {"a": {"$ref": "#"}}}
    reader = SchemaReader(schema)
    reader.kinds(schema)
    reader.choices(schema)
    reader.properties()
    assert len(steps) < 4 * MAX_STEPS  # of 300 ** MAX_DEPTH


def test_a_value_too_deep_to_write_is_left_out():
    value = []
    for _ in range(100_000):
        value = [value]
    assert json_text(value) == "..."
    while value:  # taken apart here: its own end would recurse
        (value,) = value
