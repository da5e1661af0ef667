"""A function for headers that raises, hangs or returns anything ends what asked it."""

import asyncio
import time

import pytest
from faulty import BOUND_S, QUICK, connected, never, until
from mcp_server import scripted_mcp

import mcpwire
from mcpwire import LocalProtocolError, types
from mcpwire.protocol.deadline import Deadline

pytestmark = pytest.mark.pain("P27")

ANSWER = types.CreateMessageResult("assistant", types.TextContent("fine"), "m")


class NoTokenError(Exception):
    """What a user's function raises."""


class Headers:
    """A function for headers that fails while `fails`."""

    def __init__(self):
        self.fails = False
        self.asked = 0

    def __call__(self):
        self.asked += 1
        if self.fails:
            raise NoTokenError("no token today")
        return {"X-Number": str(self.asked)}


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_connecting_with_a_function_that_raises_raises_that_at_once(era):
    headers = Headers()
    headers.fails = True
    with scripted_mcp(era) as server:
        client = mcpwire.Client(mcpwire.Http(server.url, headers=headers))
        with pytest.raises(NoTokenError):
            await client.connect()
        assert headers.asked == 1
        headers.fails = False
        async with client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_answers_that_could_not_be_sent_do_not_stop_the_later_ones():
    headers = Headers()
    asked, has_headers = [], []

    async def sampling(request):
        asked.append(request)
        headers.fails = not has_headers
        return ANSWER

    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        few = mcpwire.Limits(inbound=2)
        options = {"sampling": sampling, "limits": few}
        async with connected(target, **options) as client:
            # What the server has asked before its call ended counts; on a loaded
            # machine it may have asked after that, or what it asked fails the next.
            while len(asked) < 3:
                headers.fails = False
                with pytest.raises((mcpwire.RequestTimeout, NoTokenError)):
                    await client.call_tool("ask", timeout=0.1)
            has_headers.append(True)
            headers.fails = False
            assert (await client.call_tool("ask")).text == "fine"


async def test_the_servers_stream_comes_back_once_there_are_headers_again():
    headers = Headers()
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers, server_stream="always")
        async with connected(target, recovery=QUICK) as client:
            await until(lambda: server.streams)
            headers.fails = True
            asked = headers.asked
            server.close_streams()
            await until(lambda: headers.asked > asked)
            headers.fails = False
            await until(lambda: server.streams)
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_listening_with_a_function_that_raises_fails_at_once():
    headers = Headers()
    with scripted_mcp("stateless") as server:
        target = mcpwire.Http(server.url, headers=headers)
        async with connected(target) as client:
            headers.fails = True
            asked = headers.asked
            with pytest.raises((NoTokenError, LocalProtocolError)):
                await client.subscribe("memo://one", timeout=None)
            assert headers.asked == asked + 1


async def test_a_ping_that_could_not_be_sent_ends_no_keepalive(monkeypatch):
    from mcpwire.client import connection

    # Else a ping must be answered within the time between two of them.
    def patient(now, seconds):
        return Deadline(now, BOUND_S)

    monkeypatch.setattr(connection, "Deadline", patient)
    headers = Headers()
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        async with connected(target, keepalive=0.05):
            await until(lambda: "ping" in server.verbs())
            headers.fails = True
            asked = headers.asked
            await until(lambda: headers.asked > asked + 1)
            headers.fails = False
            pings = server.verbs().count("ping")
            await until(lambda: server.verbs().count("ping") > pings)


# Functions that hang: asyncio only, for a plain function blocks whoever calls it.


class Hanging:
    """An async function for headers that hangs while `hangs`."""

    def __init__(self):
        self.hangs = False
        self.waiting = 0

    async def __call__(self):
        if self.hangs:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1
        return {}


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_connecting_is_bounded_though_headers_never_come(era):
    headers = Hanging()
    headers.hangs = True
    with scripted_mcp(era) as server:
        target = mcpwire.Http(server.url, headers=headers)
        client = mcpwire.Client(target, connect_timeout=0.2, probe_timeout=0.05)
        with pytest.raises(mcpwire.RequestTimeout):
            await client.connect()
        await until(lambda: not headers.waiting)


async def test_everything_is_bounded_though_headers_never_come(monkeypatch):
    from mcpwire.transports.http import streamable as channel

    headers = Hanging()
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers, server_stream="always")
        async with connected(target) as client:
            await until(lambda: server.streams)
            # Not before: what it says as it connects has the time it needs.
            monkeypatch.setattr(channel, "NOTIFY_TIMEOUT_S", 0.1)
            headers.hangs = True
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("echo", timeout=0.1)
            with pytest.raises(mcpwire.RequestTimeout):
                await client.notify("notifications/x")
            call = await client.start_call("echo")
            call.cancel()
            with pytest.raises(mcpwire.CallCancelled):
                await call
            calling = asyncio.ensure_future(client.call_tool("echo"))
            await until(lambda: headers.waiting)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            late = asyncio.ensure_future(client.call_tool("echo"))
            await until(lambda: headers.waiting)
            await client.aclose()
            with pytest.raises(mcpwire.ConnectionClosed):
                await late
            await until(lambda: not headers.waiting)


async def test_a_function_that_is_cancelled_by_somebody_else_cancels_nobody():
    async def headers():
        if fails:
            raise asyncio.CancelledError
        return {}

    fails = False
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        async with connected(target) as client:
            fails = True
            with pytest.raises(mcpwire.MCPError):
                await client.call_tool("echo")
            fails = False
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_a_deadline_that_passes_as_the_headers_come_is_kept():
    """The function ends in the very turn of the loop in which the time is over."""

    async def headers():
        if slow:
            # Both are due in the same turn: the clock's timer, and this.
            await asyncio.sleep(0.05)  # as long as the call may take
            time.sleep(0.02)  # noqa: ASYNC251 - that they are
        return {}

    slow = False
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        async with connected(target) as client:
            server.on["tools/call"] = never
            slow = True
            for timeout in (0.03, 0.045, 0.05, 0.055, 0.06, 0.065, 0.069, 0.07):
                with pytest.raises(mcpwire.RequestTimeout):
                    await client.call_tool("echo", timeout=timeout)
            slow = False


async def test_calls_end_promptly_when_their_headers_fail():
    headers = Headers()
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        async with connected(target) as client:
            headers.fails = True
            asked, sent = headers.asked, len(server.requests)
            with pytest.raises(NoTokenError):
                await client.call_tool("echo")
            with pytest.raises(NoTokenError):
                await client.list_tools()
            with pytest.raises(NoTokenError):
                await client.notify("notifications/x")
            assert len(server.requests) == sent
            # Neither asked again, nor until their thirty seconds are over.
            assert headers.asked == asked + 3
