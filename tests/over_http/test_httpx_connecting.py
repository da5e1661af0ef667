"""Connections that do not come about through httpx: which check failed, no secret."""

import errno
import ssl

import httpx
import pytest
import trustme
from httpx_exchanges import exchanges, forget_proxies
from raw_server import json_reply, raw_server

from mcpwire.errors import ConnectError, ConnectionClosed

HUSH = "hush-hush"
AUTHORITY = trustme.CA()
OTHER = trustme.CA()
CLIENT = OTHER.issue_cert("me@host.example")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


def serve(conn):
    while conn.receive(timeout=None) is not None:
        conn.send(json_reply({"ok": True}))


def secure(name="127.0.0.1", *, asks=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert(name).configure_cert(context)
    if asks:
        OTHER.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting():
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


def failure(url, **options):
    """Return the error of an exchange that finds no connection."""
    with (
        exchanges(f"{url}?{HUSH}", **options) as it,
        pytest.raises(ConnectError) as caught,
    ):
        it.exchange()
    error = caught.value
    assert error.target == f"{url}?***"
    assert HUSH not in str(error)
    assert error.__cause__ is not None
    return error


@pytest.mark.fault("F19")
def test_a_refused_connection_has_its_number():
    with raw_server(serve) as server:
        server.stop_accepting()
        error = failure(server.url, client={})
    assert error.errno == errno.ECONNREFUSED
    assert (
        str(error) == f"cannot connect to '127.0.0.1:{server.port}': Connection refused"
    )


@pytest.mark.fault("F19")
def test_a_name_that_nobody_knows_is_named():
    error = failure("http://nowhere.invalid/mcp", client={})
    assert str(error).startswith("cannot resolve 'nowhere.invalid'")
    assert error.errno is None


@pytest.mark.fault("F19")
@pytest.mark.parametrize(
    ("name", "trusts", "message"),
    [
        ("127.0.0.1", False, "TLS: cannot trust"),
        ("other.example", True, "TLS: cannot trust"),
    ],
    ids=["authority", "name"],
)
def test_a_certificate_that_is_not_accepted_is_said(name, trusts, message):
    options = {"ssl": trusting()} if trusts else {}
    with raw_server(serve, ssl_context=secure(name)) as server:
        error = failure(server.url, **options)
        user = failure(server.url, client={"verify": options.get("ssl", True)})
        assert server.requests == []
    assert message in str(error)
    assert str(user) == str(error)


@pytest.mark.pain("P28")
def test_a_private_authority_and_our_certificate_are_enough(tmp_path):
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    CLIENT.private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")
    with (
        raw_server(serve, ssl_context=secure(asks=True)) as server,
        exchanges(
            server.url,
            ca_file=tmp_path / "ca.pem",
            client_cert=tmp_path / "me.pem",
        ) as it,
    ):
        assert it.exchange().status == 200


@pytest.mark.fault("F19")
@pytest.mark.pain("P28")
def test_a_missing_client_certificate_is_an_error_of_connecting():
    # With TLS 1.3 the server says so when the handshake is over for us. What it said is
    # lost on asyncio where writing fails before it is read.
    context = secure(asks=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with raw_server(serve, ssl_context=context) as server:
        error = failure(server.url, ssl=trusting())
    assert "client certificate" in str(error)
    with raw_server(serve, ssl_context=secure(asks=True)) as server:
        with (
            exchanges(server.url, ssl=trusting()) as it,
            pytest.raises((ConnectError, ConnectionClosed)),
        ):
            it.exchange()
        assert server.requests == []


@pytest.mark.fault("F20")
def test_connecting_has_a_limit_of_its_own():
    def script(conn):
        conn.wait_closed()

    with raw_server(script) as server:
        url = server.url.replace("http:", "https:")
        error = failure(url, connect_timeout=0.1, client={"verify": False})
    assert error.errno == errno.ETIMEDOUT
    assert str(error).endswith("within 0.1 s")


def test_a_pool_without_room_or_a_scheme_it_does_not_speak_sent_nothing():
    for raised, message in (
        (httpx.PoolTimeout(HUSH), "no connection left"),
        (httpx.UnsupportedProtocol(HUSH), "does not speak this scheme"),
        (httpx.ConnectError(HUSH), "ended before anything was sent"),
    ):

        def fail(request, raised=raised):
            raise raised

        client = {"transport": httpx.MockTransport(fail)}
        assert message in str(failure("http://host.example/mcp", client=client))
