"""What is forgiven works, and nothing else is forgiven."""

from __future__ import annotations

import pytest
from wirevalues import PLAIN

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.types import decode
from mcpwire.types._codec import (
    DEFAULTED_FIELDS,
    OMITTABLE_FIELDS,
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


def test_what_is_forgiven_names_fields_that_exist():
    names = {field.name for cls in PLAIN for field in spec_of(cls).fields}
    assert names >= DEFAULTED_FIELDS | OMITTABLE_FIELDS


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
    "what nobody knows": (
        {"x": 1, "openWorldHint": []},
        {"x": 1},
        ["ToolAnnotations.openWorldHint"],
    ),
}


@pytest.mark.parametrize(("sent", "kept", "lost"), LOST_HINTS.values(), ids=LOST_HINTS)
def test_a_tool_loses_the_hints_that_are_malformed(sent, kept, lost):
    page = {"tools": [LISTED, LISTED | {"annotations": sent}], "x": 1}
    names = []
    read = decode(types.ListToolsResult, page, names)
    tool = LISTED if kept is None else LISTED | {"annotations": kept}
    assert read == decode(types.ListToolsResult, {"tools": [LISTED, tool], "x": 1})
    assert read.raw is page
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
def test_what_is_wrong_elsewhere_is_refused_with_its_path(page, path):
    with pytest.raises(InvalidMessage) as caught:
        decode(types.ListToolsResult, page, [])
    assert caught.value.path == f"ListToolsResult{path}"
    with pytest.raises(InvalidMessage):
        decode(types.ListToolsResult, page)
