"""Type hints and field attributes of several libraries become short, valid schemas."""

import dataclasses
import datetime as dt
import json
import math
import re
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
    Lower,
    Marked,
    Model,
    Named,
    Node,
    Options,
    Pair,
    Pet,
    Point,
    Rights,
    Step,
    Struct,
    Validated,
    parameters,
    schema_of,
)
from typing_extensions import TypeAliasType

from mcpwire.server.authoring.schemas import Arg, attributes_of, check_pattern
from mcpwire.server.authoring.signature import BadArguments, read_signature

INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}


def record(title, required="", *, is_open=False, **properties):
    """Return the schema of a class; only pydantic's and msgspec's are open."""
    schema = {"title": title, "type": "object", "properties": properties}
    if required:
        schema["required"] = [required]
    return schema if is_open else {**schema, "additionalProperties": False}


def list_of(items, **bounds):
    return {"type": "array", "items": items, **bounds}


def one_of(*schemas):
    return {"anyOf": list(schemas)}


def choice(*values, **more):
    return {"type": "string", "enum": list(values), **more}


Alias = TypeAliasType("Alias", int)
BoundedAlias = TypeAliasType("BoundedAlias", Annotated[int, Arg(ge=1)])
Holder = dataclasses.make_dataclass("Holder", [("alias", BoundedAlias)])
Choice = dataclasses.make_dataclass("Choice", [("of", Literal["a", "b"], "a")])
MOST = ("most", float, math.inf)
Limit = dataclasses.make_dataclass("Limit", [MOST, ("least", int, -(2**80))])
LimitModel = pydantic.create_model("LimitModel", most=MOST[1:])
LimitStruct = msgspec.defstruct("LimitStruct", [MOST])
FROM_ONE = {"type": "integer", "minimum": 1}
RIGHTS = {"title": "Rights", "type": "integer", "minimum": 0, "examples": [1, 2, 4]}
DATE = {"type": "string", "format": "date"}
POINT = record("Point", "x", x=INTEGER, y={"type": "number", "default": 0.5})
BOUNDED = record(
    "Bounded",
    "x",
    x={"type": "integer", "minimum": 0, "description": "The x"},
    color=choice("red", "blue", default="red"),
    tags=list_of(STRING),
)
MODEL = record(
    "Model",
    "n",
    is_open=True,
    n=INTEGER,
    day=DATE,
    word={"type": "string", "maxLength": 3, "default": "a"},
)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (str, STRING),
        (Any, {}),
        (object, {}),
        (None, NULL),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Path, {"type": "string", "format": "path"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (dt.date, DATE),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (Annotated[dt.time, Arg()], {"type": "string", "format": "time"}),
        (Rights, RIGHTS),
        (Rights | None, one_of(RIGHTS, NULL)),
        (Id, INTEGER),
        (list[int], list_of(INTEGER)),
        (Sequence[int], list_of(INTEGER)),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Mapping[str, Any], {"type": "object"}),
        (tuple[int, ...], list_of(INTEGER)),
        (int | None, one_of(INTEGER, NULL)),
        (Literal["z", "a"], choice("z", "a")),
        (Literal[3, "a"], {"enum": [3, "a"]}),
        (Literal["a", None], one_of(choice("a"), NULL)),  # noqa: PYI061
        (Literal[None], NULL),  # noqa: PYI061
        (Color, choice("red", "blue", title="Color")),
        (Annotated[int, "How many"], {"type": "integer", "description": "How many"}),
        (
            Annotated[int, Arg(ge=1, lt=9, title="N", examples=(2, 3))],
            {**FROM_ONE, "exclusiveMaximum": 9, "title": "N", "examples": [2, 3]},
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
            one_of({"type": "string", "pattern": "^a", "maxLength": 1024}, INTEGER),
        ),
        (
            Annotated[int, annotated_types.Ge(1), annotated_types.MultipleOf(2)],
            {**FROM_ONE, "multipleOf": 2},
        ),
        (
            Annotated[list[int], annotated_types.Len(1, 3)],
            list_of(INTEGER, minItems=1, maxItems=3),
        ),
        (
            Annotated[int, msgspec.Meta(ge=1, description="From one on")],
            {**FROM_ONE, "description": "From one on"},
        ),
        (
            Annotated[int, pydantic.Field(ge=1, description="From one on")],
            {**FROM_ONE, "description": "From one on"},
        ),
        (
            Annotated[int | str | None, Arg(ge=1, max_length=3)],
            one_of(FROM_ONE, {"type": "string", "maxLength": 3}, NULL),
        ),
        (list[Annotated[int, Arg(ge=1)]], list_of(FROM_ONE)),
        (Point, POINT),
        (Bounded, BOUNDED),
        (Model, MODEL),
        (list[Model], list_of(MODEL)),
        (Point | Model, one_of(POINT, MODEL)),
        (Point | Bounded | None, one_of(one_of(POINT, BOUNDED), NULL)),
        (str | dt.date, one_of(STRING, DATE)),
        (
            Named,
            record(
                "Named",
                "name",
                name=STRING,
                _size={"type": "integer", "maximum": 9, "default": 1},
            ),
        ),
        (
            Options,
            record("Options", "b", a=INTEGER, b={**STRING, "description": "The b"}),
        ),
        (Marked, record("Marked", a=FROM_ONE)),
        (Struct, record("Struct", "a", is_open=True, a=INTEGER)),
        (
            Pair,
            {
                "title": "Pair",
                "type": "array",
                "prefixItems": [
                    {**INTEGER, "minimum": 0, "description": "The first"},
                    {**STRING, "default": "x"},
                ],
                "minItems": 1,
                "maxItems": 2,
            },
        ),
        (
            Validated,
            record(
                "Validated", "n", is_open=True, n={**INTEGER, "exclusiveMinimum": 0}
            ),
        ),
        (Even, INTEGER),
        (
            Lower,
            {**STRING, "maxLength": 3, "description": "Small", "x-mcp-header": "L"},
        ),
        (
            Pet,
            {
                "oneOf": [
                    {
                        **record(kind.title(), is_open=True),
                        "properties": {
                            "kind": {"const": kind, "type": "string"},
                            "lives": INTEGER,
                        },
                        "required": ["kind", "lives"],
                    }
                    for kind in ("cat", "dog")
                ]
            },
        ),
        (Alias, INTEGER),
        (BoundedAlias, FROM_ONE),
        (Holder, record("Holder", "alias", alias=FROM_ONE)),
        (dict[Alias, Alias], {"type": "object", "additionalProperties": INTEGER}),
        (Choice, record("Choice", of=choice("a", "b", default="a"))),
        (Limit, record("Limit", most={"type": "number"}, least=INTEGER)),
        (LimitModel, record("LimitModel", is_open=True, most={"type": "number"})),
        (LimitStruct, record("LimitStruct", is_open=True, most={"type": "number"})),
        (
            Annotated[dt.date, Arg(examples=[dt.date(2026, 7, 28)])],
            {**DATE, "examples": ["2026-07-28"]},
        ),
        (Annotated[Id | None, Arg(ge=1)], one_of(FROM_ONE, NULL)),
        (
            Annotated[Step | None, Arg(ge=1)],
            one_of({"type": "number", "multipleOf": 0.1, "minimum": 1}, NULL),
        ),
        (
            Annotated[BoundedAlias | None, Arg(le=9)],
            one_of({**FROM_ONE, "maximum": 9}, NULL),
        ),
        (
            Annotated[list[int] | bytes, Arg(max_length=3)],
            one_of(
                list_of(INTEGER, maxItems=3),
                {"type": "string", "contentEncoding": "base64", "maxLength": 4},
            ),
        ),
    ],
)
@pytest.mark.rule("SCH-05")
def test_schema_of_a_type_hint(hint, schema):
    found = schema_of(hint)
    assert found == schema
    jsonschema_rs.meta.validate(found)
    json.dumps(found, allow_nan=False)


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


class Doc:
    documentation = "What for"


@pytest.mark.parametrize(
    ("metadata", "facts"),
    [
        ([], {}),
        (["What for"], {"description": "What for"}),
        ([Arg("What for", ge=1)], {"description": "What for", "ge": 1}),
        ([Arg(ge=0, header="N")], {"ge": 0, "header": "N"}),
        ([annotated_types.Interval(ge=1, lt=3)], {"ge": 1, "lt": 3}),
        ([annotated_types.Len(1, 2)], {"min_length": 1, "max_length": 2}),
        ([annotated_types.Predicate(str.isdigit)], {}),
        ([msgspec.Meta(title="T", examples=[1])], {"title": "T", "examples": [1]}),
        (
            [pydantic.Field(ge=1, pattern="a", description="D")],
            {"ge": 1, "pattern": "a", "description": "D"},
        ),
        ([Doc()], {"description": "What for"}),
        (["first", "second"], {"description": "second"}),
        ([object(), 3, None, int, len], {}),
    ],
)
def test_known_metadata_is_read_and_the_rest_is_ignored(metadata, facts):
    assert attributes_of(metadata) == facts


def test_arg_description_is_the_first_argument():
    assert Arg("What for").description == "What for"
    with pytest.raises(TypeError):
        Arg("What for", "more")


@pytest.mark.attack("X12")
@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a*)*",
        "^(?:[a-z]+)*$",
        "((ab)*)*",
        "((a+))+",
        "(a|b+)*",
        "(?P<x>a+){2,}",
        "(?i:a+)*",
        "(a+)*?",
        "(a{2,})*",
        "(a{,})+",
        "([]a]+)*",
        r"(\x41+)*",
        r"(a)(\1*)*",
        "(x(a+)y)*",
        "(?=(a+)*)x",
        r"(\w+\w)*",  # the end can match the middle as well
        "(.*,)*",
        "(-a*-?)*",
        "(-a*a*)*",
        "(a+b)*(a+)*",
    ],
)
def test_pattern_with_nested_unbounded_repeats_is_refused(pattern):
    re.compile(pattern)
    with pytest.raises(TypeError) as caught:
        check_pattern(pattern)
    assert str(caught.value).startswith(f"the pattern {pattern!r} repeats ")


@pytest.mark.attack("X12")
@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a+",
        "^(a+)?$",
        "(a+){2,5}",
        "(a{2})*",
        "(a{x}+b)*",
        r"\(a+\)*",
        "[(a+)]*",
        r"^\d{4}-\d{2}$",
        r"^(?=.*[A-Z])(?=.*\d).+$",
        r"(a)\1*",
        "(?#a+)b*",
        "(a++)+",
        "(?>a+)*",
        "((?>a+))*",
        "(a+)*+",
        "^[a-z]+(-[a-z]+)*$",  # the hyphens can match in one way only
        r"(?i)([a-z]+\.)+[a-z]+",
        "(/[^/]+)*",
        "(a[bc]d+)*",
    ],
)
def test_pattern_with_unambiguous_repeats_is_accepted(pattern):
    re.compile(pattern)
    check_pattern(pattern)


def test_pattern_refusal_suggests_a_limit():
    with pytest.raises(TypeError) as caught:
        check_pattern("^x(a+b?)*")
    assert str(caught.value) == (
        "the pattern '^x(a+b?)*' repeats '(a+b?)' without limit and in it 'a+', which "
        "can take exponential time: limit one of them, such as {0,20}"
    )
