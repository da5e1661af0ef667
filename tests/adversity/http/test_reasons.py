"""What is true of our own connections, beneath `httpx` too."""

from __future__ import annotations

import certificates
import pytest
from faulty import ONCE, connected, outcome, until
from http_bytes import reply
from mcp_server import scripted_mcp
from ports import kept_port
from raw_server import chunk, head, raw_server
from test_hostile import KIB, LIMITS, endless

import mcpwire
from mcpwire import ConnectError, HTTPError, RemoteProtocolError

ENGINES = ("direct", "httpx")

FLOODS = {
    "an error": (head(500, transfer_encoding="chunked"), chunk(KIB), HTTPError),
    "a page": (
        head(200, content_type="text/html", transfer_encoding="chunked"),
        chunk(KIB),
        RemoteProtocolError,
    ),
}


async def why_not(url, engine, **options):
    """Return why no connection comes about."""
    client = mcpwire.Client(mcpwire.Http(url, engine=engine, **options), recovery=ONCE)
    error = await outcome(client.connect())
    await client.aclose()
    assert isinstance(error, ConnectError), error
    return error.reason


@pytest.fixture
def free_port():
    with kept_port() as port:
        yield port


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.system("O81")
@pytest.mark.fault("F19")
async def test_the_reason_is_told_why_there_is_no_connection(engine, free_port):
    url = f"http://127.0.0.1:{free_port}/mcp"
    assert await why_not(url, engine) == "refused"
    assert await why_not("http://nowhere.invalid/mcp", engine) == "dns"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", certificates.SERVERS)
@pytest.mark.fault("F20")
@pytest.mark.pain("P28")
async def test_tls_is_the_reason_whatever_fails_there(engine, name, tmp_path):
    context = certificates.server_context(name)
    certificates.AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    with scripted_mcp(ssl_context=context) as server:
        trust = {} if name == "good" else {"ca_file": tmp_path / "ca.pem"}
        options = {**trust, "trust_env": False}
        assert await why_not(server.url, engine, **options) == "tls"


def says_no(conn):
    conn.read_some()
    conn.send(reply(400))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.fault("F20")
async def test_plain_http_is_no_tls(engine):
    with raw_server(says_no) as server:
        url = server.url.replace("http://", "https://")
        assert await why_not(url, engine) == "tls"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", FLOODS)
@pytest.mark.attack("S15")
async def test_the_rest_of_an_answer_nobody_wants_is_not_taken(engine, case):
    begin, piece, expected = FLOODS[case]
    handler = endless(begin, piece)
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(target, limits=LIMITS, recovery=ONCE) as client:
            server.on["tools/call"] = handler
            error = await outcome(client.call_tool("echo"))
            assert isinstance(error, expected), error
            await until(lambda: handler.ended)
