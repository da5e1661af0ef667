"""Tolerated deviations are accepted, and no others."""

from __future__ import annotations

import pytest
from wirevalues import PLAIN

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.types import decode
from mcpwire.types._codec import DEFAULTED_FIELDS, OMITTABLE_FIELDS, spec_of

SERVER = {"protocolVersion": "2025-11-25"}


@pytest.mark.pain("P36")
@pytest.mark.parametrize("content", [{}, {"content": None}])
@pytest.mark.parametrize("rest", [{}, {"structuredContent": {"a": 1}}])
def test_result_without_content_has_an_empty_list(content, rest):
    result = decode(types.CallToolResult, content | rest)
    assert result.content == []
    assert result.text == ""


@pytest.mark.fault("F49")
@pytest.mark.parametrize("null", [{}, {"serverInfo": None, "capabilities": None}])
def test_server_info_and_capabilities_may_be_absent(null):
    result = decode(types.InitializeResult, SERVER | null)
    assert result.server_info is None
    assert result.capabilities == types.ServerCapabilities()


def test_tolerated_fields_exist():
    names = {field.name for cls in PLAIN for field in spec_of(cls).fields}
    assert names >= DEFAULTED_FIELDS | OMITTABLE_FIELDS


@pytest.mark.system("A72")
@pytest.mark.parametrize("input_schema", [{}, {"inputSchema": None}])
def test_tool_without_an_input_schema_accepts_an_object(input_schema):
    listed = decode(types.ListToolsResult, {"tools": [{"name": "a"} | input_schema]})
    [tool] = listed.tools
    assert tool.input_schema == {"type": "object"}
    assert types.encode(tool) == {"name": "a", "inputSchema": {"type": "object"}}


LISTED = {"name": "a", "inputSchema": {"type": "object"}}
HINTS = {"title": "A", "readOnlyHint": True}
LOST_HINTS = {
    "one of them": (
        {**HINTS, "destructiveHint": "yes"},
        HINTS,
        ["ToolAnnotations.destructiveHint"],
    ),
    "two of them": (
        {"title": 5, "idempotentHint": 0},
        {},
        ["ToolAnnotations.title", "ToolAnnotations.idempotentHint"],
    ),
    "all of them": ("yes", None, ["Tool.annotations"]),
    "with an unknown member": (
        {"x": 1, "openWorldHint": []},
        {"x": 1},
        ["ToolAnnotations.openWorldHint"],
    ),
}


@pytest.mark.parametrize(("sent", "valid", "lost"), LOST_HINTS.values(), ids=LOST_HINTS)
def test_malformed_tool_annotations_are_dropped(sent, valid, lost):
    page = {"tools": [LISTED, LISTED | {"annotations": sent}], "x": 1}
    names = []
    decoded = decode(types.ListToolsResult, page, names)
    tool = LISTED if valid is None else LISTED | {"annotations": valid}
    assert decoded == decode(types.ListToolsResult, {"tools": [LISTED, tool], "x": 1})
    assert decoded.raw is page
    assert names == lost


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
def test_other_faults_are_refused_with_their_path(page, path):
    with pytest.raises(InvalidMessage) as caught:
        decode(types.ListToolsResult, page, [])
    assert caught.value.path == f"ListToolsResult{path}"
    with pytest.raises(InvalidMessage):
        decode(types.ListToolsResult, page)
