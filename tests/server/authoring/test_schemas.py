"""Type hints become schemas that are short and valid."""

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from hinted import (
    Bounded,
    BoundedNode,
    Color,
    Even,
    Id,
    Marked,
    Model,
    Named,
    Node,
    Options,
    Point,
    Struct,
    Validated,
    parameters,
    schema_of,
)
from typing_extensions import TypeAliasType

from mcpwire.server.authoring.schemas import Arg
from mcpwire.server.authoring.signature import BadArguments, read_signature

POINT = {
    "title": "Point",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}},
    "required": ["x"],
    "additionalProperties": False,
}
Alias = TypeAliasType("Alias", int)
BoundedAlias = TypeAliasType("BoundedAlias", Annotated[int, Arg(ge=1)])
Holder = dataclasses.make_dataclass("Holder", [("alias", BoundedAlias)])
HOLDER = {
    "title": "Holder",
    "type": "object",
    "properties": {"alias": {"type": "integer", "minimum": 1}},
    "required": ["alias"],
    "additionalProperties": False,
}
INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}
Choice = dataclasses.make_dataclass("Choice", [("of", Literal["a", "b"], "a")])
CHOICE = {
    "title": "Choice",
    "type": "object",
    "properties": {"of": {"type": "string", "enum": ["a", "b"], "default": "a"}},
    "additionalProperties": False,
}
NULL = {"type": "null"}
AT_LEAST_ONE = {"anyOf": [{"type": "integer", "minimum": 1}, NULL]}
UP_TO_NINE = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, NULL]}
SHORT = {
    "anyOf": [
        {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        {"type": "string", "contentEncoding": "base64", "maxLength": 4},
    ]
}
BOUNDED = {
    "title": "Bounded",
    "type": "object",
    "properties": {
        "x": {"type": "integer", "minimum": 0, "description": "The x"},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
MODEL = {
    "title": "Model",
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "day": {"type": "string", "format": "date"},
        "word": {"type": "string", "maxLength": 3, "default": "a"},
    },
    "required": ["n"],
}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (str, {"type": "string"}),
        (Any, {}),
        (object, {}),
        (None, {"type": "null"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Path, {"type": "string", "format": "path"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (dt.date, {"type": "string", "format": "date"}),
        (Id, {"type": "integer"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (Mapping[str, Any], {"type": "object"}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["z", "a"], {"type": "string", "enum": ["z", "a"]}),
        (Literal[3, "a"], {"enum": [3, "a"]}),
        (
            Literal["a", None],  # noqa: PYI061
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (Literal[None], {"type": "null"}),  # noqa: PYI061
        (Color, {"title": "Color", "type": "string", "enum": ["red", "blue"]}),
        (Annotated[int, "How many"], {"type": "integer", "description": "How many"}),
        (
            Annotated[int, Arg(ge=1, lt=9, title="N", examples=(2, 3))],
            {
                "type": "integer",
                "minimum": 1,
                "exclusiveMaximum": 9,
                "title": "N",
                "examples": [2, 3],
            },
        ),
        (
            Annotated[str, Arg(pattern="^a", min_length=1, header="Region")],
            {
                "type": "string",
                "pattern": "^a",
                "minLength": 1,
                "maxLength": 1024,
                "x-mcp-header": "Region",
            },
        ),
        (
            Annotated[str, Arg(pattern="^a", max_length=5_000)],
            {"type": "string", "pattern": "^a", "maxLength": 5_000},
        ),
        (
            Annotated[str | int, pydantic.Field(pattern="^a")],
            {
                "anyOf": [
                    {"type": "string", "pattern": "^a", "maxLength": 1024},
                    {"type": "integer"},
                ]
            },
        ),
        (
            Annotated[int, annotated_types.Ge(1), annotated_types.MultipleOf(2)],
            {"type": "integer", "minimum": 1, "multipleOf": 2},
        ),
        (
            Annotated[list[int], annotated_types.Len(1, 3)],
            {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 1,
                "maxItems": 3,
            },
        ),
        (
            Annotated[int, msgspec.Meta(ge=1, description="From one on")],
            {"type": "integer", "minimum": 1, "description": "From one on"},
        ),
        (
            Annotated[int, pydantic.Field(ge=1, description="From one on")],
            {"type": "integer", "minimum": 1, "description": "From one on"},
        ),
        (
            Annotated[int | str | None, Arg(ge=1, max_length=3)],
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1},
                    {"type": "string", "maxLength": 3},
                    {"type": "null"},
                ]
            },
        ),
        (
            list[Annotated[int, Arg(ge=1)]],
            {"type": "array", "items": {"type": "integer", "minimum": 1}},
        ),
        (Point, POINT),
        (Bounded, BOUNDED),
        (Model, MODEL),
        (list[Model], {"type": "array", "items": MODEL}),
        (Point | Model, {"anyOf": [POINT, MODEL]}),
        (
            Point | Bounded | None,
            {"anyOf": [{"anyOf": [POINT, BOUNDED]}, {"type": "null"}]},
        ),
        (
            str | dt.date,
            {"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]},
        ),
        (
            Named,
            {
                "title": "Named",
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "_size": {"type": "integer", "maximum": 9, "default": 1},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        ),
        (
            Options,
            {
                "title": "Options",
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "b": {"type": "string", "description": "The b"},
                },
                "required": ["b"],
                "additionalProperties": False,
            },
        ),
        (
            Marked,
            {
                "title": "Marked",
                "type": "object",
                "properties": {"a": {"type": "integer", "minimum": 1}},
                "additionalProperties": False,
            },
        ),
        (
            Struct,
            {
                "title": "Struct",
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
            },
        ),
        (
            Validated,
            {
                "title": "Validated",
                "type": "object",
                "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}},
                "required": ["n"],
            },
        ),
        (Even, {"type": "integer"}),
        (Alias, {"type": "integer"}),
        (BoundedAlias, {"type": "integer", "minimum": 1}),
        (Holder, HOLDER),
        (dict[Alias, Alias], INTEGERS),
        (Choice, CHOICE),
        (Annotated[Id | None, Arg(ge=1)], AT_LEAST_ONE),
        (Annotated[BoundedAlias | None, Arg(le=9)], UP_TO_NINE),
        (Annotated[list[int] | bytes, Arg(max_length=3)], SHORT),
    ],
)
@pytest.mark.rule("SCH-05")
def test_schema_of_a_type_hint(hint, schema):
    found = schema_of(hint)
    assert found == schema
    jsonschema_rs.meta.validate(found)


@pytest.mark.parametrize(
    ("hint", "default", "schema"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (int, None, {"type": "integer"}),
        (int | None, None, {"type": "integer"}),
        (int | str | None, None, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Annotated[int | None, "N"], None, {"type": "integer", "description": "N"}),
        (Color, Color.RED, {"title": "Color", "type": "string", "default": "red"}),
        (Path, Path("a"), {"type": "string", "format": "path", "default": "a"}),
        (list[int], [1], {"type": "array", "default": [1]}),
        (Point | None, None, POINT),
        (Any, object(), {}),
        (float, float("inf"), {"type": "number"}),
        (Model | None, None, MODEL),
    ],
)
def test_optional_parameter_has_a_minimal_schema(hint, default, schema):
    found = parameters(hint, default)
    shown = found.schema["properties"]["a"]
    assert {name: shown[name] for name in shown if name not in {"enum", "items"}} == {
        name: schema[name] for name in schema if name not in {"enum", "items"}
    }
    assert "required" not in found.schema
    assert found.convert({}) == {"a": default}


@pytest.mark.rule("TOOL-06")
def test_function_without_parameters_takes_no_arguments():
    def function(): ...

    parameters = read_signature(function).parameters
    assert parameters.schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert parameters.convert(None) == parameters.convert({}) == {}
    with pytest.raises(BadArguments, match=r"^unknown argument 'x'$"):
        parameters.convert({"x": 1})
    with pytest.raises(BadArguments, match="expected object, got array"):
        parameters.convert([])


def test_recursive_type_uses_a_reference():
    schema = parameters(Node).schema
    assert schema["properties"]["a"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["next"] == {"$ref": "#/$defs/Node"}
    deep = {"value": 1, "next": {"value": 2}}
    assert parameters(Node).convert({"a": deep}) == {"a": Node(1, Node(2))}


def test_two_types_with_one_name_get_distinct_definitions():
    def make(hint):
        tree = dataclasses.make_dataclass("Tree", [("value", hint), ("left", "Tree")])
        tree.__annotations__["left"] = tree | None
        return tree

    def function(a, b): ...

    def union(one):
        return one | Annotated[Bounded, "Makes a stand-in"]

    first, second = make(int), make(str)
    function.__annotations__ = {"a": union(first), "b": union(second)}
    schema = read_signature(function).parameters.schema
    assert set(schema["$defs"]) == {"Tree", "Tree_2"}
    left = schema["$defs"]["Tree_2"]["properties"]["left"]
    assert "#/$defs/Tree_2" in json.dumps(left)


@pytest.mark.parametrize(("leaf", "value"), [(Point, {"x": 1}), (Struct, {"a": 1})])
def test_large_schema_keeps_its_references(leaf, value):
    for number in range(14):
        leaf = dataclasses.make_dataclass(f"L{number}", [("a", leaf), ("b", leaf)])
    schema = parameters(leaf).schema
    assert len(json.dumps(schema)) < 60_000
    assert schema["$defs"]
    jsonschema_rs.meta.validate(schema)
    for _ in range(14):
        value = {"a": value, "b": value}
    assert jsonschema_rs.is_valid(schema, {"a": value})


def test_converted_dataclass_has_its_defaults():
    made = parameters(list[Point]).convert({"a": [{"x": 1}]})["a"]
    assert vars(made[0]) == {"x": 1, "y": 0.5}


def test_recursive_type_applies_bounds_at_every_level():
    schema = parameters(BoundedNode).schema
    node = schema["$defs"]["BoundedNode"]
    assert node["properties"] == {
        "value": {"type": "integer", "minimum": 0},
        "next": {"$ref": "#/$defs/BoundedNode"},
    }
    found = parameters(BoundedNode)
    deep = {"value": 1, "next": {"value": 2}}
    assert found.convert({"a": deep})["a"] == BoundedNode(1, BoundedNode(2))
    deep["next"]["value"] = -1
    with pytest.raises(BadArguments, match=r"a\.next\.value: expected integer >= 0"):
        found.convert({"a": deep})


@attrs.define
class Kept:
    """What it is."""

    of: Literal["a"]


@dataclasses.dataclass
class Told:
    """What it is for."""

    size: int = 1


@pytest.mark.parametrize(
    ("hint", "description"),
    [(Kept, "What it is."), (Told, "What it is for."), (Point, None)],
)
def test_class_docstring_is_the_description(hint, description):
    assert schema_of(hint).get("description") == description
