"""Promises of the Ruby SDK's HTTP client; its OAuth is in `tests/oauth`."""

import pytest
from fakes import SILENCE, FakeServer, text
from mcp_server import scripted_mcp
from raw_server import reply

import mcpwire
from mcpwire import types

ERA = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


@ERA
@pytest.mark.system("U04", "U14")
async def test_is_connected_is_true_from_handshake_end_to_close(version):
    server = FakeServer(version=version)
    client = mcpwire.Client(server)
    first_method = "initialize" if version == "2025-11-25" else "server/discover"
    twin = FakeServer(version=version)
    seen = []

    def answer_first(params, _):
        seen.append(client.is_connected)
        return twin.outcome(first_method, params)

    server.methods[first_method] = answer_first
    assert not client.is_connected
    await client.connect()
    assert client.is_connected
    received_count = len(server.received)
    await client.connect()
    assert len(server.received) == received_count  # nothing was sent
    await client.aclose()
    assert not client.is_connected
    await client.connect()
    assert len(server.received) == 2 * received_count
    await client.aclose()
    assert seen == [False, False]


@ERA
@pytest.mark.system("U29", "A30")
async def test_server_attributes_are_the_same_in_both_eras(version):
    server = FakeServer(version=version, instructions="be kind")
    async with mcpwire.Client(server) as client:
        received_count = len(server.received)
        assert client.protocol_version == version
        assert client.server_info == types.Implementation("fake", "1")
        assert client.capabilities.tools is not None
        assert client.instructions == "be kind"
        assert len(server.received) == received_count  # no request was needed


@pytest.mark.system("U30")
async def test_discover_returns_all_fields_of_the_server():
    server = FakeServer(
        version="2026-07-28", instructions="be kind", ttlMs=50, cacheScope="public"
    )
    async with mcpwire.Client(server) as client:
        found = await client.discover()
    assert found.supported_versions == ["2026-07-28"]
    assert found.capabilities.tools is not None
    assert (found.instructions, found.ttl_ms) == ("be kind", 50)
    assert found.cache_scope == "public"
    name = found.meta["io.modelcontextprotocol/serverInfo"]["name"]
    assert name == client.server_info.name


@pytest.mark.system("U32")
async def test_list_page_has_its_ttl_and_cache_scope():
    page = {
        "resultType": "complete",
        "tools": [],
        "nextCursor": "2",
        "ttlMs": 100,
        "cacheScope": "private",
        "_meta": {"k": "v"},
    }
    server = FakeServer({"tools/list": lambda *_: page}, version="2026-07-28")
    async with mcpwire.Client(server) as client:
        found = await client.list_tools_page()
    assert (found.next_cursor, found.ttl_ms, found.cache_scope) == ("2", 100, "private")
    assert found.meta["k"] == "v"


@pytest.mark.system("U32", "U37")
async def test_call_metadata_is_sent_and_not_modified():
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    server = FakeServer({"tools/call": lambda *_: text("")})
    given = {"traceparent": trace, "baggage": "a=1", "k": "v", "progressToken": "mine"}
    before = dict(given)
    async with mcpwire.Client(server) as client:
        await client.call_tool("x", meta=given, on_progress=lambda *_: None)
    assert given == before
    sent = server.requests("tools/call")[0]["_meta"]
    assert (sent["traceparent"], sent["baggage"], sent["k"]) == (trace, "a=1", "v")
    assert sent["progressToken"] == server.received[-1]["id"]


FAILURES = {
    "an error": lambda *_: mcpwire.RPCError("no", code=-32600),
    "no object": lambda *_: [1],
    "no version": lambda *_: {"capabilities": {}},
    "another version": lambda *_: {"protocolVersion": "1999-01-01", "capabilities": {}},
}


@pytest.mark.system("U06", "L-V5")
@pytest.mark.parametrize("case", FAILURES)
async def test_failed_handshake_leaves_no_state_and_can_be_retried(case):
    server = FakeServer({"initialize": FAILURES[case]})
    client = mcpwire.Client(server, mode="session")
    with pytest.raises(mcpwire.MCPError):
        await client.connect()
    assert not client.is_connected
    assert client.session_id is None
    assert client.server_info is None
    del server.methods["initialize"]
    await client.connect()
    assert client.is_connected
    await client.aclose()


@pytest.mark.system("U06", "V31")
@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_refused_initialized_notification_fails_the_connect(status):
    def refuse(request, conn):
        conn.send(reply(status))
        return True

    with scripted_mcp() as server:
        server.on["notifications/initialized"] = refuse
        client = mcpwire.Client(server.url, recovery=mcpwire.Recovery(restart=False))
        with pytest.raises(mcpwire.TransportError):
            await client.connect()
        assert not client.is_connected
        assert client.session_id is None
        del server.on["notifications/initialized"]
        async with client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.system("U34")
async def test_cancelled_call_returns_at_once_and_late_answer_is_dropped():
    server = FakeServer({"tools/call": lambda *_: SILENCE})
    async with mcpwire.Client(server) as client:
        call = await client.start_call("x")
        id = call.request_id
        call.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled):
            await call
        server.send({"jsonrpc": "2.0", "id": id, "result": text("late")})
        await client.ping()
        assert client.stats.late_answers == 1
        call.cancel("again")
        await client.ping()
    cancellations = [
        m for m in server.received if m["method"] == "notifications/cancelled"
    ]
    assert [m["params"]["requestId"] for m in cancellations] == [id]
