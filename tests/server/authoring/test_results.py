"""Return values are converted to results of each revision."""

import base64
import dataclasses
import datetime as dt
import json
import sys
import uuid
from collections import ChainMap, OrderedDict, UserString, deque
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from hinted import Bounded, Color, Model, Node, Pair, Point, Rights, Struct, Words
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import LocalProtocolError
from mcpwire.server.authoring.conversion import to_json_value
from mcpwire.server.authoring.results import (
    Audio,
    BadResult,
    File,
    Image,
    Media,
    Returns,
    prompt_result,
    read_returns,
    resource_contents,
    tool_result,
)
from mcpwire.server.authoring.schemas import Arg
from mcpwire.types import UNSET
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS

NOV_2024, MAR_2025, JUN_2025, *_ = REVISIONS
PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = {
    "type": "image",
    "data": base64.b64encode(PNG).decode(),
    "mimeType": "image/png",
}
BLOB = {"uri": "file:///data", "mimeType": "application/octet-stream", "blob": "eA=="}
FILE = {"type": "resource", "resource": BLOB}
AUDIO = {"type": "audio", "data": "eA==", "mimeType": "audio/wav"}
LINK = types.ResourceLink(uri="test://a", name="a")
SOUND = types.AudioContent(data="eA==", mime_type="audio/wav")
TEXT = types.TextContent("t")
CONTENTS = types.TextResourceContents(uri="test://a", text="x")


def text(value):
    return {"type": "text", "text": value}


class Text(str):
    __slots__ = ()

    def __str__(self):
        return self


class Count(int): ...


class Amount(float): ...


@pydantic.dataclasses.dataclass
class Aliased:
    n: int = pydantic.Field(serialization_alias="number")


def result_of(value, hint=Any, revision=LATEST, **options):
    return tool_result(value, read_returns(hint, **options), revision)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("", [text("")]),
        ("hi", [text("hi")]),
        (None, []),
        (True, [text("true")]),
        (3, [text("3")]),
        (1.5, [text("1.5")]),
        (Text("hi"), [text("hi")]),
        (Count(3), [text("3")]),
        ([Amount(1.5), Text("a")], [text('[1.5,"a"]')]),
        ([], [text("[]")]),
        ([1, "a"], [text('[1,"a"]')]),
        ((1, 2), [text("[1,2]")]),
        (Color.RED, [text('"red"')]),
        (Path("a"), [text('"a"')]),
        (dt.date(2026, 7, 28), [text('"2026-07-28"')]),
        (b"x", [FILE]),
        (bytearray(b"x"), [FILE]),
        (Image(PNG), [IMAGE]),
        (
            Audio(b"fLaC"),
            [{"type": "audio", "data": "ZkxhQw==", "mimeType": "audio/flac"}],
        ),
        (File(b"x"), [FILE]),
        (TEXT, [text("t")]),
        (LINK, [{"type": "resource_link", "uri": "test://a", "name": "a"}]),
        (
            CONTENTS,
            [{"type": "resource", "resource": {"uri": "test://a", "text": "x"}}],
        ),
        (
            ["a", Image(PNG), {"b": 1}, TEXT],
            [text("a"), IMAGE, text('{"b":1}'), text("t")],
        ),
        ([TEXT], [text("t")]),
        (types.CallToolResult([TEXT]), [text("t")]),
    ],
)
def test_any_value_is_converted_to_content(value, content):
    result = result_of(value)
    assert result["content"] == content
    assert "structuredContent" not in result


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": 1}, {"a": 1}),
        ({1: Color.RED, 2: UserString("b")}, {"1": "red", "2": "b"}),
        (MappingProxyType({"a": deque([range(2)])}), {"a": [[0, 1]]}),
        (Point(1), {"x": 1, "y": 0.5}),
        (Struct(1), {"a": 1}),
        (Model(n=1), {"n": 1, "day": None, "word": "a"}),
    ],
)
@pytest.mark.rule("TOOL-10")
def test_object_is_structured_content_and_text(value, data):
    result = result_of(value)
    assert result["structuredContent"] == data
    (block,) = result["content"]
    assert json.loads(block["text"]) == data


SOUND_DATA = {"type": "audio", "data": "eA==", "mimeType": "audio/wav"}
TOOL = types.Tool("a", {}, meta={"a/b": 1})
TOOL_DATA = {"name": "a", "inputSchema": {}, "_meta": {"a/b": 1}}
TOOLS = types.ListToolsResult([TOOL], meta={"c/d": [TOOL]})
TOOLS_DATA = {
    "tools": [TOOL_DATA],
    "resultType": "complete",
    "_meta": {"c/d": [TOOL_DATA]},
}


@dataclasses.dataclass(frozen=True)
class Report:
    sound: types.AudioContent
    tools: Sequence[types.Tool] = ()


@attrs.frozen
class Holder:
    item: Any


class Loose(pydantic.BaseModel):
    item: Any


class Renamed(msgspec.Struct, rename="camel", frozen=True):
    the_item: types.Tool | Holder


class Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    tool: types.Tool
    number: int = 1


class Listed(NamedTuple):
    tool: types.Tool


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (TOOL, TOOL_DATA),
        ({"a": TOOL, "b": 1}, {"a": TOOL_DATA, "b": 1}),
        ({"a": [1, {2: SOUND}]}, {"a": [1, {"2": SOUND_DATA}]}),
        (Report(SOUND, [TOOL]), {"sound": SOUND_DATA, "tools": [TOOL_DATA]}),
        (Holder(Renamed(Holder(TOOL))), {"item": {"theItem": {"item": TOOL_DATA}}}),
        ({"a": TOOLS}, {"a": TOOLS_DATA}),
        (Loose(item={"b": [TOOL]}), {"item": {"b": [TOOL_DATA]}}),
        ({"a": pydantic.RootModel[Any](TOOL)}, {"a": TOOL_DATA}),
    ],
)
def test_protocol_types_in_data_have_the_names_of_the_specification(value, data):
    before = repr(value)
    result = result_of(value)
    assert result["structuredContent"] == data
    assert json.loads(result["content"][0]["text"]) == data
    assert repr(value) == before


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ([TOOL], [TOOL_DATA]),
        ((TOOL, "a"), [TOOL_DATA, "a"]),
        ([[SOUND]], [[SOUND_DATA]]),
    ],
)
def test_list_of_protocol_types_other_than_content_is_json(value, data):
    (block,) = result_of(value)["content"]
    assert json.loads(block["text"]) == data
    (contents,) = resource_contents(value, "test://a")
    assert json.loads(contents["text"]) == data


@pytest.mark.parametrize(
    ("hint", "value", "data", "wrong"),
    [
        (dict[str, types.Tool], {"a": TOOL}, {"a": TOOL_DATA}, {"a": {"name": 1}}),
        (
            Report,
            Report(SOUND, [TOOL]),
            {"sound": SOUND_DATA, "tools": [TOOL_DATA]},
            {"sound": {**SOUND_DATA, "type": "image"}},
        ),
        (
            dict[str, types.ContentBlock | None],
            {"a": SOUND, "b": LINK, "c": None},
            {
                "a": SOUND_DATA,
                "b": {"type": "resource_link", "uri": "test://a", "name": "a"},
                "c": None,
            },
            {"a": {"text": "x"}},
        ),
        (Renamed, Renamed(TOOL), {"theItem": TOOL_DATA}, {"theItem": {}}),
        (dict[str, Entry], {"a": Entry(TOOL)}, {"a": [TOOL_DATA, 1]}, {"a": [{}]}),
        (dict[str, Listed], {"a": Listed(TOOL)}, {"a": (TOOL_DATA,)}, {"a": []}),
        (
            dict[str, types.ListToolsResult],
            {"a": TOOLS},
            {"a": TOOLS_DATA},
            {"a": {"tools": 1}},
        ),
        (
            dict[str, types.ReadResourceResult],
            {"a": types.ReadResourceResult([CONTENTS])},
            {
                "a": {
                    "contents": [{"uri": "test://a", "text": "x"}],
                    "resultType": "complete",
                }
            },
            {"a": {"contents": [{}]}},
        ),
    ],
)
def test_schema_of_protocol_types_in_data_matches_it(hint, value, data, wrong):
    schema = read_returns(hint).schema
    jsonschema_rs.meta.validate(schema)
    assert result_of(value, hint)["structuredContent"] == data
    jsonschema_rs.validate(schema, data)
    with pytest.raises(BadResult):
        result_of(wrong, hint)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, wrong)


def test_protocol_type_fits_an_explicit_schema():
    schema = {"type": "object", "required": ["inputSchema"]}
    assert result_of(TOOL, output_schema=schema)["structuredContent"] == TOOL_DATA


@pytest.mark.parametrize("value", [{"a": 1}, Point(1)])
def test_structured_content_can_be_switched_off(value):
    assert "structuredContent" not in result_of(value, dict, structured=False)


@pytest.mark.parametrize(
    ("hint", "value", "data", "shown"),
    [
        (int, 3, {"result": 3}, "3"),
        (int, 3.0, {"result": 3.0}, "3.0"),
        (str, "hi", {"result": "hi"}, "hi"),
        (bool, True, {"result": True}, "true"),
        (float, 1, {"result": 1}, "1"),
        (int | None, None, {"result": None}, "null"),
        (Literal["a", None], None, {"result": None}, "null"),  # noqa: PYI061
        (list[int], [1, 2], {"result": [1, 2]}, "[1,2]"),
        (tuple[int, str], (1, "x"), {"result": (1, "x")}, '[1,"x"]'),
        (dict[str, int], {"a": 1}, {"a": 1}, '{"a":1}'),
        (Mapping[str, int], ChainMap({"a": 1}), {"a": 1}, '{"a":1}'),
        (Iterable[int], {"a": 1}.values(), {"result": [1]}, "[1]"),
        (set[str], {"a": 1}.keys(), {"result": ["a"]}, '["a"]'),
        (str, Text("hi"), {"result": "hi"}, "hi"),
        (int, Count(3), {"result": 3}, "3"),
        (Words, ["a b"], {"result": ["a b"]}, '["a b"]'),
        (dict[str, float], {"a": Amount(1)}, {"a": 1.0}, '{"a":1.0}'),
        (Point, Point(1), {"x": 1, "y": 0.5}, '{"x":1,"y":0.5}'),
        (Point, {"x": 1}, {"x": 1}, '{"x":1}'),
        (Color, Color.RED, {"result": "red"}, "red"),
        (Rights, Rights.READ | Rights.RUN, {"result": 5}, "5"),
        (list[Model], [Model(n=1)], None, None),
        (Point | Struct, Struct(1), {"result": {"a": 1}}, '{"a":1}'),
        (Pair, Pair(1), {"result": (1, "x")}, '[1,"x"]'),
        (Annotated[int, Arg("How many")], 3, {"result": 3}, "3"),
        (Aliased, Aliased(n=1), {"n": 1}, '{"n":1}'),
        (list[Aliased], [Aliased(n=1)], {"result": [{"n": 1}]}, '[{"n":1}]'),
    ],
)
@pytest.mark.rule("TOOL-10", "TOOL-11")
def test_structured_content_matches_the_schema_of_the_hint(hint, value, data, shown):
    returns = read_returns(hint)
    result = tool_result(value, returns, LATEST)
    jsonschema_rs.meta.validate(returns.schema)
    jsonschema_rs.validate(returns.schema, result["structuredContent"])
    assert returns.schema["type"] == "object"
    if data is not None:
        assert result == {"content": [text(shown)], "structuredContent": data}


def test_schema_of_a_recursive_type_has_an_object_root():
    schema = read_returns(Node).schema
    assert schema["type"] == "object"
    result = result_of(Node(1, Node(2)), Node)
    jsonschema_rs.validate(schema, result["structuredContent"])


def test_list_of_a_recursive_type_uses_a_reference():
    schema = read_returns(list[Node]).schema
    assert schema["properties"]["result"]["items"] == {"$ref": "#/$defs/Node"}
    assert "Node" in schema["$defs"]


@pytest.mark.parametrize(
    "hint",
    [
        Any,
        None,
        object,
        bytes,
        list,
        list[Any],
        tuple,
        Sequence,
        types.TextContent,
        types.ContentBlock,
        types.CallToolResult,
        list[types.ContentBlock],
        str | types.ImageContent,
        list[str | Image],
        Image,
        Image | None,
        tuple[Image, ...],
    ],
)
def test_content_and_untyped_hints_have_no_output_schema(hint):
    returns = read_returns(hint)
    assert returns.schema is None
    with pytest.raises(TypeError, match="structured=True needs an output_schema="):
        read_returns(hint, structured=True)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "3"),
        (int, 1.5),
        (int, None),
        (str, 3),
        (list[int], [1, "x"]),
        (list[int], [1.0, "x"]),
        (Point, {"y": 1}),
        (Bounded, Bounded(-1)),
        (Model, {"n": "x"}),
        (int, TEXT),
        (dict[str, int], types.CallToolResult([])),
    ],
)
@pytest.mark.rule("TOOL-11")
@pytest.mark.case("F10")
def test_result_violating_its_schema_is_refused(hint, value):
    with pytest.raises(BadResult):
        result_of(value, hint)


def test_validate_false_skips_output_validation():
    result = result_of({"y": 1}, Point, validate=False)
    assert result["structuredContent"] == {"y": 1}
    assert result_of("x", int, validate=False)["structuredContent"] == {"result": "x"}
    schema = {"type": "object", "required": ["x"]}
    assert (
        result_of({}, output_schema=schema, validate=False)["structuredContent"] == {}
    )


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.rule("TOOL-11")
def test_explicit_output_schema_is_enforced():
    result = result_of(Model(n=1), output_schema=SCHEMA)
    assert result["structuredContent"]["n"] == 1
    with pytest.raises(BadResult, match=r"structuredContent\.n: expected type"):
        result_of({"n": "x"}, output_schema=SCHEMA)


def test_output_is_not_validated_without_jsonschema_rs(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert result_of({"n": "x"}, output_schema=SCHEMA)["structuredContent"] == {
        "n": "x"
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"output_schema": []}, "expected an object"),
        ({"output_schema": {"type": "nothing"}}, "output_schema: the schema cannot"),
        ({"output_schema": SCHEMA, "structured": False}, "structured=False"),
    ],
)
def test_invalid_output_schema_is_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        read_returns(Any, **options)


# --- revisions


@pytest.mark.parametrize(
    ("value", "revision", "has_data"),
    [
        ({"a": 1}, MAR_2025, False),
        ({"a": 1}, JUN_2025, True),
        ([1], LATEST_SESSION, False),
        ([1], LATEST, True),
        (None, LATEST_SESSION, False),
        (None, LATEST, True),
    ],
)
@pytest.mark.rule("TOOL-13")
def test_non_object_structured_content_needs_2026(value, revision, has_data):
    result = result_of(value, output_schema={}, revision=revision)
    assert ("structuredContent" in result) is has_data
    assert len(result["content"]) == 1


class Row(msgspec.Struct, array_like=True):
    number: int


@pytest.mark.parametrize("value", [Row(1), pydantic.RootModel[list[int]]([1])])
@pytest.mark.rule("TOOL-13")
def test_model_whose_json_is_an_array_is_structured_content_since_2026(value):
    for revision in REVISIONS:
        result = result_of(value, revision=revision)
        assert ("structuredContent" in result) is (revision == LATEST)
        assert result["content"] == [text("[1]")]


@pytest.mark.rule("TOOL-13")
def test_wrapped_value_is_structured_content_since_2025_06():
    for revision in REVISIONS:
        result = result_of(3, int, revision)
        assert ("structuredContent" in result) is (revision >= JUN_2025)


@pytest.mark.parametrize(
    ("revision", "block"),
    [
        (LATEST, AUDIO),
        (MAR_2025, AUDIO),
        (
            NOV_2024,
            {
                "type": "resource",
                "resource": {
                    "uri": "file:///audio",
                    "mimeType": "audio/wav",
                    "blob": "eA==",
                },
            },
        ),
    ],
)
def test_audio_becomes_a_resource_before_2025_03(revision, block):
    assert result_of(SOUND, revision=revision)["content"] == [block]
    prebuilt_result = types.CallToolResult([SOUND])
    assert result_of(prebuilt_result, revision=revision)["content"] == [block]


def test_resource_link_becomes_text_before_2025_06():
    assert result_of(LINK, revision=MAR_2025)["content"] == [text("a: test://a")]
    assert result_of([TEXT], revision=NOV_2024)["content"] == [text("t")]


# --- results given as CallToolResult


def prebuilt_result(content=(), structured=UNSET, **more):
    return types.CallToolResult(list(content), structured, **more)


@pytest.mark.parametrize("data", [{"n": 1}, OrderedDict(n=1)])
@pytest.mark.parametrize("revision", [LATEST_SESSION, LATEST], ids=str)
def test_call_tool_result_is_sent_unchanged(data, revision):
    value = prebuilt_result([TEXT], data, is_error=False, meta={"a/b": 1})
    result = result_of(value, output_schema=SCHEMA, revision=revision)
    assert result["content"] == [text("t")]
    assert result["structuredContent"] == {"n": 1}
    assert result["_meta"] == {"a/b": 1}


@pytest.mark.rule("TOOL-10")
def test_result_with_only_structured_content_gets_text():
    assert result_of(prebuilt_result((), {"n": 1}))["content"] == [text('{"n":1}')]


@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize("data", [[1], None, 3])
def test_result_omits_structured_content_of_later_revisions(data):
    value = prebuilt_result([TEXT], data)
    assert "structuredContent" not in result_of(value, revision=LATEST_SESSION)
    assert result_of(value)["structuredContent"] == data


@pytest.mark.rule("TOOL-11")
@pytest.mark.parametrize(
    "value", [prebuilt_result([TEXT]), prebuilt_result([TEXT], {"n": "x"})]
)
def test_result_without_the_required_data_is_refused(value):
    with pytest.raises(BadResult):
        result_of(value, output_schema=SCHEMA)


def test_error_result_needs_no_structured_content():
    result = result_of(prebuilt_result([TEXT], is_error=True), output_schema=SCHEMA)
    assert result["isError"] is True


# --- values that cannot be converted


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((value, TypeError) for value in (object(), [object()], 1j, [TEXT, TOOL])),
        *((value, LocalProtocolError) for value in (float("nan"), [2**70])),
        ({"a": float("inf")}, LocalProtocolError),
    ],
    ids=range(7),
)
def test_value_without_a_json_form_is_refused(value, error):
    with pytest.raises(error):
        result_of(value)


def test_bare_media_are_refused():
    with pytest.raises(TypeError, match="return an Image, an Audio or a File"):
        result_of(Media(b"x"))


UUID = uuid.UUID(int=1)


@dataclasses.dataclass
class Everything:
    color: Color = Color.RED
    day: dt.date = dt.date(2026, 7, 28)
    id: uuid.UUID = UUID
    money: Decimal = Decimal("1.5")
    path: Path = Path("a")
    items: tuple[int, ...] = (1, 2)
    inner: Any = None
    many: dict[Any, Any] = dataclasses.field(default_factory=lambda: {1: None})


@attrs.define
class Inner:
    a: int = 1


def test_values_of_all_types_are_converted_to_json():
    assert to_json_value(Everything(inner=[Inner(), Model(n=1)])) == {
        "color": "red",
        "day": "2026-07-28",
        "id": str(UUID),
        "money": "1.5",
        "path": "a",
        "items": (1, 2),
        "inner": [{"a": 1}, {"n": 1, "day": None, "word": "a"}],
        "many": {"1": None},
    }


def test_cyclic_value_is_refused():
    cyclic = []
    cyclic.append(cyclic)
    with pytest.raises(RecursionError):
        to_json_value(cyclic)


@attrs.define
class Account:
    name: str
    _key: str = attrs.field(default="secret", kw_only=True)
    _token: str = attrs.field(kw_only=True)


@dataclasses.dataclass
class Scaled:
    size: int
    factor: dataclasses.InitVar[int]

    def __post_init__(self, factor):
        self.size *= factor


@pytest.mark.parametrize(
    ("value", "data"),
    [(Account("Ada", token="x"), {"name": "Ada"}), (Scaled(2, 3), {"size": 6})],
)
def test_result_is_checked_without_constructing_its_class_again(value, data):
    hint = type(value)
    assert read_returns(hint).schema["properties"].keys() == data.keys()
    assert result_of(value, hint)["structuredContent"] == data
    with pytest.raises(BadResult):
        result_of({name: [] for name in data}, hint)


@pydantic.dataclasses.dataclass
class Measure:
    n: int = pydantic.Field(alias="number", ge=2, description="a count")


def test_schema_of_a_pydantic_dataclass_has_its_constraints():
    schema = read_returns(Measure).schema
    assert schema["required"] == ["n"]
    assert schema["properties"]["n"] == {
        "type": "integer",
        "minimum": 2,
        "description": "a count",
    }


class Square(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    side: int

    @pydantic.computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Written(pydantic.BaseModel):
    """A model that does not read the JSON that it writes."""

    key: str = pydantic.Field(exclude=True)
    name: str = pydantic.Field(serialization_alias="fullName")
    day: dt.date

    @pydantic.field_serializer("day")
    def write_day(self, day) -> int:
        return day.toordinal()


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (Square(side=2), {"side": 2, "area": 4}),
        (Written(key="x", name="A", day=dt.date.min), {"fullName": "A", "day": 1}),
    ],
)
def test_model_is_sent_as_pydantic_writes_it(model, data):
    assert result_of(model, type(model))["structuredContent"] == data
    listed = result_of([model], list[type(model)])["structuredContent"]
    assert listed == {"result": [data]}
    with pytest.raises(BadResult):
        result_of([model, 5], list[type(model)])
    with pytest.raises(BadResult):
        result_of(Address(url="https://a.example"), type(model))


class Address(pydantic.BaseModel):
    url: pydantic.HttpUrl


def test_pydantic_types_serialise_themselves():
    url = Address(url="https://a.example/").url
    assert to_json_value({"a": url}) == {"a": "https://a.example/"}


# --- resources and prompts

JSON_TYPE = "application/json"
BYTES_TYPE = "application/octet-stream"
PLAIN = {"mimeType": "text/plain", "text": "x"}


@pytest.mark.parametrize(
    ("value", "mime_type", "contents"),
    [
        ("hi", None, [{"mimeType": "text/plain", "text": "hi"}]),
        ("hi", "text/x", [{"mimeType": "text/x", "text": "hi"}]),
        (b"x", None, [{"mimeType": BYTES_TYPE, "blob": "eA=="}]),
        ({"a": 1}, None, [{"mimeType": JSON_TYPE, "text": '{"a":1}'}]),
        ([1], "text/x", [{"mimeType": "text/x", "text": "[1]"}]),
        (Point(1), None, [{"mimeType": JSON_TYPE, "text": '{"x":1,"y":0.5}'}]),
        (["x", b"x"], None, [PLAIN, {"mimeType": BYTES_TYPE, "blob": "eA=="}]),
        (Image(PNG), None, [{"mimeType": "image/png", "blob": IMAGE["data"]}]),
        (File(b"x", mime_type="text/x"), None, [{"mimeType": "text/x", "text": "x"}]),
        (CONTENTS, "text/x", [PLAIN]),
        ([CONTENTS, CONTENTS], None, [PLAIN, PLAIN]),
        (types.EmbeddedResource(CONTENTS), None, [PLAIN]),
        (types.ReadResourceResult([CONTENTS]), None, [PLAIN]),
    ],
)
def test_any_value_is_converted_to_resource_contents(value, mime_type, contents):
    found = resource_contents(value, "test://a", mime_type)
    assert found == [{"uri": "test://a", **each} for each in contents]


@pytest.mark.parametrize("value", [object(), TEXT])
def test_invalid_resource_contents_are_refused(value):
    with pytest.raises(TypeError):
        resource_contents(value, "test://a")


def message(role, content):
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hi", [message("user", text("hi"))]),
        (["a", Image(PNG)], [message("user", text("a")), message("user", IMAGE)]),
        (types.PromptMessage("assistant", TEXT), [message("assistant", text("t"))]),
        ([{"role": "assistant", "content": "x"}], [message("assistant", text("x"))]),
        ([{"role": "user", "content": text("x")}], [message("user", text("x"))]),
        (types.GetPromptResult([]), []),
        ([], []),
        ({"a": 1}, [message("user", text('{"a":1}'))]),
        (File(b"x"), [message("user", FILE)]),
    ],
)
@pytest.mark.rule("PROMPT-04")
def test_any_value_is_converted_to_prompt_messages(value, messages):
    result = prompt_result(value, "What for")
    assert result["messages"] == messages
    assert result["description"] == "What for"


def test_description_of_a_prompt_result_takes_precedence():
    value = types.GetPromptResult([], description="Own")
    assert prompt_result(value, "Other")["description"] == "Own"
    assert "description" not in prompt_result("x")


def test_prompt_content_is_adapted_to_the_revision():
    result = prompt_result(LINK, revision=MAR_2025)
    assert result["messages"] == [message("user", text("a: test://a"))]


def test_message_role_must_be_user_or_assistant():
    with pytest.raises(TypeError, match="user or assistant, not 'system'"):
        prompt_result({"role": "system", "content": "x"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON, st.sampled_from(REVISIONS))
def test_every_json_value_is_converted_to_a_result(value, revision):
    for returns in (Returns(), read_returns(Any, output_schema={})):
        result = tool_result(value, returns, revision)
        data = result.get("structuredContent", UNSET)
        assert data is UNSET or data == value
