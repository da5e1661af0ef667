"""A tool with a malformed annotation stays in the list; the loss is counted."""

from __future__ import annotations

import pytest
from fakes import FakeServer

import mcpwire

TOOL = {"name": "a", "inputSchema": {"type": "object"}}
MALFORMED = {
    **TOOL,
    "name": "b",
    "annotations": {"readOnlyHint": "yes", "destructiveHint": False},
}


def listing(*tools):
    return FakeServer({"tools/list": lambda *_: {"tools": list(tools)}})


@pytest.mark.unchecked_wire("the server's annotations are malformed")
async def test_a_malformed_hint_is_dropped_alone_and_counted():
    async with mcpwire.Client(listing(TOOL, MALFORMED)) as client:
        assert client.stats.malformed_members == 0
        plain, hinted = await client.list_tools()
        assert (plain.name, plain.annotations) == ("a", None)
        assert hinted.annotations.read_only_hint is None
        assert hinted.annotations.destructive_hint is False
        assert client.stats.malformed_members == 1
        page = await client.list_tools_page()
        assert page.raw["tools"][1]["annotations"]["readOnlyHint"] == "yes"
        assert [tool.name async for tool in client.iter_tools()] == ["a", "b"]
        assert client.stats.malformed_members == 3


@pytest.mark.unchecked_wire("the server's tool has no name")
async def test_a_list_with_another_malformed_member_is_refused():
    async with mcpwire.Client(listing(MALFORMED, {"inputSchema": {}})) as client:
        with pytest.raises(mcpwire.InvalidMessage) as caught:
            await client.list_tools()
    assert caught.value.path == "ListToolsResult.tools[1].name"
