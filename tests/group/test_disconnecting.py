"""How servers are disconnected from a group: immediately, all, in bounded time."""

import asyncio
import contextlib
import os

import pytest
from group_servers import ScriptedServer, Unreachable
from loop_polling import until
from scripted import pid_of, scripted

import mcpwire
from mcpwire.group import Group, managed_server


class Stubborn(mcpwire.Client):
    """A client that closes late or raises on closing."""

    def __init__(self, target, **options):
        super().__init__(target, **options)
        self.closing = asyncio.Event()
        self.may_close = asyncio.Event()
        self.error = None

    async def aclose(self):
        self.closing.set()
        await self.may_close.wait()
        await super().aclose()
        if self.error is not None:
            raise self.error


def stubborn(name, target, **options):
    return Stubborn(target, **options)


@pytest.mark.system("A33")
async def test_disconnect_removes_a_server_at_once_and_ignores_unknown_names():
    server = ScriptedServer()
    async with Group({"a": server}, make_client=stubborn) as group:
        await group.disconnect("nowhere")
        client = group["a"]
        leaving = asyncio.ensure_future(group.disconnect("a"))
        await client.closing.wait()
        assert "a" not in group
        assert (len(group), group.status()["a"].state) == (0, "idle")
        with pytest.raises(mcpwire.UnknownServer):
            await group.call_tool("a", "x")
        assert not leaving.done()
        await group.connect(
            "a", ScriptedServer("new")
        )  # it does not wait for the old client
        group["a"].may_close.set()
        client.may_close.set()
        await leaving
        assert server.channel.lost
        assert (await group.call_tool("a", "x")).text == "new"


@pytest.mark.parametrize("steps", range(5))
async def test_client_is_returned_or_refused_if_it_is_disconnected_meanwhile(steps):
    async with Group({"a": ScriptedServer()}, start="lazy") as group:
        waiting = asyncio.ensure_future(group.client("a"))
        await until(lambda: group.status()["a"].state == "ready")
        for _ in range(steps):
            await asyncio.sleep(0)  # to each point of the call
        await group.disconnect("a")
        with contextlib.suppress(mcpwire.ConnectionClosed):
            assert not (await waiting).is_connected


@pytest.mark.system("A33")
async def test_disconnect_times_out_if_closing_hangs(monkeypatch):
    monkeypatch.setattr(managed_server, "CLOSE_TIMEOUT_S", 0.01)
    monkeypatch.setattr("mcpwire.group.group.CLOSE_TIMEOUT_S", 0.01)
    limits = mcpwire.Limits(close_grace=0.01, terminate_grace=0.01)
    group = Group({"a": ScriptedServer()}, make_client=stubborn, limits=limits)
    await group.connect_all()
    client = group["a"]
    with pytest.raises(mcpwire.RequestTimeout, match="close"):
        await group.disconnect("a")
    client.may_close.set()
    await client.aclose()
    await group.aclose()


@pytest.mark.system("A33")
async def test_disconnect_ends_calls_and_connects_with_connection_closed(caplog):
    server, slow = (
        ScriptedServer("", "tools/call"),
        ScriptedServer("", "server/discover"),
    )
    async with Group({"a": server}) as group:
        call = asyncio.ensure_future(group.call_tool("a", "x"))
        connecting = asyncio.ensure_future(group.connect("slow", slow))
        await until(lambda: server.waiting and slow.waiting)
        for name, waiting in (("a", call), ("slow", connecting)):
            await group.disconnect(name)
            with pytest.raises(mcpwire.ConnectionClosed):
                await waiting
        assert list(group) == []
        slow.release()
        assert group.status()["slow"].state == "idle"


async def test_disconnect_takes_precedence_over_connect_all():
    slow = ScriptedServer("", "server/discover")
    async with Group({"a": ScriptedServer()}) as group:
        connecting = asyncio.ensure_future(
            group.connect_all({"b": ScriptedServer(), "s": slow})
        )
        await until(lambda: slow.waiting)
        await group.disconnect("s")
        report = await connecting
        assert report.ok == ("b",)
        assert isinstance(report.failed["s"], mcpwire.ConnectionClosed)
        assert list(group) == ["a", "b"]


async def test_cancelled_disconnect_continues_closing():
    server = ScriptedServer()
    async with Group({"a": server}, make_client=stubborn) as group:
        client = group["a"]
        leaving = asyncio.ensure_future(group.disconnect("a"))
        await client.closing.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
        client.may_close.set()
        await until(lambda: server.channel.lost)


@pytest.mark.system("A34")
async def test_disconnect_all_raises_the_first_error_and_logs_all(caplog):
    servers = {name: ScriptedServer() for name in "abc"}
    group = Group(servers, make_client=stubborn)
    await group.disconnect_all()
    await group.connect_all()
    clients = {name: group[name] for name in servers}
    clients["a"].error = OSError("first")
    clients["b"].error = LookupError("second")
    leaving = asyncio.ensure_future(group.disconnect_all())
    for client in clients.values():
        await client.closing.wait()  # all at once
    for client in reversed(clients.values()):
        client.may_close.set()
    with pytest.raises(OSError, match="first"):
        await leaving
    assert all(server.channel.lost for server in servers.values())
    assert [each.server for each in caplog.records] == ["a", "b"]
    assert len(group) == 0


@pytest.mark.system("V18")
async def test_leaving_a_group_closes_all_servers_and_later_calls_fail():
    servers = {"a": ScriptedServer(), "b": ScriptedServer()}
    async with Group(servers) as group:
        pass
    assert all(server.channel.lost for server in servers.values())
    with pytest.raises(mcpwire.UnknownServer, match="'a' is not connected"):
        await group.call_tool("a", "x")
    await group.aclose()
    await group.aclose()


async def test_body_error_is_raised_and_closing_error_logged(caplog):
    async def leave(error=None):
        async with Group({"a": ScriptedServer()}, make_client=stubborn) as group:
            group["a"].error = OSError("closing")
            group["a"].may_close.set()
            if error is not None:
                raise error

    with pytest.raises(LookupError, match="body"):
        await leave(LookupError("body"))
    with pytest.raises(OSError, match="closing"):
        await leave()
    assert "closing" in caplog.text


async def test_closing_a_group_cancels_connecting_servers():
    slow = ScriptedServer("", "server/discover")
    group = Group({"slow": slow})
    connecting = asyncio.ensure_future(group.connect_all())
    await until(lambda: slow.waiting)
    await group.aclose()
    assert (await connecting).ok == ()
    assert slow.channel.lost


async def test_error_closing_a_replaced_client_is_only_logged(caplog):
    async with Group({"a": ScriptedServer()}, make_client=stubborn) as group:
        old = group["a"]
        old.error = TimeoutError("not ours")
        replacing = asyncio.ensure_future(
            group.connect("a", ScriptedServer("new"), replace=True)
        )
        await old.closing.wait()
        assert not replacing.done()
        old.may_close.set()
        (await replacing).may_close.set()
        assert (await group.call_tool("a", "x")).text == "new"
    assert "not ours" in caplog.text


async def test_handler_can_disconnect_its_own_server():
    from requesting_server import SAMPLE, Asking

    left = asyncio.Event()

    async def sampling(_):
        left.set()
        await group.disconnect("a")

    server = Asking("sampling/createMessage", SAMPLE)
    async with Group({"a": server}, sampling=sampling) as group:
        with pytest.raises(mcpwire.ConnectionClosed):
            await group.call_tool("a", "x")
        assert left.is_set()
        assert len(group) == 0


async def test_server_closed_by_the_user_is_idle_and_can_be_reconnected():
    server = ScriptedServer()
    async with Group({"a": server}) as group:
        await group["a"].aclose()
        assert "a" not in group
        assert group.status()["a"].state == "idle"
        await group.connect_all()
        assert (await group.call_tool("a", "x")).text == ""


async def test_failed_server_can_be_disconnected():
    async with Group({"a": Unreachable()}, on_error="skip") as group:
        await group.disconnect("a")
        assert group.problems == {}


@pytest.mark.system("A18", "A33")
async def test_unresponsive_child_is_terminated_when_the_group_closes():
    deaf = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nhandshake()\n"
        "while True: time.sleep(60)\n"
    )
    servers = {"deaf": deaf, "memory": ScriptedServer("x")}
    limits = mcpwire.Limits(close_grace=0.02, terminate_grace=0.02)
    async with Group(servers, limits=limits) as group:
        hanging = asyncio.ensure_future(group.call_tool("deaf", "x"))
        assert (await group.call_tool("memory", "x")).text == "x"
        pid = pid_of(group["deaf"])
    with pytest.raises(mcpwire.ConnectionClosed):
        await hanging
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
