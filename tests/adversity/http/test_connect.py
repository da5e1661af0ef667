"""Getting connected: what is not there, what is not trusted, and which era it is."""

import asyncio
import datetime as dt
import json
import socket
import ssl

import pytest
import trustme
from faulty import (
    BOUND_S,
    ERAS,
    HANG_S,
    ONCE,
    QUICK,
    answering,
    client_of,
    connected,
    outcome,
)
from legacy_server import legacy_server
from mcp_server import scripted_mcp
from raw_server import head, json_reply, raw_server, reply

import mcpwire
from mcpwire import ConnectError, Era, HTTPError, MCPError, NegotiationError
from mcpwire.transports.http import streamable as channel

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def refused(target, **options):
    """Return the error of a connect that must fail."""
    options.setdefault("recovery", ONCE)
    async with asyncio.timeout(BOUND_S):
        client = mcpwire.Client(target, **options)
        with pytest.raises(MCPError) as caught:
            await client.connect()
        await client.aclose()
    return caught.value


# What is not there...


@pytest.mark.fault("F20")
async def test_a_black_hole_is_bounded_by_the_connect_timeout_of_the_target():
    """Its queue is full: the system answers no more knocks."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        knocks = []
        try:
            for _ in range(4):
                knocks.append(socket.socket())
                knocks[-1].setblocking(False)
                knocks[-1].connect_ex(("127.0.0.1", port))
            url = f"http://127.0.0.1:{port}/mcp"
            target = mcpwire.Http(url, connect_timeout=0.2)
            error = await refused(target)
        finally:
            for knock in knocks:
                knock.close()
    assert type(error) is ConnectError
    assert error.reason == "timeout"


@pytest.mark.fault("F20")
async def test_a_server_that_accepts_and_says_nothing_is_bounded():
    with raw_server(lambda conn: conn.wait_closed(None)) as server:
        error = await refused(server.url, connect_timeout=0.4, probe_timeout=0.1)
    assert isinstance(error, (ConnectError, TimeoutError)), error


# What is not trusted...


def tls(*names, expired=False, ca=None):
    """Return a server's context with a certificate for these names."""
    ends = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) if expired else None
    options = {"not_after": ends} if expired else {}
    if expired:
        options["not_before"] = ends - dt.timedelta(days=30)
    cert = (ca or AUTHORITY).issue_cert(*names, **options)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    return context


@pytest.fixture
def ca_file(tmp_path):
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    return path


def echo(conn):
    while conn.receive(None):
        conn.send(reply(404))


DISTRUSTED = {
    "expired": (lambda: tls("127.0.0.1", expired=True), "expired"),
    "of another host": (lambda: tls("example.org"), "127.0.0.1"),
    "of another authority": (
        lambda: tls("127.0.0.1", ca=trustme.CA()),
        "unable to get local issuer certificate",
    ),
}


@pytest.mark.parametrize("case", DISTRUSTED)
@pytest.mark.fault("F19")
@pytest.mark.pain("P28")
async def test_a_certificate_that_is_not_to_be_trusted_is_told_by_its_check(
    ca_file, case
):
    make, named = DISTRUSTED[case]
    with raw_server(echo, ssl_context=make()) as server:
        target = mcpwire.Http(server.url, ca_file=ca_file)
        error = await refused(target, recovery=QUICK)
    assert type(error) is ConnectError
    assert error.reason == "tls"
    assert named in str(error)
    assert server.requests == []
    # Another attempt would meet the same certificate.
    assert server.connections == 1


@pytest.mark.fault("F19")
@pytest.mark.pain("P28")
async def test_a_missing_client_certificate_is_told(ca_file):
    context = tls("127.0.0.1")
    AUTHORITY.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    # With TLS 1.3 the refusal comes after the handshake, and a reset may overtake it.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with raw_server(echo, ssl_context=context) as server:
        error = await refused(mcpwire.Http(server.url, ca_file=ca_file))
    assert type(error) is ConnectError, error
    assert error.reason == "tls"
    assert "certificate" in str(error)


@pytest.mark.pain("P28")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.usefixtures("kept_for_long")
async def test_a_private_authority_and_our_own_certificate_are_all_it_takes(
    ca_file, tmp_path, era
):
    context = tls("127.0.0.1")
    AUTHORITY.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    own = tmp_path / "own.pem"
    AUTHORITY.issue_cert("me.example.org").private_key_and_cert_chain_pem.write_to_path(
        own
    )
    with scripted_mcp(era, ssl_context=context) as server:
        options = {"ca_file": ca_file, "client_cert": own, "server_stream": "never"}
        target = mcpwire.Http(server.url, **options)
        async with connected(target) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.connections == 1


# Which era it is...


@pytest.mark.system("U28")
@pytest.mark.parametrize("status", [400, 404, 405, 406, 415, 422])
@pytest.mark.parametrize("body", ["", "Bad Request", '{"error": "no"}', "<html>"])
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-34")
async def test_a_4xx_to_the_probe_leads_to_initialize(status, body):
    with scripted_mcp() as server:
        server.on["server/discover"] = answering(reply(status, body.encode()))
        async with connected(server, recovery=ONCE) as client:
            assert client.protocol_version == "2025-11-25"
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.verbs()[:2] == ["server/discover", "initialize"]


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504])
@pytest.mark.pain("P26")
async def test_a_5xx_says_nothing_of_the_era(status):
    with scripted_mcp() as server:
        server.on["server/discover"] = answering(reply(status, b"down"))
        error = await refused(server.url)
    assert str(status) in str(error)
    assert 'mode="session" connects without this probe' in str(error)
    assert "initialize" not in server.verbs()


@pytest.mark.pain("P26")
async def test_a_program_that_fails_at_the_probe_is_asked_to_initialize():
    def fails(request, conn):
        error = {"code": -32603, "message": "Internal server error"}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
        conn.send(json_reply(body, 500))
        return True

    with scripted_mcp() as server:
        server.on["server/discover"] = fails
        async with connected(server) as client:
            assert client.protocol_version == "2025-11-25"


@pytest.mark.pain("P26")
async def test_the_late_body_of_a_refused_probe_is_waited_for(monkeypatch):
    monkeypatch.setattr(channel, "DECIDING_S", HANG_S)

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


PROBE_FAILS = {
    "closed": lambda request, conn: conn.close() or True,
    "silent": lambda request, conn: conn.wait_closed(HANG_S) or True,
}


@pytest.mark.pain("P26")
@pytest.mark.parametrize("case", PROBE_FAILS)
@pytest.mark.parametrize("mode", ["auto", "stateless"])
async def test_who_fails_at_the_probe_is_told_how_to_leave_it_out(case, mode):
    with scripted_mcp() as server:
        server.on["server/discover"] = PROBE_FAILS[case]
        error = await refused(server.url, mode=mode, connect_timeout=0.5)
    assert ('mode="session"' in str(error)) == (mode == "auto")


@pytest.mark.pain("P26")
async def test_nobody_there_has_nothing_to_do_with_the_mode():
    with scripted_mcp() as server:
        url = server.url
    assert "mode=" not in str(await refused(url))


@pytest.mark.pain("P26")
async def test_a_probe_that_is_let_hang_does_not_decide():
    def hangs(request, conn):
        conn.wait_closed(HANG_S)
        return True

    with scripted_mcp() as server:
        server.on["server/discover"] = hangs
        async with connected(server, probe_timeout=0.05) as client:
            assert client.protocol_version == "2025-11-25"


@pytest.mark.system("U07")
@pytest.mark.parametrize(
    "version", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
)
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-29")
async def test_each_revision_is_spoken_by_its_own_rules(version):
    """`ScriptedMcp` complains of any header that is missing, early or wrong."""
    era = "stateless" if version == "2026-07-28" else "session"
    async with client_of(scripted_mcp(era, version=version)) as (server, client):
        assert client.protocol_version == version
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        await client.ping()
    named = [r.headers.get("mcp-protocol-version") for r in server.requests]
    if era == "session":
        assert named == ["2026-07-28", None, *[version] * (len(named) - 2)]
    else:
        assert set(named) == {version}


@pytest.mark.system("A15", "L-A5", "L-U11")
@pytest.mark.pain("P26")
@pytest.mark.rule("LHTTP-34")
async def test_the_transport_of_2024_is_found_behind_a_refused_initialize():
    async with client_of(legacy_server()) as (_server, client):
        assert client.protocol_version == "2024-11-05"
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.pain("P26")
async def test_the_era_is_remembered_with_the_target():
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
@pytest.mark.pain("P26")
async def test_a_server_that_changes_its_era_between_calls_is_asked_once_again(
    before, after
):
    async with client_of(scripted_mcp(before), recovery=QUICK) as (server, client):
        await client.call_tool("echo", {"text": "before"})
        server.switch(after)
        results = await asyncio.gather(
            *(client.call_tool("echo", {"text": str(n)}) for n in range(10))
        )
        assert [r.text for r in results] == [str(n) for n in range(10)]
        newest = "2026-07-28" if after == "stateless" else "2025-11-25"
        assert client.protocol_version == newest
    ran = [arguments["text"] for _, arguments, _ in server.executed]
    assert sorted(ran) == sorted([*map(str, range(10)), "before"])
    assert server.verbs().count("initialize") == 1
    assert server.verbs().count("server/discover") <= 2


@pytest.mark.parametrize(
    ("before", "after"), [("session", "stateless"), ("stateless", "session")]
)
@pytest.mark.fault("F50")
async def test_a_server_that_changed_its_era_between_connections_is_asked_again(
    before, after
):
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
}


@pytest.mark.parametrize("case", HANDSHAKES)
@pytest.mark.fault("F26")
@pytest.mark.pain("P02")
async def test_a_server_that_is_no_mcp_server_is_told_of_at_once(case):
    def script(conn):
        while conn.receive(None):
            conn.send(HANDSHAKES[case])

    with raw_server(script) as server:
        error = await refused(server.url)
    assert not isinstance(error, TimeoutError), error
    assert isinstance(error, (ConnectError, NegotiationError, HTTPError, MCPError))
    assert str(error)


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.pain("P02")
async def test_a_server_that_hangs_up_on_everything_is_told_of_at_once(how):
    def script(conn):
        conn.receive(None)
        getattr(conn, how)()

    with raw_server(script) as server:
        error = await refused(server.url)
    assert not isinstance(error, TimeoutError), error
    assert str(error)
