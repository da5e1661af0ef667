"""Mounted servers: under a prefix, with their own lifespan."""

from contextlib import asynccontextmanager

import pytest
from weather import weather

from mcpwire import Client, Context, InvalidParams, Server, types


async def test_mounted_components_work_under_their_prefix():
    main, other = Server("main", "1"), weather()
    main.add_tool(lambda: "own", name="own")
    main.mount(other, prefix="w")
    async with Client(main) as client:
        assert [t.name for t in await client.list_tools()] == ["own", "w_now"]
        assert (await client.call_tool("w_now")).text == "weather"
        for name in ("now", "w_own", "w_"):
            with pytest.raises(InvalidParams):
                await client.call_tool(name)
        assert [p.name for p in await client.list_prompts()] == ["w_ask"]
        prompt = await client.get_prompt("w_ask", {"city": "Bonn"})
        assert prompt.messages[0].content.text == "the weather of Bonn"
        assert await client.read_text("weather://Bonn") == "rain in Bonn"
        assert await client.read_text("weather://help") == "helps"
        completed = await client.complete(types.PromptReference("w_ask"), "city", "Be")
        assert completed.completion.values == ["Bern"]


async def test_changes_of_a_mounted_server_appear_in_the_main_server():
    main, other = Server("main", "1"), weather()
    main.mount(other, prefix="w")
    async with (
        Client(main) as client,
        client.listen(["weather://help"], tools=True) as changes,
    ):
        notifications = aiter(changes)
        other.add_tool(lambda: 1, name="late")
        assert (await anext(notifications)).method == "notifications/tools/list_changed"
        assert [t.name for t in await client.list_tools()] == ["w_now", "w_late"]
        other.tools["late"].disable()
        await anext(notifications)
        assert [t.name for t in await client.list_tools()] == ["w_now"]
        other.notify_resource_updated("weather://help")
        assert (await anext(notifications)).params.uri == "weather://help"


async def test_mounted_server_keeps_its_lifespan_and_visibility():
    events = []

    @asynccontextmanager
    async def lifespan(server):
        events.append(f"begin {server.name}")
        yield server.name
        events.append(f"end {server.name}")

    main = Server("main", "1", lifespan=lifespan, visible=lambda c, t: t.key != "o_no")
    other = Server("other", "1", lifespan=lifespan, visible=lambda c, t: t.key != "hid")

    @other.tool
    async def who(ctx: Context) -> str:
        return ctx.lifespan

    other.add_tool(lambda: 1, name="hid")
    other.add_tool(lambda: 1, name="no")
    main.mount(other, "o")
    async with Client(main) as client:
        assert [t.name for t in await client.list_tools()] == ["o_who"]
        assert (await client.call_tool("o_who")).text == "other"
    assert events == ["begin other", "begin main", "end main", "end other"]


async def test_own_tool_precedes_mounted_and_self_mount_is_refused():
    main, other = Server("main", "1"), Server("other", "1")
    main.add_tool(lambda: "mine", name="tool")
    other.add_tool(lambda: "other", name="tool")
    main.mount(other)
    async with Client(main) as client:
        assert [t.name for t in await client.list_tools()] == ["tool"]
        assert (await client.call_tool("tool")).text == "mine"
    with pytest.raises(ValueError, match="on itself"):
        main.mount(main)
    with pytest.raises(ValueError, match="on itself"):
        other.mount(main)
