"""The table of what is forgiven: each row works, has its reason, and really decides."""

from __future__ import annotations

import attrs
import pytest
from wirevalues import PLAIN

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.types import decode
from mcpwire.types._codec import (
    ANY_TYPE,
    LENIENCY,
    OPTIONAL,
    Codec,
    decode_repaired,
    spec_of,
)

SERVER = {"protocolVersion": "2025-11-25"}


@pytest.mark.pain("P36")
@pytest.mark.parametrize("content", [{}, {"content": None}])
@pytest.mark.parametrize("rest", [{}, {"structuredContent": {"a": 1}}])
def test_a_result_without_content_has_none(content, rest):
    result = decode(types.CallToolResult, content | rest)
    assert result.content == []
    assert result.text == ""


@pytest.mark.fault("F49")
@pytest.mark.parametrize("null", [{}, {"serverInfo": None, "capabilities": None}])
def test_a_server_may_say_nothing_about_itself(null):
    result = decode(types.InitializeResult, SERVER | null)
    assert result.server_info is None
    assert result.capabilities == types.ServerCapabilities()


@pytest.mark.fault("F49")
@pytest.mark.parametrize("version", [None, 5, [], True])
def test_a_version_that_is_no_text_is_refused(version):
    with pytest.raises(InvalidMessage) as caught:
        decode(types.InitializeResult, {"protocolVersion": version})
    assert caught.value.path == "InitializeResult.protocolVersion"


@pytest.mark.fault("F49")
@pytest.mark.parametrize("tools", [True, "yes", [], 1])
def test_a_capability_of_another_type_is_refused_with_its_path(tools):
    value = SERVER | {"capabilities": {"tools": tools}}
    with pytest.raises(InvalidMessage) as caught:
        decode(types.InitializeResult, value)
    assert caught.value.path == "InitializeResult.capabilities.tools"


@pytest.mark.fault("F49")
def test_capabilities_that_nobody_knows_survive():
    value = {"tools": None, "teleport": {"range": 5}}
    capabilities = decode(types.ServerCapabilities, value)
    assert capabilities.tools is None
    assert capabilities.extra == {"teleport": {"range": 5}}


def test_is_error_may_be_null():
    assert decode(types.CallToolResult, {"isError": None}).is_error is False


def test_each_row_has_a_reason_and_names_a_field_that_exists():
    names = {cls.__name__: cls for cls in PLAIN}
    for row in LENIENCY:
        assert row.reason
        if row.type != ANY_TYPE and row.field != OPTIONAL:
            fields = {field.wire for field in spec_of(names[row.type]).fields}
            assert row.field in fields


def test_no_field_is_forgiven_without_a_row():
    """Our choice: the classes cannot forgive by themselves."""
    for cls in PLAIN:
        for field in spec_of(cls).fields:
            if field.spec.required is True and field.accepts_missing:
                rows = [row for row in LENIENCY if row.type == cls.__name__]
                assert any(
                    row.field == field.wire and "missing" in row.found for row in rows
                )


@pytest.mark.parametrize(
    "row", [row for row in LENIENCY if "missing" in row.found], ids=str
)
def test_a_row_that_is_taken_out_is_refused(row):
    cls = getattr(types, row.type)
    value = {"protocolVersion": "x", "supportedVersions": [], "toolUseId": "x"} | {
        "name": "x",
        "type": "tool_result",
        "clientInfo": {"name": "a", "version": "1"},
    }
    decode(cls, value)
    decode_without = without(row).decoders[cls]
    for found in ({}, {row.field: None}):
        with pytest.raises(InvalidMessage) as caught:
            decode_without(value | found)
        assert caught.value.path == f"{row.type}.{row.field}"


def test_null_for_an_optional_field_is_refused_without_its_row():
    decoder = without(LENIENCY[0]).decoders[types.TextContent]
    assert decoder({"type": "text", "text": ""}).meta is None
    assert decoder({"type": "text", "text": "", "x": 1}).meta is None
    with pytest.raises(InvalidMessage) as caught:
        decoder({"type": "text", "text": "", "_meta": None})
    assert caught.value.path == "TextContent._meta"


def test_an_integral_float_is_refused_without_its_row():
    decoder = without(LENIENCY[1]).decoders[types.Resource]
    with pytest.raises(InvalidMessage) as caught:
        decoder({"uri": "x", "name": "x", "size": 5.0})
    assert caught.value.path == "Resource.size"


def without(*rows):
    """Return a codec whose table lacks these rows."""
    return Codec([row for row in LENIENCY if row not in rows])


def test_rows_are_values():
    assert attrs.asdict(LENIENCY[0])["found"] == ("null",)


@pytest.mark.system("A72")
@pytest.mark.parametrize("said", [{}, {"inputSchema": None}])
def test_a_tool_that_says_nothing_of_its_arguments_takes_an_object(said):
    listed = decode(types.ListToolsResult, {"tools": [{"name": "a"} | said]})
    [tool] = listed.tools
    assert tool.input_schema == {"type": "object"}
    assert types.encode(tool) == {"name": "a", "inputSchema": {"type": "object"}}


LISTED = {"name": "a", "inputSchema": {"type": "object"}}
HINTS = {"title": "A", "readOnlyHint": True}
LOST_HINTS = {
    "one of them": ({**HINTS, "destructiveHint": "yes"}, HINTS, [".destructiveHint"]),
    "two of them": (
        {"title": 5, "idempotentHint": 0},
        {},
        [".title", ".idempotentHint"],
    ),
    "all of them": ("yes", None, [""]),
    "an array": ([True], None, [""]),
    "what nobody knows": ({"x": 1, "openWorldHint": []}, {"x": 1}, [".openWorldHint"]),
}


@pytest.mark.parametrize(("sent", "kept", "lost"), LOST_HINTS.values(), ids=LOST_HINTS)
def test_a_tool_loses_the_hints_that_are_malformed(sent, kept, lost):
    page = {"tools": [LISTED, LISTED | {"annotations": sent}], "x": 1}
    read, paths = decode_repaired(types.ListToolsResult, page)
    tool = LISTED if kept is None else LISTED | {"annotations": kept}
    assert read == decode(types.ListToolsResult, {"tools": [LISTED, tool], "x": 1})
    assert read.raw is page
    assert paths == [f"ListToolsResult.tools[1].annotations{name}" for name in lost]


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ({"tools": [LISTED | {"annotations": "x"}, {}]}, ".tools[1].name"),
        ({"tools": [LISTED | {"annotations": "x"}, 5]}, ".tools[1]"),
        ({"tools": [LISTED | {"inputSchema": "x"}]}, ".tools[0].inputSchema"),
        ({"tools": 5}, ".tools"),
        ([], ""),
    ],
)
def test_what_is_wrong_elsewhere_is_refused_with_its_path(page, path):
    with pytest.raises(InvalidMessage) as caught:
        decode_repaired(types.ListToolsResult, page)
    assert caught.value.path == f"ListToolsResult{path}"
    with pytest.raises(InvalidMessage):
        decode(types.ListToolsResult, page)


def test_malformed_hints_are_refused_without_their_rows():
    whole, hint = [row for row in LENIENCY if "malformed" in row.found]
    page = {"tools": [LISTED | {"annotations": {"readOnlyHint": "yes"}}]}
    lost = []
    without(hint).with_paths[types.ListToolsResult](page, "ListToolsResult", lost)
    assert lost == ["ListToolsResult.tools[0].annotations"]
    with pytest.raises(InvalidMessage) as caught:
        without(hint, whole).with_paths[types.ListToolsResult](page, "x", [])
    assert caught.value.path == "x.tools[0].annotations.readOnlyHint"
