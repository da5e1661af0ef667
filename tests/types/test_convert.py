"""`CallToolResult.as_`: structured content as a type of the caller."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import sys
import types as stdlib_types
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import pytest
import typing_extensions

from mcpwire import types
from mcpwire.errors import InvalidMessage, ToolError

T = TypeVar("T")


def result(value):
    return types.CallToolResult([], value)


@dataclasses.dataclass
class Place:
    city: str
    height: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)
    note: str = dataclasses.field(default="", init=False)


@attrs.define
class Weather:
    place: Place
    _secret: int | None = None
    count: int = attrs.field(default=0, init=False)


class Person(typing_extensions.TypedDict):
    name: str
    age: NotRequired[int]


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    total: T | None = None


class Places(Page[Place]):
    pass


Items = typing_extensions.TypeAliasType("Items", list[T], type_params=(T,))


class Options(TypedDict, total=False):
    name: Required[str]
    age: int


class Colour(enum.Enum):
    RED = "red"


UserId = NewType("UserId", int)


def test_dataclasses_attrs_classes_and_typed_dicts_are_built():
    value = {"place": {"city": "Rome", "height": 21}, "secret": 7}
    weather = result(value | {"_secret": 7}).as_(Weather)
    assert weather == Weather(Place("Rome", 21.0), 7)
    assert type(weather.place.height) is float
    assert result({"name": "Ann", "more": 1}).as_(Person) == {"name": "Ann"}
    assert result({"name": "Ann"}).as_(Options) == {"name": "Ann"}
    assert result({"name": "Ann", "age": 5}).as_(Person) == {"name": "Ann", "age": 5}


@pytest.mark.parametrize(
    ("kind", "value", "expected_value"),
    [
        (Any, {"a": 1}, {"a": 1}),
        (object, [1], [1]),
        (None, None, None),
        (str, "a", "a"),
        (bool, True, True),
        (int, 5, 5),
        (int, 5.0, 5),
        (float, 5, 5.0),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1], [1]),
        (collections.abc.Sequence[int], [1], [1]),
        (set[str], ["a", "a"], {"a"}),
        (frozenset[str], ["a"], frozenset("a")),
        (tuple, [1, 2, 3], (1, 2, 3)),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (collections.abc.Mapping[str, Place], {"a": {"city": "R"}}, {"a": Place("R")}),
        (int | str, "a", "a"),
        (int | None, None, None),
        (Place | None, {"city": "R"}, Place("R")),
        (Literal["a", 1], 1, 1),
        (Annotated[int, ["unit"]], 1, 1),
        (UserId, 1, 1),
        (Page[Place], {"items": [{"city": "R"}]}, Page([Place("R")])),
        (Places, {"items": [{"city": "R"}]}, Places([Place("R")])),
        (Items[Items[Place]], [[{"city": "R"}]], [[Place("R")]]),
        (Colour, "red", Colour.RED),
    ],
)
def test_types_of_the_standard_library_are_built(kind, value, expected_value):
    converted = result(value).as_(kind)
    assert converted == expected_value
    assert type(converted) is type(expected_value)


@pytest.mark.parametrize(
    ("kind", "value", "path", "expected", "got"),
    [
        (str, 5, "", "str", "int"),
        (int, True, "", "int", "bool"),
        (int, 5.5, "", "int", "number"),
        (float, "5", "", "number", "str"),
        (None, 0, "", "null", "int"),
        (Place, [], "", "object", "array"),
        (Place, {}, ".city", "str", "nothing"),
        (Place, {"city": "R", "tags": ["a", 1]}, ".tags[1]", "str", "int"),
        (Weather, {"place": {"city": None}}, ".place.city", "str", "null"),
        (Page[int], {"items": ["x"]}, ".items[0]", "int", "str"),
        (Places, {"items": [], "total": {}}, ".total", "Place or NoneType", "object"),
        (Person, {"name": "", "age": ""}, ".age", "int", "str"),
        (Options, {}, ".name", "str", "nothing"),
        (Person, {"age": 1}, ".name", "str", "nothing"),
        (list[int], {}, "", "array", "object"),
        (tuple[int, str], [1], "", "array of 2 items", "1 items"),
        (tuple[int, str], 5, "", "array of 2 items", "int"),
        (dict[str, int], [], "", "object", "array"),
        (dict[str, int], {"a b": "x"}, '["a b"]', "int", "str"),
        (int | Place, "x", "", "int or Place", "str"),
        (Literal["a"], "b", "", "'a'", "str"),
        (Literal[1], True, "", "1", "bool"),
        (Colour, "blue", "", "Colour", "str ('blue' is not a valid Colour)"),
    ],
)
def test_mismatching_value_is_refused_with_its_path(kind, value, path, expected, got):
    with pytest.raises(InvalidMessage) as caught:
        result(value).as_(kind)
    assert caught.value.path == f"CallToolResult.structuredContent{path}"
    assert (caught.value.expected, caught.value.got) == (expected, got)


@attrs.define
class Tree:
    depth: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    inner: Tree | None = None


@attrs.define
class Typed:
    size: Any = attrs.field(validator=attrs.validators.instance_of(int))


def test_value_that_a_constructor_refuses_is_refused():
    with pytest.raises(InvalidMessage, match=r"'depth' must be >= 0: -1") as refused:
        result([{}, {"depth": -1}]).as_(list[Tree])
    assert refused.value.path == "CallToolResult.structuredContent[1]"
    value = {"depth": -1, "city": "Oslo"}
    assert result(value).as_(Tree | Place) == Place("Oslo")
    with pytest.raises(InvalidMessage, match="'size' must be <class 'int'>"):
        result({"size": "s"}).as_(Typed)


def test_value_that_is_nested_too_deeply_is_refused():
    value = None
    for _ in range(sys.getrecursionlimit()):
        value = {"inner": value}
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        result(value).as_(Tree)


def test_missing_structured_content_is_refused():
    with pytest.raises(InvalidMessage) as caught:
        types.CallToolResult([]).as_(Place)
    assert str(caught.value) == (
        "CallToolResult.structuredContent: expected Place, got nothing"
    )


def test_a_failed_call_raises_its_own_error():
    failed = types.CallToolResult([types.TextContent("no")], {"a": 1}, is_error=True)
    with pytest.raises(ToolError, match="no"):
        failed.as_(Place)


class Opaque:
    pass


@pytest.mark.parametrize("kind", [Opaque, bytes, "Place", collections.abc.Callable])
def test_unsupported_type_is_a_type_error(kind):
    with pytest.raises(TypeError, match="made from JSON"):
        result({}).as_(kind)


def test_unresolvable_annotation_is_a_type_error():
    @dataclasses.dataclass
    class Broken:
        field: "Nowhere"  # noqa: F821, UP037 - that is the point

    with pytest.raises(TypeError, match=r"a hint in Broken names 'Nowhere'"):
        result({"field": 1}).as_(Broken)


def test_type_alias_statement_is_followed():
    class Alias:
        __value__ = list[int]

    assert result([1]).as_(Alias) == [1]


# --- types that build themselves; fakes, since neither library is a dependency


class Model:
    """Has the interface of a pydantic model."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def model_validate(cls, value):
        if "bad" in value:
            raise ValueError("1 validation error\n  bad: not wanted")
        return cls(value)


def test_pydantic_model_validates_itself():
    assert result({"a": 1}).as_(Model).value == {"a": 1}
    nested = result({"models": [{"a": 1}]}).as_(dict[str, list[Model]])
    assert nested["models"][0].value == {"a": 1}


def test_pydantic_error_becomes_an_invalid_message():
    with pytest.raises(InvalidMessage) as caught:
        result([{"bad": 1}]).as_(list[Model])
    assert str(caught.value) == (
        "CallToolResult.structuredContent[0]: expected Model, got object "
        "(1 validation error bad: not wanted)"
    )
    assert isinstance(caught.value.__cause__, ValueError)


class Struct:
    """Has the interface of a msgspec struct."""

    __struct_fields__ = ("a",)


def test_msgspec_struct_is_converted_by_msgspec(monkeypatch):
    class ValidationError(Exception):
        pass

    def convert(value, type):
        if "a" not in value:
            raise ValidationError("Object missing required field `a`")
        return type, value

    library = stdlib_types.SimpleNamespace(
        convert=convert, ValidationError=ValidationError
    )
    monkeypatch.setitem(sys.modules, "msgspec", library)
    assert result({"a": 1}).as_(Struct) == (Struct, {"a": 1})
    with pytest.raises(InvalidMessage, match="missing required field"):
        result({}).as_(Struct)
