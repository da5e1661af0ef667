"""Lost servers of a group are reconnected, and the status shows their state."""

import asyncio
import time

import pytest
from clocks import on_a_virtual_clock
from group_servers import BOUND_S, ScriptedServer
from loop_polling import until

import mcpwire
from mcpwire.auth.errors import AuthRequired, AuthTemporarilyUnavailable
from mcpwire.group import Backoff, Group, managed_server

AT_ONCE = Backoff(first=0.001, maximum=0.002)
NEVER = mcpwire.Recovery(restart=False)


def state(group, name="a"):
    return group.status()[name].state


@pytest.mark.system("L-A12", "L-A14", "L-V14", "V19")
async def test_status_shows_a_lost_server_and_the_next_call_reconnects_it():
    server = ScriptedServer("back")
    async with Group({"a": server, "b": ScriptedServer()}) as group:
        before = group.status()["a"]
        assert (before.state, before.error, before.restarts) == ("ready", None, 0)
        assert before.since <= time.monotonic()
        server.die()
        lost = group.status()["a"]
        assert lost.state == "lost"
        assert isinstance(lost.error, mcpwire.ConnectionClosed)
        assert list(group.problems) == ["a"]
        assert list(group) == ["a", "b"]
        assert state(group, "b") == "ready"
        assert (await group.call_tool("a", "x")).text == "back"
        recovered = group.status()["a"]
        assert (recovered.state, recovered.error, recovered.restarts) == (
            "ready",
            None,
            1,
        )
        assert server.connections == 2


async def test_server_without_recovery_stays_lost():
    server = ScriptedServer()
    async with Group({"a": server}, recovery=NEVER) as group:
        server.die()
        with pytest.raises(mcpwire.ConnectionClosed):
            await group.call_tool("a", "x")
        assert state(group) == "lost"


@pytest.mark.system("L-V14")
async def test_restart_backoff_reconnects_a_lost_server():
    server = ScriptedServer()
    async with Group({"a": server}, restart=AT_ONCE, recovery=NEVER) as group:
        for restarts in (1, 2, 3):
            server.die()
            assert state(group) == "lost"
            await until(lambda: state(group) == "ready")
            assert group.status()["a"].restarts == restarts
        assert server.connections == 4


@pytest.mark.system("V19")
async def test_restart_fails_after_the_maximum_number_of_attempts(caplog):
    server = ScriptedServer()
    backoff = Backoff(first=0.001, maximum=0.002, attempts=3)
    async with Group({"a": server}, restart=backoff) as group:
        await group.call_tool("a", "x")
        server.broken = 100
        server.die()
        await until(lambda: state(group) == "restarting")
        await until(lambda: state(group) == "failed")
        assert isinstance(group.problems["a"], mcpwire.ConnectError)
        assert "a" in group
        server.broken = 0
        assert (await group.call_tool("a", "x")).text == ""  # the client's own recovery
        assert state(group) == "ready"
    assert {each.server for each in caplog.records} == {"a"}


async def test_server_that_dies_at_once_is_restarted_a_limited_number_of_times():
    class Fleeting(ScriptedServer):
        def answer(self, request):
            super().answer(request)
            if request["method"] == "initialize" and self.connections > 1:
                self.loop.call_soon(self.die)

    server = Fleeting()
    backoff = Backoff(first=0.001, maximum=60, attempts=3)
    async with Group({"a": server}, restart=backoff) as group:
        server.die()
        await until(lambda: state(group) == "failed")
        assert server.connections <= 5


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (AuthRequired("log in"), "needs_auth"),
        (mcpwire.TokenError("no", error="invalid_grant"), "failed"),
        (mcpwire.LocalProtocolError("wrong"), "failed"),
        (AuthTemporarilyUnavailable("later"), None),
        (mcpwire.ConnectError("gone", target="x"), None),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_restart_retries_only_temporary_errors(error, stays):
    server = ScriptedServer()
    async with Group({"a": server}, restart=AT_ONCE) as group:
        server.error = error
        server.die()
        if stays is not None:
            await until(lambda: state(group) == stays)
            assert group.problems["a"] is error
        else:
            await until(lambda: group.problems.get("a") is error)
            server.error = None
            await until(lambda: state(group) == "ready")


async def test_call_during_the_backoff_reconnects_once():
    server = ScriptedServer("x")
    slowly = Backoff(first=BOUND_S, maximum=BOUND_S)
    async with Group({"a": server}, restart=slowly) as group:
        server.die()
        await until(lambda: state(group) == "restarting")
        assert (await group.call_tool("a", "x")).text == "x"
        assert (state(group), server.connections) == ("ready", 2)
        server.die()
        await until(lambda: state(group) == "restarting")
        await group.connect("a")
        assert (state(group), server.connections) == ("ready", 3)


async def test_disconnected_server_is_not_restarted():
    server = ScriptedServer()
    async with Group({"a": server}, restart=AT_ONCE) as group:
        server.broken = 1_000_000
        server.die()
        await until(lambda: state(group) == "restarting")
        await group.disconnect("a")
        left = server.broken
        for _ in range(20):
            await asyncio.sleep(0)  # one loop iteration
        assert server.broken == left
        assert state(group) == "idle"


async def test_failed_reconnect_sets_the_state_failed():
    server = ScriptedServer()
    async with Group({"a": server}) as group:
        server.die()
        server.broken = 2
        with pytest.raises(mcpwire.ConnectError):
            await group.connect("a")
        assert state(group) == "failed"


async def test_cancelled_reconnect_leaves_the_server_lost():
    server = ScriptedServer()
    async with Group({"a": server}) as group:
        server.die()
        server.held = {"initialize"}
        connecting = asyncio.ensure_future(group.connect("a"))
        await until(lambda: server.waiting)
        connecting.cancel()
        await asyncio.wait([connecting])
        assert state(group) == "lost"
        server.held.clear()
        await group.call_tool("a", "x")


@pytest.mark.system("L-A12")
async def test_restart_refreshes_tools_and_subscriptions():
    server = ScriptedServer()
    async with Group({"a": server}, restart=AT_ONCE) as group:
        tools = await group.tools()
        await group.subscribe("a", "file:///a")
        named = {"tools": [{"name": "z", "inputSchema": {"type": "object"}}]}
        server.methods["tools/list"] = lambda *_: named
        server.received.clear()
        server.die()
        await until(lambda: set(tools.names) == {"mcp__a__z"})
        assert server.requests("resources/subscribe") == [{"uri": "file:///a"}]


@pytest.fixture
def idle_by_the_loop(monkeypatch):
    """Let groups use the clock of the loop, which does not advance while code runs."""
    monkeypatch.setattr(
        managed_server, "monotonic", lambda: asyncio.get_running_loop().time()
    )


async def test_lazy_server_is_connected_on_first_use():
    server, other = ScriptedServer("now"), ScriptedServer()
    async with Group({"a": server, "b": other}, start="lazy") as group:
        assert list(group) == ["a", "b"]
        assert (server.connections, state(group)) == (0, "idle")
        assert not group["b"].is_connected
        results = await asyncio.gather(*(group.call_tool("a", "x") for _ in range(3)))
        assert {result.text for result in results} == {"now"}
        assert (server.connections, other.connections) == (1, 0)
        assert (await group.client("b")).is_connected
        assert (await group.client("b")) is group["b"]
        with pytest.raises(mcpwire.UnknownServer):
            await group.client("nowhere")
        await group.disconnect("a")
        with pytest.raises(mcpwire.UnknownServer):
            await group.call_tool("a", "x")
    async with group:
        assert (await group.call_tool("a", "x")).text == "now"


async def test_failed_lazy_server_is_retried_on_each_use():
    server = ScriptedServer("now")
    server.broken = 1
    async with Group({"a": server}, start="lazy", on_error="skip") as group:
        with pytest.raises(mcpwire.ConnectError):
            await group.call_tool("a", "x")
        assert (state(group), "a" in group) == ("failed", True)
        assert (await group.call_tool("a", "x")).text == "now"


@on_a_virtual_clock
async def test_connect_timeout_applies_to_lazy_servers():
    silent, quick = (
        ScriptedServer("", "server/discover", "initialize"),
        ScriptedServer("x"),
    )
    servers = {"silent": silent, "quick": quick}
    options = {"start": "lazy", "timeout": None, "connect_timeout": 0.05}
    async with Group(servers, **options) as group:
        with pytest.raises(mcpwire.RequestTimeout, match="server/discover"):
            await group.call_tool("silent", "x", timeout=BOUND_S)
        assert (await group.call_tool("quick", "x")).text == "x"


async def test_connect_all_connects_lazy_servers():
    async with Group(
        {"a": ScriptedServer(), "b": ScriptedServer()}, start="lazy"
    ) as group:
        assert (await group.connect_all()).ok == ("a", "b")


@pytest.mark.usefixtures("idle_by_the_loop")
@on_a_virtual_clock
async def test_idle_lazy_server_is_closed_and_reconnected():
    server = ScriptedServer("x")
    async with Group({"a": server}, start="lazy", idle=0.01) as group:
        for count in (1, 2):
            assert (await group.call_tool("a", "x")).text == "x"
            assert server.connections == count
            await until(lambda: state(group) == "idle", 0.001)
            await until(lambda: server.channel.lost, 0.001)
        assert "a" in group
        assert group.status()["a"].restarts == 0


async def test_call_during_idle_closing_reconnects():
    server = ScriptedServer("x")
    async with Group({"a": server}, start="lazy", idle=0.005) as group:
        await group.call_tool("a", "x")
        await until(lambda: state(group) == "idle")
        assert (await group.call_tool("a", "x")).text == "x"


@pytest.mark.usefixtures("idle_by_the_loop")
@on_a_virtual_clock
async def test_lazy_server_with_a_call_or_a_client_user_is_not_idle():
    busy, held = ScriptedServer("", "tools/call"), ScriptedServer()
    servers = {"busy": busy, "mine": held}
    async with Group(servers, start="lazy", idle=0.003) as group:
        call = asyncio.ensure_future(group.call_tool("busy", "x"))
        await group.client("mine")
        await until(lambda: busy.waiting)
        await asyncio.sleep(0.02)  # six times the idle limit
        assert [state(group, name) for name in servers] == ["ready", "ready"]
        busy.release()
        await call
        await until(lambda: state(group, "busy") == "idle", 0.001)
        assert state(group, "mine") == "ready"


@pytest.mark.system("L-A10")
@pytest.mark.usefixtures("idle_by_the_loop")
@on_a_virtual_clock
async def test_lazy_server_with_subscriptions_or_log_level_is_not_idle():
    methods = {"logging/setLevel": lambda *_: {}}
    servers = {"told": ScriptedServer(), "logs": ScriptedServer(**methods)}
    async with Group(servers, start="lazy", idle=0.003) as group:
        await group.subscribe("told", "mem://x")
        await group.set_log_level("logs", "debug")
        await asyncio.sleep(0.02)  # six times the idle limit
        assert [state(group, name) for name in servers] == ["ready", "ready"]
        await group.unsubscribe("told", "mem://x")
        await until(lambda: state(group, "told") == "idle", 0.001)
        assert state(group, "logs") == "ready"


async def test_error_closing_an_idle_server_is_logged(caplog):
    class Failing(mcpwire.Client):
        async def aclose(self):
            await super().aclose()
            if closing:
                raise OSError(closing.pop())

    closing = ["no"]
    make = lambda _, target, **options: Failing(target, **options)  # noqa: E731 - short
    servers = {"a": ScriptedServer()}
    async with Group(servers, start="lazy", idle=0.003, make_client=make) as group:
        await group.ping("a")
        await until(lambda: caplog.records)
        assert state(group) == "idle"
