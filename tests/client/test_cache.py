"""Results that are reused for as long as the server allows it (2026-07-28)."""

import asyncio

import pytest
from clocks import on_a_virtual_clock
from fakes import FakeServer

import mcpwire

URI = "file:///a"
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


def caching(ttl_ms=60_000, version="2026-07-28", pages=1):
    hints = {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": "private"}
    if version != "2026-07-28":
        hints = {}
    counted = iter(range(1000))

    def tools(params, _):
        page = int(params.get("cursor", 0))
        more = {"nextCursor": str(page + 1)} if page + 1 < pages else {}
        tool = {"name": f"t{next(counted)}", "inputSchema": {"type": "object"}}
        return {**hints, "tools": [tool], **more}

    def read(params, _):
        return {**hints, "contents": [{"uri": URI, "text": str(next(counted))}]}

    methods = {"tools/list": tools, "resources/read": read}
    return FakeServer(methods, version=version, capabilities=CAPABILITIES)


async def test_a_list_and_a_resource_are_fetched_once():
    server = caching(pages=3)
    async with mcpwire.Client(server, cache=True) as client:
        first = [tool.name for tool in await client.list_tools()]
        assert [tool.name for tool in await client.list_tools()] == first
        assert [tool.name async for tool in client.iter_tools()] == first
        assert (await client.read_text(URI)) == (await client.read_text(URI))
    assert len(server.requests("tools/list")) == 3
    assert len(server.requests("resources/read")) == 1


@pytest.mark.parametrize(
    ("ttl", "version", "cache"),
    [(0, "2026-07-28", True), (1, "2025-11-25", True), (60_000, "2026-07-28", False)],
)
async def test_uncacheable_results_are_fetched_again(ttl, version, cache):
    server = caching(ttl, version)
    async with mcpwire.Client(server, cache=cache) as client:
        await client.list_tools()
        await client.list_tools()
    assert len(server.requests("tools/list")) == 2


@on_a_virtual_clock
@pytest.mark.system("U32")
@pytest.mark.parametrize(
    ("scope", "fetched"),
    [("private", ["ann", "bob", "ann"]), ("public", ["ann", "ann"])],
)
async def test_ttl_and_scope_hints_control_the_reuse(scope, fetched):
    hints = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": scope}
    page = {**hints, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    fetches = []
    cache = mcpwire.ResponseCache(share_public=True)

    def client_of(name):
        methods = {"tools/list": lambda *_: fetches.append(name) or page}
        server = FakeServer(methods, version="2026-07-28")
        return mcpwire.Client(server, cache=cache.partition(name))

    async with client_of("ann") as client, client_of("bob") as other:
        first = await client.list_tools_page()
        assert (first.ttl_ms, first.cache_scope) == (60_000, scope)
        await asyncio.sleep(59.9)
        await client.list_tools_page()
        await other.list_tools_page()
        await asyncio.sleep(0.2)
        await client.list_tools_page()
    assert fetches == fetched


@pytest.mark.system("L-V6")
@pytest.mark.rule("CACHE-10")
async def test_change_notifications_invalidate_the_cache():
    server = caching()
    cache = mcpwire.ResponseCache()
    async with mcpwire.Client(server, cache=cache) as client:
        for _ in range(2):
            await client.list_tools()
            await client.read_text(URI)
        assert len(server.requests("tools/list")) == 1
        assert len(server.requests("resources/read")) == 1
        server.notify("notifications/tools/list_changed")
        server.notify("notifications/resources/updated", uri=URI)
        await client.discover()
        await client.list_tools()
        await client.read_text(URI)
        assert cache.stores >= 4
    assert len(server.requests("tools/list")) == 2
    assert len(server.requests("resources/read")) == 2


@pytest.mark.rule("CACHE-11")
async def test_a_refused_cursor_drops_the_cached_pages():
    server = caching(pages=2)
    tools = server.methods["tools/list"]
    refused = []

    def refusing(params, fake):
        if params.get("cursor") and not refused:
            refused.append(params)
            return mcpwire.RPCError("no such cursor", code=-32602)
        return tools(params, fake)

    server.methods["tools/list"] = refusing
    async with mcpwire.Client(server, cache=True) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert [tool.name for tool in await client.list_tools()] == names
    assert names == ["t1", "t2"]  # the first page was fetched again as well
    cursors = [params.get("cursor") for params in server.requests("tools/list")]
    assert cursors == [None, "1", None, "1"]


async def test_a_ping_is_not_answered_from_the_cache():
    server = caching()
    async with mcpwire.Client(server, cache=True) as client:
        await client.discover()
        count = len(server.received)
        await client.ping()
        assert len(server.received) == count + 1


async def test_a_new_connection_begins_with_an_empty_cache():
    server = caching()
    client = mcpwire.Client(server, cache=True)
    for _ in range(2):
        async with client:
            await client.list_tools()
    assert len(server.requests("tools/list")) == 2
