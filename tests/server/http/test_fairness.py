"""Fair shares by client: one that uses much leaves the others their share."""

import contextlib
from contextlib import AsyncExitStack

import httpx
import pytest

from mcpwire import Context, Server
from mcpwire.testing import AsgiTransport

pytestmark = pytest.mark.attack("X07")

GREEDY, HONEST = "192.0.2.1", "198.51.100.1"
URL = "https://x.example/mcp"
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "t", "arguments": {}},
}
FIELDS = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    },
}


class Visitor:
    """One address that opens sessions of an application."""

    def __init__(self, app, address):
        transport = AsgiTransport(app, client=(address, 50_000))
        self.http = httpx.AsyncClient(transport=transport, headers=FIELDS)

    async def open_session(self):
        answer = await self.http.post(URL, json=INITIALIZE)
        assert answer.status_code == 200
        return answer.headers["mcp-session-id"]

    @contextlib.asynccontextmanager
    async def pending(self):
        """Call a tool in a new session; leave the tool's request unanswered."""
        fields = {"mcp-session-id": await self.open_session()}
        call = {**CALL, "params": {"name": "ask", "arguments": {}}}
        async with self.http.stream("POST", URL, json=call, headers=fields) as answer:
            lines = answer.aiter_lines()
            while "roots/list" not in await anext(lines):
                pass
            yield fields["mcp-session-id"]

    async def call_status(self, session):
        """Call the tool in a session; return the status."""
        fields = {"mcp-session-id": session}
        answer = await self.http.post(URL, json=CALL, headers=fields)
        return answer.status_code


@contextlib.asynccontextmanager
async def visitors(**options):
    server = Server("x")
    server.add_tool(lambda: 1, name="t")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.roots())

    app = server.asgi(allowed_hosts=["x.example"], **options)
    async with AsyncExitStack() as stack:
        clients = [Visitor(app, address) for address in (GREEDY, HONEST)]
        for each in clients:
            await stack.enter_async_context(each.http)
        yield clients
    await app.aclose()


async def test_sessions_of_one_address_do_not_end_those_of_another():
    async with visitors(max_sessions=4) as (greedy, honest):
        session = await honest.open_session()
        for _ in range(10):
            await greedy.open_session()
        assert await honest.call_status(session) == 200
        # And it gets its share, even when all sessions are in use.
        more = await honest.open_session()
        assert [await honest.call_status(each) for each in (session, more)] == [
            200,
            200,
        ]


async def test_new_session_evicts_the_longest_idle_of_the_same_address():
    async with visitors(max_sessions=4) as (greedy, honest):
        session = await honest.open_session()
        first, second, third = [await greedy.open_session() for _ in range(3)]
        assert await greedy.call_status(first) == 200
        fourth = await greedy.open_session()
        assert await honest.call_status(session) == 200
        statuses = [
            await greedy.call_status(each) for each in (first, second, third, fourth)
        ]
        assert statuses == [200, 404, 200, 200]


async def test_pending_server_requests_of_one_address_do_not_block_others():
    async with visitors(max_sessions=4) as (greedy, honest), AsyncExitStack() as stack:
        pending = [await stack.enter_async_context(greedy.pending()) for _ in range(4)]
        sessions = [await honest.open_session(), await honest.open_session()]
        assert [await honest.call_status(each) for each in sessions] == [200, 200]
        statuses = [await greedy.call_status(each) for each in pending]
        assert statuses == [404, 404, 200, 200]
        # All remaining sessions are within the shares of both.
        answer = await greedy.http.post(URL, json=INITIALIZE)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert [await honest.call_status(each) for each in sessions] == [200, 200]
