"""Fair shares by client: one that uses much leaves the others their share."""

import contextlib

import pytest
from hosted import posted
from raw_client import request, session

from mcpwire import Context, Server

pytestmark = pytest.mark.attack("X07")

GREEDY, HONEST = "192.0.2.1", "198.51.100.1"
INITIALIZE = request(0, "initialize", session() | {"capabilities": {"roots": {}}})


class Visitor:
    """One address that opens sessions of an application."""

    def __init__(self, app, address):
        self.app = app
        self.address = address
        self.visits = []

    def begin(self, message, id=None):
        visit = posted(message, mcp_protocol_version=None, mcp_session_id=id)
        visit.scope["client"] = (self.address, 50_000)
        self.visits.append(visit.begin(self.app))
        return visit

    def call(self, tool, id):
        return self.begin(request(1, "tools/call", {"name": tool}), id)

    async def open_session(self):
        opened = await self.begin(INITIALIZE).done()
        assert opened.status == 200
        return opened.headers["mcp-session-id"]

    async def leave_pending(self):
        """Call a tool in a new session; leave the tool's request unanswered."""
        id = await self.open_session()
        await self.call("ask", id).until(lambda visit: b"roots/list" in visit.body)
        return id

    async def call_status(self, id):
        return (await self.call("t", id).done()).status


@contextlib.asynccontextmanager
async def visitors(**options):
    server = Server("x")
    server.add_tool(lambda: 1, name="t")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.roots())

    app = server.asgi(**options)
    clients = [Visitor(app, address) for address in (GREEDY, HONEST)]
    yield clients
    await app.aclose()
    for client in clients:
        for visit in client.visits:
            await visit.done()


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
    async with visitors(max_sessions=4) as (greedy, honest):
        pending = [await greedy.leave_pending() for _ in range(4)]
        sessions = [await honest.open_session(), await honest.open_session()]
        assert [await honest.call_status(each) for each in sessions] == [200, 200]
        statuses = [await greedy.call_status(each) for each in pending]
        assert statuses == [404, 404, 200, 200]
        # All remaining sessions are within the shares of both.
        refused = await greedy.begin(INITIALIZE).done()
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert [await honest.call_status(each) for each in sessions] == [200, 200]
