"""Tool sets of real groups, with real servers in memory, in both eras."""

import asyncio

import pytest
from loop_polling import until

import mcpwire
from mcpwire.errors import NotAllowed
from mcpwire.group import Group, Member
from mcpwire.tools import toolset

ERAS = ["2025-11-25", "2026-07-28"]


def files():
    server = mcpwire.Server("files", "1.0")

    @server.tool
    def read(path: str) -> str:
        """Read a file."""
        return f"all of {path}"

    @server.resource("mem://readme")
    def readme() -> str:
        return "Read me."

    @server.prompt
    def greet(name: str) -> str:
        return f"Hello, {name}."

    return server


@pytest.mark.rule("TOOL-09")
@pytest.mark.system("A70", "V11", "V14")
@pytest.mark.parametrize("mode", ERAS)
async def test_call_reaches_the_server_of_the_name(mode):
    async with Group({"a": files(), "b": files()}, mode=mode) as group:
        tools = await group.tools()
        assert tools.names == ("mcp__a__read", "mcp__b__read")
        result = await tools.call("mcp__b__read", {"path": "x"})
        assert result.text == "all of x"


async def test_servers_that_leave_and_join_are_listed_at_once(monkeypatch):
    monkeypatch.setattr(toolset, "DELAYS_S", (0.0, 3600.0))
    async with Group({"a": files()}) as group, asyncio.timeout(30):
        tools = await group.tools()
        for _ in range(3):
            await group.disconnect("a")
            await until(lambda: len(tools) == 0)
            await group.connect("a", files())
            await until(lambda: len(tools) == 1)


@pytest.mark.system("L-V6")
@pytest.mark.parametrize("mode", ERAS)
async def test_added_tool_appears_without_a_refresh(mode):
    server = files()
    async with Group({"a": server}, mode=mode) as group:
        tools = await group.tools()

        @server.tool
        def write(path: str) -> str:
            """Write a file."""
            return path

        async with asyncio.timeout(30):
            await until(lambda: len(tools) == 2)
        assert (await tools.call("mcp__a__write", {"path": "x"})).text == "x"


@pytest.mark.system("A74")
@pytest.mark.parametrize("mode", ERAS)
async def test_resources_and_prompts_can_be_used_as_tools(mode):
    async with Group({"a": files()}, mode=mode) as group:
        tools = await group.tools(resources_as_tools=True, prompts_as_tools=True)
        assert [view.tool for view in tools] == [
            "read",
            "mcp_list_resources",
            "mcp_read_resource",
            "mcp_list_prompts",
            "mcp_get_prompt",
        ]
        listed = await tools.call("mcp__a__mcp_list_resources")
        assert listed.structured_content["resources"][0]["uri"] == "mem://readme"
        read = await tools.call("mcp__a__mcp_read_resource", {"uri": "mem://readme"})
        assert read.text == "Read me."
        listed = await tools.call("mcp__a__mcp_list_prompts")
        assert listed.structured_content["prompts"][0]["name"] == "greet"
        prompt = await tools.call(
            "mcp__a__mcp_get_prompt", {"name": "greet", "arguments": {"name": "Ada"}}
        )
        assert prompt.text == "Hello, Ada."
        unknown = await tools.call(
            "mcp__a__mcp_read_resource", {"uri": "mem://x"}, errors="result"
        )
        assert unknown.is_error


@pytest.mark.system("V12", "L-V7")
async def test_rules_of_a_member_apply_to_its_tools():
    members = {"a": Member(files(), deny=["read"]), "b": files()}
    async with Group(members) as group:
        tools = await group.tools()
        assert tools.names == ("mcp__b__read",)
        with pytest.raises(NotAllowed):
            await tools.call("mcp__a__read", {"path": "x"}, confirmed=True)


async def test_failed_listing_of_one_member_does_not_affect_others():
    class Broken(mcpwire.Client):
        async def list_tools(self, **_):
            raise OSError("the function of the headers found no token")

    def make(name, target, **options):
        return (Broken if name == "a" else mcpwire.Client)(target, **options)

    async with Group({"a": files(), "b": files()}, make_client=make) as group:
        tools = await group.tools()
        assert tools.names == ("mcp__b__read",)
        assert list(tools.problems) == ["a"]
        problem = tools.problems["a"]
        assert str(problem) == "OSError: the function of the headers found no token"
        assert isinstance(problem.__cause__, OSError)


async def test_tool_set_stops_when_its_group_is_closed():
    async with Group({"a": files()}) as group:
        tools = await group.tools()
    assert not group.tool_sets
    assert tools._listings == {}
    with pytest.raises(mcpwire.MCPError):
        await tools.call("mcp__a__read", {"path": "x"})
