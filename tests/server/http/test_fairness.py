"""What many share, divided by client: one that takes much leaves others their part."""

import contextlib

import httpx
import pytest

from mcpwire import Server
from mcpwire.testing import AsgiTransport

pytestmark = [pytest.mark.attack("X07"), pytest.mark.anyio]

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
        "capabilities": {},
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

    async def used(self, session):
        """Call the tool in a session; return the status."""
        fields = {"mcp-session-id": session}
        answer = await self.http.post(URL, json=CALL, headers=fields)
        return answer.status_code


@contextlib.asynccontextmanager
async def visitors(**options):
    server = Server("x")
    server.add_tool(lambda: 1, name="t")
    app = server.asgi(allowed_hosts=["x.example"], **options)
    async with contextlib.AsyncExitStack() as stack:
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
