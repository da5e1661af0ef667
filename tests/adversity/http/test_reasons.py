"""Properties of our own connections that hold with `httpx` too."""

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


async def connect_error_reason(url, engine, **options):
    """Return the reason of the connect error."""
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
async def test_connect_error_names_its_reason(engine, free_port):
    url = f"http://127.0.0.1:{free_port}/mcp"
    assert await connect_error_reason(url, engine) == "refused"
    assert await connect_error_reason("http://nowhere.invalid/mcp", engine) == "dns"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", certificates.SERVERS)
@pytest.mark.fault("F20")
@pytest.mark.pain("P28")
async def test_tls_failure_is_reported_with_reason_tls(engine, name, tmp_path):
    context = certificates.server_context(name)
    certificates.AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    with scripted_mcp(ssl_context=context) as server:
        trust = {} if name == "good" else {"ca_file": tmp_path / "ca.pem"}
        options = {**trust, "trust_env": False}
        assert await connect_error_reason(server.url, engine, **options) == "tls"


def reply_400(conn):
    conn.read_some()
    conn.send(reply(400))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.fault("F20")
async def test_plain_http_server_behind_https_url_is_a_tls_error(engine):
    with raw_server(reply_400) as server:
        url = server.url.replace("http://", "https://")
        assert await connect_error_reason(url, engine) == "tls"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", FLOODS)
@pytest.mark.attack("S15")
async def test_unneeded_rest_of_a_response_is_not_read(engine, case):
    begin, piece, expected = FLOODS[case]
    handler = endless(begin, piece)
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(target, limits=LIMITS, recovery=ONCE) as client:
            server.on["tools/call"] = handler
            error = await outcome(client.call_tool("echo"))
            assert isinstance(error, expected), error
            await until(lambda: handler.ended)
