"""Connecting: absent servers, untrusted servers, and detection of the era."""

import asyncio
import json

import pytest
from faulty import (
    BOUND_S,
    HANG_S,
    ONCE,
    answering,
    client_of,
    connected,
    never,
    outcome,
    until,
)
from legacy_server import legacy_server
from mcp_server import scripted_mcp
from raw_server import head, json_reply, raw_server, reply

import mcpwire
from mcpwire import ConnectError, Era, HTTPError, MCPError, NegotiationError
from mcpwire.transports.http import streamable as channel


async def refused(target, **options):
    options.setdefault("recovery", ONCE)
    async with asyncio.timeout(BOUND_S):
        client = mcpwire.Client(target, **options)
        with pytest.raises(MCPError) as caught:
            await client.connect()
        await client.aclose()
    return caught.value


@pytest.mark.fault("F20")
async def test_connecting_to_a_silent_server_times_out():
    with raw_server(lambda conn: conn.wait_closed(None)) as server:
        error = await refused(server.url, connect_timeout=0.4, probe_timeout=0.1)
    assert isinstance(error, (ConnectError, TimeoutError)), error


@pytest.mark.system("U28")
@pytest.mark.parametrize("status", [400, 404, 405, 406, 415, 422])
@pytest.mark.parametrize("body", ["", "Bad Request", '{"error": "no"}', "<html>"])
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-34")
async def test_4xx_response_to_the_probe_falls_back_to_initialize(status, body):
    on = {"server/discover": answering(reply(status, body.encode()))}
    async with client_of(on=on, recovery=ONCE) as (server, client):
        assert client.protocol_version == "2025-11-25"
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.verbs()[:2] == ["server/discover", "initialize"]


@pytest.mark.pain("P26")
async def test_client_waits_for_the_late_body_of_a_refused_probe(monkeypatch):
    monkeypatch.setattr(channel, "NEGOTIATION_ERROR_BODY_S", HANG_S)

    def late(request, conn):
        error = {"code": -32022, "message": "no", "data": {"supported": ["2099-01-01"]}}
        body = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "error": error})
        conn.send(head(400, content_type="application/json", content_length=len(body)))
        conn.wait_closed(0.6)
        conn.send(body.encode())
        return True

    with scripted_mcp("stateless") as server:
        server.on["server/discover"] = late
        client = mcpwire.Client(server.url, recovery=ONCE)
        error = await outcome(client.connect())
        await client.aclose()
        assert "initialize" not in server.verbs(), error


PROBE_FAILS = {"closed": answering(b"", "close"), "silent": never}


@pytest.mark.pain("P26")
@pytest.mark.parametrize("case", PROBE_FAILS)
@pytest.mark.parametrize("mode", ["auto", "stateless"])
async def test_probe_failure_in_auto_mode_suggests_session_mode(case, mode):
    with scripted_mcp() as server:
        server.on["server/discover"] = PROBE_FAILS[case]
        error = await refused(server.url, mode=mode, connect_timeout=0.5)
    assert ('mode="session"' in str(error)) == (mode == "auto")


@pytest.mark.system("O81")
@pytest.mark.fault("F19")
@pytest.mark.pain("P26")
@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_refused_connection_error_names_its_reason_and_no_mode(engine):
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, engine=engine)
    error = await refused(target)
    assert error.reason == "refused"
    assert "mode=" not in str(error)


@pytest.mark.pain("P26")
async def test_probe_timeout_falls_back_to_the_session_era():
    on = {"server/discover": never}
    async with client_of(on=on, probe_timeout=0.05) as (_, client):
        assert client.protocol_version == "2025-11-25"


@pytest.mark.system("U07", "U09", "O83", "L-V4")
@pytest.mark.parametrize("replies", ["json", "sse"])
@pytest.mark.parametrize(
    "version", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
)
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-29", "LIFE-10", "LHTTP-03", "LHTTP-05")
async def test_client_follows_the_header_rules_of_each_revision(version, replies):
    """`ScriptedMcp` rejects any header that is missing, early or wrong."""
    era = "stateless" if version == "2026-07-28" else "session"
    options = {"version": version, "replies": replies, "server_stream": "always"}
    async with client_of(era, **options) as (server, client):
        assert client.protocol_version == version
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        await client.ping()
        if era == "session":
            await until(lambda: server.streams)
    named = [r.headers.get("mcp-protocol-version") for r in server.requests]
    if era == "session":
        assert named == ["2026-07-28", None, *[version] * 5]
        later = server.requests[2:]
        assert all(request.headers["mcp-session-id"] for request in later)
        verbs = sorted(request.verb for request in later)
        assert verbs == ["DELETE", "GET", *["POST"] * 3]
    else:
        assert set(named) == {version}
    assert all(type(r.json) is dict for r in server.requests if r.verb == "POST")


@pytest.mark.system("A15", "L-A5", "L-U11")
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-34")
async def test_refused_initialize_falls_back_to_the_2024_transport():
    with legacy_server() as server:
        async with connected(server) as client:
            assert client.protocol_version == "2024-11-05"
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.pain("P26")
async def test_target_remembers_the_era():
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url)
        for _ in range(3):
            async with connected(target) as client:
                await client.call_tool("echo")
        assert target.memory.era is Era.SESSION
    assert server.verbs().count("server/discover") == 1


@pytest.mark.parametrize(
    ("before", "after"), [("session", "stateless"), ("stateless", "session")]
)
@pytest.mark.fault("F50")
async def test_era_change_between_connections_is_detected(before, after):
    with scripted_mcp(before) as server:
        target = mcpwire.Http(server.url)
        async with connected(target) as client:
            await client.call_tool("echo")
        server.switch(after)
        async with connected(target) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert target.memory.era is (Era.STATELESS if after == "stateless" else Era.SESSION)


HANDSHAKES = {
    "html": reply(200, b"<html>login", content_type="text/html"),
    "202": reply(202),
    "no result": json_reply({"jsonrpc": "2.0", "id": 1}),
    "403": reply(403, b"forbidden"),
    "429": reply(429, b"later"),
    "500": reply(500, b"down"),
    "an end": None,
    "a reset": None,
}


@pytest.mark.parametrize("case", HANDSHAKES)
@pytest.mark.fault("F26")
@pytest.mark.pain("P02")
async def test_non_mcp_server_fails_the_connect_at_once(case):
    def script(conn):
        while conn.receive(None):
            if case == "an end":
                conn.close()
            elif case == "a reset":
                conn.reset()
            else:
                conn.send(HANDSHAKES[case])

    with raw_server(script) as server:
        error = await refused(server.url)
    assert not isinstance(error, TimeoutError), error
    assert isinstance(error, (ConnectError, NegotiationError, HTTPError, MCPError))
    assert str(error)
