"""How many of a gateway's server connections one untrusted client can take."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE
from gateway_servers import TIMEOUT_S, Counted, fake, named
from loop_polling import until
from world import INITIALIZE, OUTSIDE, GatewayClient

import mcpwire
from mcpwire.gateway import Gateway
from mcpwire.gateway.catalog import RETRY_S
from mcpwire.testing import AsgiTransport

pytestmark = pytest.mark.attack("X06")

STRANGER, HONEST = "192.0.2.1", "198.51.100.1"


class Visitor(GatewayClient):
    """The clients at one address, each with a session."""

    def __init__(self, gateway, app, address):
        transport = AsgiTransport(app, client=(address, 50_000))
        super().__init__(
            httpx.AsyncClient(transport=transport, base_url=OUTSIDE), gateway
        )

    async def declare(self, **capabilities):
        return await self.post(
            "initialize", {**INITIALIZE, "capabilities": capabilities}
        )

    async def use(self, session, name="a_x"):
        return await self.post("tools/call", {"name": name, "arguments": {}}, session)

    async def used(self):
        session = await self.opened()
        assert (await self.use(session)).status_code == 200
        return session


@asynccontextmanager
async def visited(servers, *, timeout_s=TIMEOUT_S, **options):
    """Serve a gateway over HTTP to a stranger and an honest client."""
    gateway = Gateway(servers, **options)
    app = gateway.asgi(allowed_hosts=["gateway.example"], stream_after=300.0)
    stranger, honest = (
        Visitor(gateway, app, address) for address in (STRANGER, HONEST)
    )
    async with asyncio.timeout(timeout_s), stranger.http, honest.http:
        yield gateway, stranger, honest
    await gateway.aclose()


def waiting(begun, may_end):
    server = named("a", "x")

    @server.tool
    async def wait() -> str:
        begun.set()
        await may_end.wait()
        return "done"

    return server


async def test_initialize_alone_opens_no_server_connections():
    server = Counted(named("a", "x"))
    async with visited({"a": server}) as (gateway, stranger, honest):
        responses = [await stranger.initialize() for _ in range(120)]
        assert {response.status_code for response in responses} == {200}
        results = [response.json()["result"] for response in responses]
        assert all(result == results[0] for result in results)
        assert "tools" in results[0]["capabilities"]
        # The first session connected, so that the server's capabilities were known.
        assert (server.opened, len(gateway.pool.session_sets)) == (1, 120)
        await honest.used()
        assert server.opened == 2
    assert server.open == 0


async def test_concurrent_requests_open_the_connections_of_a_session_once():
    server = Counted(named("a", "x"))
    async with visited({"a": server}) as (_, stranger, honest):
        await stranger.opened()
        session = await honest.opened()
        responses = await asyncio.gather(*(honest.use(session) for _ in range(5)))
        assert [response.status_code for response in responses] == [200] * 5
        assert server.opened == 2


async def test_full_pool_evicts_sets_of_the_client_with_the_most_sets():
    server = Counted(named("a", "x"))
    async with visited({"a": server}, max_upstream_sets=4) as (_, stranger, honest):
        first = await honest.used()
        for _ in range(10):
            await stranger.used()
        assert server.open == 4
        second = await honest.used()
        opened = server.opened
        for session in (first, second):
            assert (await honest.use(session)).status_code == 200
        assert (server.opened, server.open) == (opened, 4)


async def test_least_recently_used_set_of_a_client_is_evicted():
    server = Counted(named("a", "x"))
    async with visited({"a": server}, max_upstream_sets=2) as (gateway, _, honest):
        used, unused = await honest.used(), await honest.used()
        assert (await honest.use(used)).status_code == 200
        await honest.used()
        ids = [each.downstream.session.id for each in gateway.pool.session_sets]
        assert used in ids
        assert unused not in ids


async def test_endless_calls_of_one_client_do_not_block_another():
    begun, may_end = asyncio.Event(), asyncio.Event()
    server = Counted(waiting(begun, may_end))
    async with visited({"a": server}, max_upstream_sets=3) as (_, stranger, honest):
        calls = []
        for _ in range(3):
            begun.clear()
            session = await stranger.opened()
            calls.append(asyncio.create_task(stranger.use(session, "a_wait")))
            await begun.wait()
        honest_session = await honest.used()
        # The stranger still has two sets, both of them in use.
        assert (await stranger.use(await stranger.opened())).status_code == 503
        opened = server.opened
        assert (await honest.use(honest_session)).status_code == 200
        assert (server.opened, server.open) == (opened, 3)
        may_end.set()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_full_pool_without_an_evictable_set_answers_503():
    begun, may_end = asyncio.Event(), asyncio.Event()
    server = Counted(waiting(begun, may_end))
    async with visited({"a": server}, max_upstream_sets=1) as (_, stranger, _other):
        session = await stranger.opened()
        call = asyncio.create_task(stranger.use(session, "a_wait"))
        await begun.wait()
        again = await stranger.opened()
        refused = await stranger.use(again)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "try again later" in refused.json()["error"]["message"]
        may_end.set()
        assert (await call).status_code == 200
        assert (await stranger.use(again)).status_code == 200


async def test_sessions_reconnect_after_their_shared_set_was_evicted():
    server = Counted(named("a", "x"))
    options = {"share": "identity", "max_upstream_sets": 1}
    async with visited({"a": server}, **options) as (gateway, stranger, honest):
        first, second = await honest.used(), await honest.used()
        # It declares something else, so that it needs another set.
        other = await stranger.declare(sampling={})
        assert other.status_code == 200
        for each in (first, second, first):
            assert (await honest.use(each)).json()["result"]["content"]
        assert (server.open, len(gateway.pool)) == (1, 1)


async def test_shared_set_of_in_memory_sessions_is_not_evicted():
    server = Counted(named("a", "x"))
    options = {"share": "identity", "max_upstream_sets": 1}
    async with visited({"a": server}, **options) as (gateway, stranger, _):
        async with mcpwire.Client(gateway, mode="2025-11-25") as client:
            refused = await stranger.declare(sampling={})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert (await client.call_tool("a_x")).text == "a.x()"
        assert (await stranger.declare(sampling={})).status_code == 200


async def test_session_whose_set_was_closed_reconnects():
    server = Counted(named("a", "x"))
    async with visited({"a": server}) as (gateway, stranger, _):
        session = await stranger.opened()
        (upstreams,) = gateway.pool.session_sets
        await gateway.pool.close(upstreams)
        responses = [await stranger.use(session) for _ in range(2)]
        assert responses[1].json()["result"]["content"]
        assert len(gateway.pool) == server.open == 1


class SilentFirst:
    """A server that does not respond on its first connection."""

    def __init__(self):
        silent = {m: lambda *_: SILENCE for m in ("initialize", "server/discover")}
        self.silent = fake(methods=silent)
        self.servers = [named("a", "x"), self.silent]

    def open_in_memory(self, client, limits):
        server = self.servers.pop() if len(self.servers) > 1 else self.servers[0]
        return server.open_in_memory(client, limits)


async def test_set_that_is_still_connecting_can_be_evicted():
    server = SilentFirst()
    options = {"max_upstream_sets": 1, "on_error": "raise"}
    async with visited({"a": server}, **options) as (_, stranger, honest):
        opening = asyncio.create_task(stranger.initialize())
        await until(lambda: server.silent.received)
        session = await honest.used()
        refused = await opening
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "were closed as they opened" in refused.json()["error"]["message"]
        assert (await honest.use(session)).status_code == 200


async def test_initialize_after_replace_describes_the_new_servers():
    one, other = Counted(named("a", "x")), Counted(mcpwire.Server("b"))
    async with visited({"a": one}) as (gateway, stranger, honest):
        before = (await stranger.initialize()).json()["result"]
        unused = await stranger.opened()
        await gateway.replace({"b": other})
        assert other.opened == 1  # for the session that had connections
        after = (await honest.initialize()).json()["result"]
        assert "tools" in before["capabilities"]
        assert "tools" not in after["capabilities"]
        listed = await stranger.post("tools/list", {}, unused)
        assert listed.json()["result"]["tools"] == []
        assert (one.opened, other.opened) == (1, 3)


async def test_initialize_shows_new_capabilities_after_the_next_connection():
    server = Counted(named("a", "x"))
    async with visited({"a": server}) as (_, stranger, honest):

        async def described():
            result = (await stranger.initialize()).json()["result"]
            return "prompts" in result["capabilities"]

        assert not await described()
        server.server = named("a", "x")
        server.server.add_prompt(lambda: "please", name="p")
        assert not await described()  # nothing has connected since
        await honest.used()
        assert await described()


@on_a_virtual_clock
async def test_description_with_a_failed_server_is_kept_for_the_retry_interval():
    good = Counted(named("a", "x"))
    servers = {"a": good, "gone": "/nowhere/at/all"}
    async with visited(servers, timeout_s=10 * RETRY_S) as (_, stranger, _honest):
        for _ in range(5):
            described = (await stranger.initialize()).json()["result"]
            assert "prompts" in described["capabilities"]  # which it might have
        assert good.opened == 1
        await asyncio.sleep(RETRY_S)
        await stranger.opened()
        assert good.opened == 2


async def test_discovery_of_known_servers_opens_no_connections():
    server = Counted(named("a", "x"))
    gateway = Gateway({"a": server}, idle=0.01)
    async with gateway:
        for _ in range(2):
            async with mcpwire.Client(gateway, mode="2026-07-28") as client:
                assert client.capabilities.tools is not None
            await until(lambda: not server.open)
        assert server.opened == 1
