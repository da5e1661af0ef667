"""Requests that fail leave no objects for the garbage collector."""

import asyncio
import gc

import pytest
from loop_polling import until
from raw_client import notice
from raw_http_client import Work, call, in_session, turns
from raw_sockets import TIMEOUT_S, connected, port_of, raw, rest, served

from mcpwire import Context, Limits, Server
from mcpwire.server.http.exchange import Exchange
from mcpwire.server.http.sessions import HttpSession
from mcpwire.server.http.uvicorn import HttpConnection, HttpRequest
from mcpwire.server.request import RequestContext

pytestmark = pytest.mark.attack("X02")

BODY = 100_000
HALF = raw(b" " * (BODY // 2), content_length=str(BODY))
HEAD = HALF.partition(b"\r\n\r\n")[0]
CHUNKED = raw(b"", content_length=None, transfer_encoding="chunked")


@pytest.fixture(autouse=True)
def collector():
    """Disable the collector, which runs late or never on an idle server."""
    gc.collect()
    gc.disable()
    EARLIER.extend(found())
    yield
    EARLIER.clear()
    gc.enable()


EARLIER = []
"""Objects of earlier tests; kept, so that no new object has one of their ids."""

KINDS = Exchange, HttpConnection, HttpRequest, HttpSession, RequestContext


def found():
    return [each for each in gc.get_objects() if type(each) in KINDS]


def remaining(*kinds):
    kinds, earlier = kinds or KINDS[:3], {id(each) for each in EARLIER}
    new = [each for each in found() if id(each) not in earlier]
    return [type(each).__name__ for each in new if type(each) in kinds]


@pytest.mark.parametrize(
    ("data", "is_answered"),
    [
        (HEAD, False),
        (HALF, False),
        (HALF, True),
        (CHUNKED + b"%x\r\n%b\r\n" % (BODY + 1, bytes(BODY + 1)), True),
        (CHUNKED + b"no chunk\r\n", True),
        (raw(b"[" * BODY), True),
        (raw({"jsonrpc": "2.0", "id": 1, "method": "x" * (BODY // 2)}), True),
        (raw(b" ", host="evil.example"), True),
    ],
)
async def test_refused_or_aborted_request_is_freed_at_once(data, is_answered):
    server = Server("x", limits=Limits(body=BODY, body_timeout=0.05))
    async with served(server) as (url, _):
        async with connected(port_of(url)) as (reader, writer):
            writer.write(data)
            if is_answered:
                assert (await rest(reader)).startswith(b"HTTP/1.1 4")
            else:
                await until(lambda: "HttpRequest" in remaining() or len(data) < BODY)
                writer.transport.abort()
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not remaining())


def tool_call(name, id=1, **fields):
    """Return a stateless call of a tool with a long text."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": id,
    }
    params = {"name": name, "arguments": {"text": "x" * BODY}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return raw(message, mcp_name=name, **fields)


@pytest.mark.parametrize("says_something", [False, True])
async def test_calls_of_disconnected_clients_are_freed_when_they_end(says_something):
    server, begun = Server("x"), asyncio.Event()

    @server.tool
    async def wait(text: str, ctx: Context) -> str:
        if says_something:
            ctx.progress(1)
        begun.set()
        await asyncio.Event().wait()

    async with served(server) as (url, _):
        for _ in range(3):
            begun.clear()
            async with connected(port_of(url)) as (_reader, writer):
                writer.write(tool_call("wait"))
                async with asyncio.timeout(TIMEOUT_S):
                    await begun.wait()
                writer.transport.abort()
        async with asyncio.timeout(TIMEOUT_S):
            # A timer that was set in a call holds its context until it fires.
            await until(lambda: remaining().count("Exchange") <= 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [("unknown", b"unknown tool"), ("timed", b"HTTP/1.1 200")],
    ids=["refused", "before its timeout"],
)
async def test_answered_call_is_freed_at_once(name, said):
    server = Server("x")

    @server.tool(timeout=600.0)
    async def timed(text: str) -> str:
        return text[:1]

    async with served(server) as (url, _):
        for _ in range(3):
            async with connected(port_of(url)) as (reader, writer):
                writer.write(tool_call(name, connection="close"))
                assert said in await rest(reader)
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not remaining())


async def test_cancelled_call_is_freed_when_it_ends():
    work = Work()
    async with in_session(work) as (_, hand):
        for id in range(3):
            work.began.clear()
            visit = hand.post(call(id, text="x" * BODY))
            await work.began.wait()
            await hand.post_accepted(notice("notifications/cancelled", requestId=id))
            await visit.done()
            work.requests.clear()
        await until(lambda: work.outcomes == ["cancelled"] * 3)
        await turns()
        assert not remaining(RequestContext)


async def test_sessions_are_freed_when_they_end():
    server = Server("x")
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with served(server) as (url, _):
        for _ in range(3):
            async with connected(port_of(url)) as (reader, writer):
                writer.write(raw(message, mcp_protocol_version=None))
                head = (await rest(reader)).partition(b"\r\n\r\n")[0]
            assert b"mcp-session-id: " in head, head
            id = head.partition(b"mcp-session-id: ")[2].partition(b"\r\n")[0].decode()
            async with connected(port_of(url)) as (reader, writer):
                fields = {"mcp_session_id": id, "mcp_protocol_version": "2025-11-25"}
                ending = raw(b"", **fields).replace(b"POST", b"DELETE", 1)
                writer.write(ending)
                assert (await rest(reader)).startswith(b"HTTP/1.1 204")
        async with asyncio.timeout(TIMEOUT_S):
            await until(lambda: not remaining(HttpSession))
