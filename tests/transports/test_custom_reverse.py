"""Servers that connect to the client: waiting, backlog, and the error of each end."""

import asyncio

import pytest
from clocks import on_a_virtual_clock
from loop_polling import until

import mcpwire
from mcpwire.limits import Recovery
from mcpwire.transports import Reverse

pytestmark = [pytest.mark.system("O95"), pytest.mark.usefixtures("bounded")]

ONCE = Recovery(restart=False)


class Ends:
    """A connection of queues: what `accept_messages` and `serve_messages` take."""

    def __init__(self):
        self.there, self.back = asyncio.Queue(), asyncio.Queue()
        self.closed = 0

    def close(self):
        self.closed += 1
        self.there.put_nowait(None)

    def accepted(self, target):
        return asyncio.create_task(
            target.accept_messages(self.there.put, self.back.get, close=self.close)
        )

    def served(self, server):
        return asyncio.create_task(
            server.serve_messages(
                self.back.put, self.there.get, close=lambda: self.back.put_nowait(None)
            )
        )


@pytest.mark.system("O35")
async def test_a_group_uses_a_reverse_server_like_any_other(server):
    target = Reverse(name="laptop")
    ends = Ends()
    accepting = ends.accepted(target)
    await until(lambda: target.waiting)
    serving = ends.served(server)
    async with mcpwire.Group({"laptop": target, "here": server}) as group:
        for name in ("laptop", "here"):
            result = await group.call_tool(name, "echo", {"message": name})
            assert result.text == name
        assert (target.waiting, target.connected) == (0, 1)
    assert await accepting is True
    await serving
    assert target.connected == 0
    assert repr(target) == "<Reverse 'laptop'>"


@pytest.mark.system("O35")
async def test_a_gateway_forwards_the_tools_of_a_reverse_server(server):
    target = Reverse()
    ends = Ends()
    accepting, serving = ends.accepted(target), ends.served(server)
    async with (
        mcpwire.Gateway({"laptop": target}) as gateway,
        mcpwire.Client(gateway) as client,
    ):
        result = await client.call_tool("laptop_echo", {"message": "through"})
        assert result.text == "through"
    await accepting
    await serving


@on_a_virtual_clock
async def test_closed_dropped_and_late_connections_raise_differently(server):
    target = Reverse(name="phone", timeout=0.05)
    with pytest.raises(
        mcpwire.ConnectError, match=r"no client connected within 0\.05 s"
    ):
        await mcpwire.Client(target).connect()

    ends = Ends()
    accepting, serving = ends.accepted(target), ends.served(server)
    client = mcpwire.Client(target, recovery=ONCE)
    await client.connect()
    with pytest.raises(mcpwire.RequestTimeout):
        await client.call_tool("hang", timeout=0.05)

    call = asyncio.create_task(client.call_tool("hang"))
    await client.ping()
    ends.back.put_nowait(None)  # the connection is dropped
    ends.there.put_nowait(None)
    with pytest.raises(mcpwire.ConnectionClosed, match="the peer closed it"):
        await call
    await client.aclose()
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.ping()
    await accepting
    await serving

    await target.aclose()
    with pytest.raises(mcpwire.ConnectError, match="phone was closed"):
        await client.connect()
    assert await ends.accepted(target) is False


async def test_the_oldest_waiting_connection_is_dropped():
    target = Reverse(backlog=2)
    waiting = [Ends() for _ in range(3)]
    tasks = [ends.accepted(target) for ends in waiting]
    assert await tasks[0] is False
    assert [ends.closed for ends in waiting] == [1, 0, 0]
    assert target.waiting == 2
    async with target:
        pass
    assert [await task for task in tasks] == [False, False, False]
    assert [ends.closed for ends in waiting] == [1, 1, 1]


async def test_closing_ends_a_client_waiting_for_a_connection():
    target = Reverse(name="nobody")
    connecting = asyncio.create_task(mcpwire.Client(target).connect())
    await until(lambda: target._waiting_clients)
    await target.aclose()
    with pytest.raises(mcpwire.ConnectError, match="nobody was closed"):
        await connecting


async def test_a_connection_closed_while_waiting_is_skipped(server):
    target = Reverse(backlog=5)
    async with await asyncio.start_unix_server(target.accept, "r") as listener:
        _, gone = await asyncio.open_unix_connection("r")
        await until(lambda: target.waiting == 1)
        gone.close()
        await gone.wait_closed()
        serving = asyncio.create_task(
            server.serve_stream(*await asyncio.open_unix_connection("r"))
        )
        await until(lambda: target.waiting == 2)
        async with mcpwire.Client(target) as client:
            assert (await client.call_tool("echo", {"message": "x"})).text == "x"
        await serving
        listener.close()


@pytest.mark.parametrize("is_used", [False, True])
async def test_a_cancelled_accept_drops_the_connection(server, is_used):
    target = Reverse()
    ends = Ends()
    accepting, serving = ends.accepted(target), ends.served(server)
    await until(lambda: target.waiting)
    client = mcpwire.Client(target, recovery=ONCE)
    if is_used:
        await client.connect()
        call = asyncio.create_task(client.call_tool("hang"))
        await client.ping()
    accepting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await accepting
    if is_used:
        with pytest.raises(mcpwire.ConnectionClosed, match="accepting failed"):
            await call
        await client.aclose()
    assert (target.waiting, target.connected) == (0, 0)
    ends.there.put_nowait(None)
    await serving


async def test_a_connection_for_a_cancelled_client_goes_to_the_next():
    target = Reverse()
    taken = []
    for after in (0, 1):
        opening = asyncio.create_task(target.open_link())
        await until(lambda: target._waiting_clients)
        if after:
            taken.append(asyncio.create_task(target.open_link()))
            await until(lambda: target._waiting_clients == 2)
        ends = Ends()
        accepting = ends.accepted(target)
        await until(lambda: target.waiting)
        opening.cancel()  # in the loop iteration in which one arrived
        with pytest.raises(asyncio.CancelledError):
            await opening
        link = await (taken[0] if after else target.open_link())
        await link.close()
        link.released.set()
        assert await accepting is True
        assert ends.closed == 1


@pytest.mark.parametrize("options", [{"timeout": 0}, {"backlog": 0}])
async def test_invalid_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Reverse(**options)
