"""Connection slots and names in a group: limits, replaced targets, eager tasks."""

import asyncio

import pytest
from eager import eager
from group_servers import ScriptedServer
from loop_polling import until

import mcpwire
from mcpwire.group import Group


def connection_counts(*servers):
    return [server.connections for server in servers]


@pytest.mark.system("L-V12", "L-R7")
async def test_concurrency_limits_connects_while_listing_tools():
    servers = {name: ScriptedServer("", "server/discover") for name in "abcd"}
    a, b, c, d = servers.values()
    async with Group(servers, concurrency=2, start="lazy") as group:
        listing = asyncio.ensure_future(group.tools())
        await until(lambda: a.waiting and b.waiting)
        # A call to one server does not wait for the others.
        calling = asyncio.ensure_future(group.call_tool("d", "x"))
        await until(lambda: d.waiting)
        d.release()
        await calling
        assert connection_counts(a, b, c, d) == [1, 1, 0, 1]
        a.release()
        await until(lambda: c.waiting)
        b.release()
        c.release()
        assert len(await listing) == 4


@pytest.mark.parametrize("state", ["idle", "lost", "failed"])
async def test_new_target_replaces_one_that_is_not_connected(state):
    first, second = ScriptedServer("first"), ScriptedServer("second")
    options = {"idle": {"start": "lazy"}, "lost": {}, "failed": {"on_error": "skip"}}
    first.broken = 2 if state == "failed" else 0
    async with Group({"a": first}, **options[state]) as group:
        if state == "lost":
            first.die()
            await until(lambda: group.status()["a"].state == "lost")
        assert group.status()["a"].state == state
        report = await group.connect_all({"a": second})
        assert report.ok == ("a",)
        assert (await group.call_tool("a", "x")).text == "second"
        assert len(group) == 1
    assert first.connections == (1 if state == "lost" else 0)
    assert second.connections == 1


async def test_eager_connect_task_leaves_no_pending_connect():
    class Client(mcpwire.Client):
        async def connect(self):
            if not self.is_connected:
                await super().connect()

    make = lambda _, target, **options: Client(target, **options)  # noqa: E731 - short
    loop = asyncio.get_running_loop()
    async with Group({"a": ScriptedServer()}, start="lazy", make_client=make) as group:
        loop.set_task_factory(getattr(asyncio, "eager_task_factory", eager))
        try:
            await group.client_of("a").connect()
            group._entries[
                "a"
            ].has_connected = False  # as if the connection had gone unnoticed
            await group.client("a")
            assert not group._entries["a"].is_connecting
            await group.disconnect("a")
            await group.connect("a")
        finally:
            loop.set_task_factory(None)
        assert (await group.call_tool("a", "x")).text == ""
