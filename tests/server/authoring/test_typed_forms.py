"""Forms from Python types, and definitions and results valid in each revision."""

import dataclasses
import datetime as dt
import json
from typing import Annotated, Literal, TypedDict

import attrs
import hinted
import msgspec
import pydantic
import pytest
import wirecheck
from hinted import Bounded, Color, Named, Node, Options, Point, parameters
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.elicitation import fill_form
from mcpwire.server.authoring.conversion import BadArguments
from mcpwire.server.authoring.forms import form_schema, read_answer
from mcpwire.server.authoring.results import (
    Audio,
    File,
    Image,
    Returns,
    prompt_result,
    read_returns,
    resource_contents,
    tool_result,
)
from mcpwire.server.authoring.schemas import Arg
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS

JUN_2025 = REVISIONS[2]


Size = Annotated[Literal["s", "l"], Arg("How big", choices={"s": "Small"})]


@dataclasses.dataclass
class Order:
    name: Annotated[str, Arg("Your name", min_length=1, max_length=9, pattern="^a")]
    count: Annotated[int, Arg(gt=0, lt=10)] = 1
    price: Annotated[float, Arg(ge=0.5, lt=9)] = 1.5
    color: Color = Color.BLUE
    size: Size | None = None
    day: dt.date | None = None
    at: dt.datetime | None = None
    id: Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})] = ""
    gift: bool = False


TEXT = {"type": "string"}
TITLES = [{"const": "s", "title": "Small"}, {"const": "l", "title": "l"}]


def choice(*values, **more):
    return {"type": "string", "enum": list(values), **more}


ORDER = {
    "type": "object",
    "properties": {
        "name": {**TEXT, "description": "Your name", "minLength": 1, "maxLength": 9},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "price": {"type": "number", "minimum": 0.5, "default": 1.5},
        "color": choice("red", "blue", title="Color", default="blue"),
        "size": {**TEXT, "description": "How big", "oneOf": TITLES},
        "day": {**TEXT, "format": "date"},
        "at": {**TEXT, "format": "date-time"},
        "id": {**TEXT, "default": ""},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["name"],
}


@pytest.mark.rule("ELIC-05")
@pytest.mark.parametrize("revision", [LATEST_SESSION, LATEST], ids=str)
def test_dataclass_becomes_a_form(revision):
    assert form_schema(Order, revision) == ORDER


@pytest.mark.rule("ELIC-05")
def test_form_of_2025_06_uses_enum_names_and_few_defaults():
    fields = form_schema(Order, JUN_2025)["properties"]
    assert [name for name in fields if "default" in fields[name]] == ["gift"]
    names = ["Small", "l"]
    assert fields["size"] == choice("s", "l", description="How big", enumNames=names)


class Typed(TypedDict, total=False):
    name: str


@attrs.define
class Attrs:
    name: str
    many: list[Color] = attrs.Factory(list)


class Struct(msgspec.Struct):
    name: str
    color: Literal["red"] = "red"


class Model(pydantic.BaseModel):
    name: pydantic.constr(max_length=3)
    color: Color = Color.RED
    site: pydantic.HttpUrl | None = None


Titled = list[Size]


@pytest.mark.parametrize(
    ("given", "properties", "required"),
    [
        (None, {}, None),
        (Typed, {"name": TEXT}, None),
        (
            Attrs,
            {"name": TEXT, "many": {"type": "array", "items": choice("red", "blue")}},
            ["name"],
        ),
        (Struct, {"name": TEXT, "color": choice("red", default="red")}, ["name"]),
        (
            Model,
            {
                "name": {**TEXT, "maxLength": 3},
                "color": choice("red", "blue", default="red"),
                "site": {**TEXT, "format": "uri", "minLength": 1, "maxLength": 2083},
            },
            ["name"],
        ),
        (str, {"value": TEXT}, ["value"]),
        (bool, {"value": {"type": "boolean"}}, ["value"]),
        (dt.datetime, {"value": {**TEXT, "format": "date-time"}}, ["value"]),
        (int | None, {"value": {"type": "integer"}}, ["value"]),
        (Literal["a"], {"value": choice("a")}, ["value"]),
        (Titled, {"value": {"type": "array", "items": {"anyOf": TITLES}}}, ["value"]),
    ],
    ids=range(11),
)
@pytest.mark.rule("ELIC-05")
def test_types_with_plain_fields_become_forms(given, properties, required):
    form = form_schema(given, LATEST)
    expected = {"type": "object", "properties": properties}
    if required is not None:
        expected["required"] = required
    assert form == expected


BY_HAND = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "dropped",
    "properties": {
        "old": choice("a", enumNames=["A"]),
        "new": {**TEXT, "oneOf": [{"const": "a", "title": "A"}]},
        "one": {"const": "a"},
        "mail": {**TEXT, "format": "email", "default": "a@b.example"},
    },
    "required": ["old"],
}


@pytest.mark.parametrize(
    ("revision", "new", "extra"),
    [
        (LATEST, {"oneOf": [{"const": "a", "title": "A"}]}, {"$schema"}),
        (JUN_2025, {"enum": ["a"], "enumNames": ["A"]}, set()),
    ],
    ids=str,
)
@pytest.mark.rule("ELIC-05")
def test_explicit_schema_is_adapted_to_the_revision(revision, new, extra):
    form = form_schema(BY_HAND, revision)
    assert set(form) == {"type", "properties", "required"} | extra
    fields = form["properties"]
    assert fields["old"] == choice("a", enumNames=["A"])
    assert fields["new"] == {**TEXT, **new}
    assert fields["one"] == choice("a")
    assert ("default" in fields["mail"]) is (revision is LATEST)


@dataclasses.dataclass
class Nested:
    inner: Typed


def one(field):
    return {"type": "object", "properties": {"f": field}}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Nested, "the form's field 'inner': it must be a text, a number"),
        (list[str], "the form's field 'value': a list is of texts that may be chosen"),
        (dict[str, int], "no fields"),
        (complex, "cannot make a form of"),
        (Literal[1, 2], "the form's field 'value': its choices have to be texts"),
        (int | str, "the form's field 'value': it may be one of several kinds"),
        (one({"type": "object"}), "the form's field 'f': it must be"),
        (one({"type": ["string"]}), "the form's field 'f': it must be"),
        (one({"$ref": "#/x"}), "the form's field 'f': it must be"),
        (one(True), "the form's field 'f': it must be"),
        (one({"type": "array", "items": {"type": "string"}}), "a list is of texts"),
        (one({"type": "array"}), "a list is of texts"),
        (one({"anyOf": [{"type": "string"}, {"type": "integer"}]}), "several kinds"),
        ({"type": "array"}, "a form is an object with properties"),
        ({"type": "object", "properties": []}, "a form is an object with properties"),
        ({"type": "object", "required": ["x"]}, "'x': it is required, but"),
    ],
    ids=range(16),
)
@pytest.mark.rule("ELIC-05")
def test_unsupported_form_field_is_refused_by_name(given, reason):
    with pytest.raises(LocalProtocolError) as caught:
        form_schema(given, LATEST)
    assert reason in str(caught.value)


@pytest.mark.rule("ELIC-05")
def test_lists_of_choices_are_refused_before_2025_11():
    with pytest.raises(LocalProtocolError, match="'many': lists of choices exist"):
        form_schema(Attrs, JUN_2025)


@pytest.mark.parametrize(
    ("given", "content", "value"),
    [
        (
            Order,
            {"name": "ab", "count": 2.0, "color": "red", "day": "2026-07-28"},
            Order("ab", 2, color=Color.RED, day=dt.date(2026, 7, 28)),
        ),
        (Order, {"name": "ab", "size": None}, Order("ab")),
        (Typed, {}, {}),
        (Attrs, {"name": "a", "many": ["red"]}, Attrs("a", [Color.RED])),
        (Struct, {"name": "a"}, Struct("a")),
        (Model, {"name": "a"}, Model(name="a")),
        (str, {"value": "a"}, "a"),
        (list[Color], {"value": ["red"]}, [Color.RED]),
        (BY_HAND, {"old": "a"}, {"old": "a"}),
        (None, {}, {}),
        (BY_HAND, {"old": "a", "zz": 1}, {"old": "a"}),
    ],
    ids=range(11),
)
@pytest.mark.rule("ELIC-20")
def test_answer_is_converted_to_the_form_type(given, content, value):
    assert read_answer(given, content) == value


@pytest.mark.parametrize(
    ("given", "content", "faults"),
    [
        (Order, {}, ["content.name is missing"]),
        (
            Order,
            {"name": "", "count": 10, "color": "green"},
            [
                "content.name: 0 characters, the minimum is 1",
                "content.count: 10 is above the maximum 9",
                "content.color: 'green' is not one of 'red', 'blue'",
            ],
        ),
        (Order, {"name": "b"}, ["content.name: expected string matching regex '^a',"]),
        (Order, {"name": "a", "price": 9.0}, ["content.price: expected number < 9"]),
        (str, {"value": 3}, ["content.value: expected text, got 3"]),
        (str, {}, ["content.value is missing"]),
        (BY_HAND, {"old": "b"}, ["content.old: 'b' is not one of 'a'"]),
        (BY_HAND, {"old": "a", "mail": "x"}, ["content.mail: 'x' is not an email"]),
        (Order, [], ["content: expected object, got array"]),
        (Order, None, ["content: expected object, got null"]),
    ],
    ids=range(10),
)
@pytest.mark.rule("ELIC-20")
def test_invalid_answer_is_reported(given, content, faults):
    with pytest.raises(BadArguments) as caught:
        read_answer(given, content)
    found = caught.value.faults
    assert len(found) == len(faults)
    assert all(map(str.startswith, found, faults)), found


def test_invalid_form_schema_is_a_local_error():
    form = one({"type": "string", "minLength": "three"})
    with pytest.raises(LocalProtocolError, match="the form is not valid"):
        read_answer(form, {})


CONTENT = st.fixed_dictionaries(
    {"name": st.just("a")},
    optional={
        "count": st.integers(1, 9) | st.sampled_from([2.0, 9.0]),
        "price": st.floats(0.5, 8.5),
        "color": st.sampled_from(["red", "blue"]),
        "size": st.sampled_from(["s", "l"]),
        "gift": st.booleans(),
    },
)


@given(CONTENT, st.sampled_from(REVISIONS[2:]))
def test_form_filled_by_a_client_is_readable_by_the_server(content, revision):
    form = json.loads(json.dumps(form_schema(Order, revision)))
    sent = fill_form(types.decode(types.RequestedSchema, form), content, revision)
    value = read_answer(Order, json.loads(json.dumps(sent)))
    assert isinstance(value, Order)
    assert value.count == content.get("count", 1)


PNG = b"\x89PNG\r\n\x1a\n"

VALUES = [
    "hi",
    None,
    3,
    [1, "a"],
    {"a": None},
    Point(1),
    b"x",
    Image(PNG),
    Audio(b"fLaC"),
    File(b"x", mime_type="text/plain"),
    types.ResourceLink(uri="test://a", name="a"),
    types.AudioContent(data="eA==", mime_type="audio/wav"),
    ["a", Image(PNG), types.TextContent("t"), {"b": 1}],
    types.CallToolResult([types.TextContent("t")], {"a": 1}),
]


@pytest.fixture(params=REVISIONS, ids=str)
def revision(request):
    return request.param


@pytest.fixture
def faults(spec_dir, revision):
    return lambda name, value: list(
        wirecheck.load(spec_dir)[revision.name].problems(name, value)
    )


def completed(result, revision):
    # The dispatcher adds resultType; these functions do not.
    return {**result, "resultType": "complete"} if revision is LATEST else result


@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize(
    ("returns", "value"),
    [
        *((Returns(), value) for value in VALUES),
        (read_returns(int | list[int]), 3),
        (read_returns(int | list[int]), [3]),
        (read_returns(Point), Point(1)),
        (read_returns(None, output_schema={"type": "array"}), [1]),
        (read_returns(None, output_schema={}), None),
    ],
)
def test_tool_result_is_valid(faults, revision, returns, value):
    result = tool_result(value, returns, revision)
    assert faults("CallToolResult", completed(result, revision)) == []


@pytest.mark.parametrize("value", [*VALUES[:-4], VALUES[-2]])
def test_prompt_result_is_valid(faults, revision, value):
    result = prompt_result([] if value is None else value, "What for", revision)
    assert faults("GetPromptResult", completed(result, revision)) == []


@pytest.mark.parametrize("value", [*VALUES[:10], ["a", b"x"]])
def test_resource_contents_are_valid(faults, revision, value):
    result = {"contents": resource_contents(value, "test://a")}
    if revision is LATEST:
        result |= {"ttlMs": 0, "cacheScope": "private"}
    assert faults("ReadResourceResult", completed(result, revision)) == []


HINTS = [int, Point, Bounded, hinted.Model, Named, Node, Options, Color]
HINTS.append(list[Point | Named])


@pytest.mark.rule("SCH-05", "TOOL-06")
@pytest.mark.parametrize("hint", HINTS)
def test_tool_definition_is_valid(faults, hint):
    tool = {
        "name": "a",
        "inputSchema": parameters(hint).schema,
        "outputSchema": read_returns(hint).schema,
    }
    assert faults("Tool", tool) == []


FORMS = [Order, BY_HAND, str, Color, bool, None]
WITH_LISTS = [*FORMS, Attrs, Titled]


@pytest.mark.rule("ELIC-05")
@pytest.mark.parametrize(
    ("revision", "forms"),
    [(REVISIONS[2], FORMS), (LATEST_SESSION, WITH_LISTS), (LATEST, WITH_LISTS)],
    indirect=["revision"],
    ids=["first", "session", "latest"],
)
def test_form_fields_are_valid(faults, revision, forms):
    for form in forms:
        for field in form_schema(form, revision)["properties"].values():
            assert faults("PrimitiveSchemaDefinition", field) == []
