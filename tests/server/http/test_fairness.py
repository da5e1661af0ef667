"""What many share, divided by client: one that takes much leaves others their part."""

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

    async def opened(self):
        answer = await self.http.post(URL, json=INITIALIZE)
        assert answer.status_code == 200
        return answer.headers["mcp-session-id"]

    @contextlib.asynccontextmanager
    async def asked(self):
        """Call a tool in a session of its own; leave the tool's question open."""
        fields = {"mcp-session-id": await self.opened()}
        call = {**CALL, "params": {"name": "ask", "arguments": {}}}
        async with self.http.stream("POST", URL, json=call, headers=fields) as answer:
            lines = answer.aiter_lines()
            while "roots/list" not in await anext(lines):
                pass
            yield fields["mcp-session-id"]

    async def used(self, session):
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
        both = [Visitor(app, address) for address in (GREEDY, HONEST)]
        for each in both:
            await stack.enter_async_context(each.http)
        yield both
    await app.aclose()


async def test_sessions_of_one_address_do_not_end_those_of_another():
    async with visitors(max_sessions=4) as (greedy, honest):
        session = await honest.opened()
        for _ in range(10):
            await greedy.opened()
        assert await honest.used(session) == 200
        # And it gets its part, also when all are taken.
        more = await honest.opened()
        assert [await honest.used(each) for each in (session, more)] == [200, 200]


async def test_the_own_session_that_was_idle_for_longest_goes_for_one_more():
    async with visitors(max_sessions=4) as (greedy, honest):
        session = await honest.opened()
        first, second, third = [await greedy.opened() for _ in range(3)]
        assert await greedy.used(first) == 200
        fourth = await greedy.opened()
        assert await honest.used(session) == 200
        statuses = [await greedy.used(each) for each in (first, second, third, fourth)]
        assert statuses == [200, 404, 200, 200]


async def test_questions_that_one_address_leaves_open_do_not_keep_others_out():
    async with visitors(max_sessions=4) as (greedy, honest), AsyncExitStack() as stack:
        asked = [await stack.enter_async_context(greedy.asked()) for _ in range(4)]
        sessions = [await honest.opened(), await honest.opened()]
        assert [await honest.used(each) for each in sessions] == [200, 200]
        statuses = [await greedy.used(each) for each in asked]
        assert statuses == [404, 404, 200, 200]
        # All that there are now are within the shares of both.
        answer = await greedy.http.post(URL, json=INITIALIZE)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert [await honest.used(each) for each in sessions] == [200, 200]
