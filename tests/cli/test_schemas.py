"""Reading JSON Schemas for display: types, choices, properties, odd input."""

import pytest
from hypothesis import given
from proportion import grows_in_proportion
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
def test_kinds_of_a_schema(schema, kinds):
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
def test_choices_of_a_schema(schema, choices):
    assert SchemaReader(ROOT).choices(schema) == choices


def test_properties_include_those_of_subschemas():
    schema = {
        "properties": {"a": 1},
        "allOf": [{"properties": {"b": 2}}, {"$ref": "#/$defs/c"}],
        "anyOf": [{"properties": {"d": 4, "a": 0}}],
        "$defs": {"c": {"properties": {"c": 3}}},
    }
    assert SchemaReader(schema).properties() == {"a": 1, "d": 4, "b": 2, "c": 3}
    assert list(SchemaReader(schema).properties()) == ["a", "d", "b", "c"]


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"required": ["a", 1, None]}, ["a"]),
        ({"required": "a"}, []),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"required": ["b"]}}}, ["b"]),
        (True, []),
    ],
)
def test_required_names_of_a_schema(schema, names):
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
def test_schema_is_open_if_other_members_are_allowed(schema, is_open):
    assert SchemaReader(schema).is_open() is is_open


@given(JSON)
def test_reader_accepts_any_json_as_a_schema(schema):
    reader = SchemaReader(schema)
    assert set(reader.kinds(schema)) <= set(KINDS)
    assert isinstance(reader.choices(schema), list | None)
    assert isinstance(reader.properties(), dict)
    assert isinstance(reader.required(), list)
    assert isinstance(reader.is_open(), bool)


def test_recursive_schema_is_read_in_bounded_time(monkeypatch):
    steps = []
    resolve = SchemaReader.resolve

    def counted(self, schema):
        steps.append(1)
        return resolve(self, schema)

    monkeypatch.setattr(SchemaReader, "resolve", counted)
    schema = {"anyOf": [{"$ref": "#"}] * 300, "properties": {"a": {"$ref": "#"}}}
    reader = SchemaReader(schema)
    reader.kinds(schema)
    reader.choices(schema)
    reader.properties()
    assert len(steps) < 4 * MAX_STEPS  # instead of 300 ** MAX_DEPTH


@pytest.mark.parametrize("keyword", ["properties", "$defs"])
@pytest.mark.parametrize("reference", [{"$ref": "#/x"}, {"$ref": "#/x", "title": ""}])
def test_subschema_that_many_references_share_is_read_once(keyword, reference):
    def make(size):
        members = {f"member {number}": True for number in range(30 * size)}
        shared = {"properties": members} if keyword == "properties" else members
        return {"x": shared, "anyOf": [reference] * size}

    def read(schema):
        SchemaReader(schema).properties()

    assert grows_in_proportion(read, make, 2_000)  # MAX_STEPS allows more


def test_too_deep_value_is_written_as_dots():
    value = []
    for _ in range(100_000):
        value = [value]
    assert json_text(value) == "..."
    while value:  # taken apart here: its deallocation would recurse
        (value,) = value
