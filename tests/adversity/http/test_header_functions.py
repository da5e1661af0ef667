"""A header function that raises or hangs ends the request that called it."""

import asyncio
import time

import pytest
from faulty import ANSWER, BOUND_S, QUICK, client_of, connected, never, until
from mcp_server import scripted_mcp

import mcpwire
from mcpwire import LocalProtocolError
from mcpwire.protocol.deadline import Deadline

pytestmark = pytest.mark.pain("P27")


class NoTokenError(Exception):
    """Raised by a user's header function."""


class Headers:
    """A header function that raises while `fails` is set."""

    def __init__(self):
        self.fails = False
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.fails:
            raise NoTokenError("no token today")
        return {"X-Number": str(self.calls)}


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_connect_raises_the_error_of_the_header_function_at_once(era):
    headers = Headers()
    headers.fails = True
    with scripted_mcp(era) as server:
        client = mcpwire.Client(mcpwire.Http(server.url, headers=headers))
        with pytest.raises(NoTokenError):
            await client.connect()
        assert headers.calls == 1
        headers.fails = False
        async with client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_failed_client_responses_do_not_block_later_ones():
    headers = Headers()
    calls, has_headers = [], []

    async def sampling(request):
        calls.append(request)
        headers.fails = not has_headers
        return ANSWER

    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        few = mcpwire.Limits(inbound=2)
        options = {"sampling": sampling, "limits": few}
        async with connected(target, **options) as client:
            # Requests that the server sends before its call ends count; on a loaded
            # machine one may arrive later, or its failure ends the next call.
            while len(calls) < 3:
                headers.fails = False
                with pytest.raises((mcpwire.RequestTimeout, NoTokenError)):
                    await client.call_tool("ask", timeout=0.1)
            has_headers.append(True)
            headers.fails = False
            assert (await client.call_tool("ask")).text == "fine"


async def test_server_stream_reopens_when_headers_are_available_again():
    headers = Headers()
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers, server_stream="always")
        async with connected(target, recovery=QUICK) as client:
            await until(lambda: server.streams)
            headers.fails = True
            calls = headers.calls
            server.close_streams()
            await until(lambda: headers.calls > calls)
            headers.fails = False
            await until(lambda: server.streams)
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_subscribe_fails_at_once_when_the_header_function_raises():
    headers = Headers()
    async with client_of("stateless", headers=headers) as (_server, client):
        headers.fails = True
        calls = headers.calls
        with pytest.raises((NoTokenError, LocalProtocolError)):
            await client.subscribe("memo://one", timeout=None)
        assert headers.calls == calls + 1


async def test_failed_ping_does_not_stop_the_keepalive(monkeypatch):
    from mcpwire.client import connection

    # Otherwise a ping must be answered within one ping interval.
    def lenient_deadline(now, seconds):
        return Deadline(now, BOUND_S)

    monkeypatch.setattr(connection, "Deadline", lenient_deadline)
    headers = Headers()
    async with client_of(headers=headers, keepalive=0.05) as (server, _):
        await until(lambda: "ping" in server.verbs())
        headers.fails = True
        calls = headers.calls
        await until(lambda: headers.calls > calls + 1)
        headers.fails = False
        pings = server.verbs().count("ping")
        await until(lambda: server.verbs().count("ping") > pings)


# Functions that hang: async only, because a plain function blocks its caller.


class Hanging:
    """An async header function that hangs while `hangs` is set."""

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
async def test_connect_times_out_when_the_header_function_hangs(era):
    headers = Hanging()
    headers.hangs = True
    with scripted_mcp(era) as server:
        target = mcpwire.Http(server.url, headers=headers)
        client = mcpwire.Client(target, connect_timeout=0.2, probe_timeout=0.05)
        with pytest.raises(mcpwire.RequestTimeout):
            await client.connect()
        await until(lambda: not headers.waiting)


async def test_every_operation_times_out_when_the_header_function_hangs(monkeypatch):
    from mcpwire.transports.http import streamable as channel

    headers = Hanging()
    async with client_of(headers=headers, server_stream="always") as (server, client):
        await until(lambda: server.streams)
        # Not earlier: notifications of the handshake need their time.
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


async def test_cancelled_error_of_a_header_function_cancels_no_caller():
    async def headers():
        if fails:
            raise asyncio.CancelledError
        return {}

    fails = False
    async with client_of(headers=headers) as (_server, client):
        fails = True
        with pytest.raises(mcpwire.MCPError):
            await client.call_tool("echo")
        fails = False
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


async def test_deadline_that_passes_with_the_headers_is_enforced():
    """The function returns in the same loop iteration in which the deadline passes."""

    async def headers():
        if slow:
            # Both are due in the same iteration: the deadline's timer and this sleep.
            await asyncio.sleep(0.05)  # as long as the call may take
            time.sleep(0.02)  # noqa: ASYNC251 - makes both due
        return {}

    slow = False
    async with client_of(headers=headers) as (server, client):
        server.on["tools/call"] = never
        slow = True
        for timeout in (0.03, 0.045, 0.05, 0.055, 0.06, 0.065, 0.069, 0.07):
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("echo", timeout=timeout)
        slow = False


async def test_requests_fail_at_once_when_the_header_function_raises():
    headers = Headers()
    async with client_of(headers=headers) as (server, client):
        headers.fails = True
        calls, sent = headers.calls, len(server.requests)
        with pytest.raises(NoTokenError):
            await client.call_tool("echo")
        with pytest.raises(NoTokenError):
            await client.list_tools()
        with pytest.raises(NoTokenError):
            await client.notify("notifications/x")
        assert len(server.requests) == sent
        # The function is not called again, and no call waits for its timeout.
        assert headers.calls == calls + 3
