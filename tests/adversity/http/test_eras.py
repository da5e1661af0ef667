"""The era that one client detected, and other clients of the same target."""

import asyncio

import pytest
from faulty import QUICK, answering, client_of, connected, refusing, until
from mcp_server import scripted_mcp
from raw_server import reply

import mcpwire
from mcpwire import HTTPError, NegotiationError

MISMATCH = refusing(-32020, "Header mismatch: Mcp-Param-Region")


@pytest.mark.fault("F50")
async def test_remembered_era_does_not_bind_a_client_of_the_other_era():
    with scripted_mcp("dual") as server:
        target = mcpwire.Http(server.url)
        async with connected(target, mode="session"):
            pass
        async with connected(target, mode="stateless") as client:
            assert client.protocol_version == "2026-07-28"
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        async with connected(target, mode="session") as client:
            assert client.protocol_version == "2025-11-25"


@pytest.mark.fault("F50")
async def test_stateless_client_fails_with_a_remembered_session_server():
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url)
        async with connected(target):
            pass
        with pytest.raises(NegotiationError):
            await mcpwire.Client(target, mode="stateless").connect()


@pytest.mark.fault("F50")
async def test_two_clients_of_one_target_each_detect_the_new_era():
    with scripted_mcp("stateless") as server:
        target = mcpwire.Http(server.url)
        async with (
            connected(target, recovery=QUICK) as one,
            connected(target, recovery=QUICK) as other,
        ):
            await one.call_tool("echo")
            await other.call_tool("echo")
            server.switch("session")
            assert (await one.call_tool("echo", {"text": "1"})).text == "1"
            assert (await other.call_tool("echo", {"text": "2"})).text == "2"
            server.switch("stateless")
            assert (await other.call_tool("echo", {"text": "3"})).text == "3"
            assert (await one.call_tool("echo", {"text": "4"})).text == "4"


@pytest.mark.fault("F50")
@pytest.mark.pain("P26")
@pytest.mark.parametrize(
    ("before", "after"), [("session", "stateless"), ("stateless", "session")]
)
async def test_calls_during_an_era_change_run_once(before, after):
    async with client_of(before, recovery=QUICK) as (server, client):
        slow = [asyncio.ensure_future(client.call_tool("slow")) for _ in range(5)]
        await until(lambda: len(server.executed) == 5)
        server.era = after
        server.sessions.clear()
        quick = (client.call_tool("echo", {"text": str(n)}) for n in range(20))
        results = await asyncio.gather(*quick)
        assert [result.text for result in results] == [str(n) for n in range(20)]
        server.release()
        assert {result.text for result in await asyncio.gather(*slow)} == {"slow"}
        newest = "2026-07-28" if after == "stateless" else "2025-11-25"
        assert client.protocol_version == newest
    texts = [args.get("text") for name, args, _ in server.executed if name == "echo"]
    assert sorted(texts) == sorted(str(n) for n in range(20))
    assert server.verbs().count("initialize") == 1
    assert server.verbs().count("server/discover") <= 2


@pytest.mark.parametrize("status", [400, 404, 405, 406, 422])
async def test_status_that_proves_no_era_change_is_raised(status):
    """The era is probed again, once; the next error is raised."""
    on = {"tools/call": answering(reply(status, b"nothing here"))}
    async with client_of("stateless", on=on, recovery=QUICK) as (server, client):
        with pytest.raises(mcpwire.TransportError) as caught:
            await client.call_tool("echo")
        assert isinstance(caught.value, HTTPError) or str(status) in str(
            caught.value
        ), caught.value
        assert server.verbs().count("tools/call") == 2
        assert server.verbs().count("initialize") == 0
        assert server.verbs().count("server/discover") == 2


async def test_header_mismatch_after_a_retry_refreshes_the_tools_once():
    seen = []

    def both(request, conn):
        seen.append(None)
        if len(seen) == 1:
            conn.send(reply(503, b"", retry_after="0"))
            return True
        return len(seen) == 2 and MISMATCH(request, conn)

    on = {"tools/call": both}
    async with client_of("stateless", on=on, recovery=QUICK) as (server, client):
        result = await client.call_tool(
            "mirrored", {"region": "eu"}, headers={"X-User": "ann"}
        )
        assert result.text == "eu"
    assert server.verbs() == [
        *("server/discover", "tools/call", "tools/call", "tools/list", "tools/call")
    ]
    listing, call = server.requests[-2:]
    assert listing.headers["x-user"] == "ann"
    assert "mcp-param-region" in call.headers


@pytest.mark.rule("HDR-29")
async def test_repeated_header_mismatch_refreshes_the_tools_once():
    on = {"tools/call": MISMATCH}
    async with client_of("stateless", on=on, recovery=QUICK) as (server, client):
        with pytest.raises(mcpwire.HeaderMismatch):
            await client.call_tool("mirrored", {"region": "eu"})
        server.on["tools/list"] = MISMATCH
        with pytest.raises(mcpwire.RPCError):
            await client.call_tool("mirrored", {"region": "eu"})
    assert server.verbs() == [
        "server/discover",
        *("tools/call", "tools/list", "tools/call"),
        *("tools/call", "tools/list"),
    ]


async def test_failing_calls_do_not_mark_the_server_as_dead():
    def not_found(request, conn):
        if request.json["params"]["name"] != "fail":
            return False
        conn.send(reply(404, b"nothing here"))
        return True

    async with client_of("stateless", on={"tools/call": not_found}) as (_, client):
        for _ in range(10):
            with pytest.raises(mcpwire.TransportError):
                await client.call_tool("fail")
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
