"""The httpx engine: responses, refused responses and connection errors."""

import gzip
import ssl
import traceback

import httpx
import pytest
from certificates import client_context, server_context
from httpx_exchanges import MARK, answering, exchanges, forget_proxies, request_to
from raw_server import LAST_CHUNK, chunk, head, json_reply, raw_server, reply, sse_head

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.limits import Limits

HUSH = "hush-hush"
OK = {"ok": True}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


# Responses...


def test_reused_reply_gets_no_bytes_of_the_first_response():
    def script(conn):
        while conn.receive(timeout=None) is not None:
            if len(server.requests) > 1:
                conn.send(json_reply(OK))
            else:
                conn.send(sse_head() + chunk(MARK))
                conn.send(chunk(b" and more") + LAST_CHUNK)

    with raw_server(script) as server, exchanges(server.url) as it:
        response = it.exchange()
        response.__init__()
        assert it.exchange(response=response).body == b'{"ok": true}'


# Refused responses...


NO_HTTP = {
    "no-http": b"HELLO\r\n\r\n",
    "no-field": b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
    "lengths": head(200, content_length=["1", "2"]) + b"ab",
    "chunk": sse_head() + b"zz\r\n",
    "smuggling": head(200, content_length=2, transfer_encoding="chunked") + b"ab",
    "101": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "br": reply(200, b"x", content_encoding="br"),
}


@pytest.mark.attack("S33")
@pytest.mark.parametrize("name", NO_HTTP)
def test_invalid_http_response_is_refused(name):
    def script(conn):
        conn.receive()
        conn.send(NO_HTTP[name])
        conn.wait_closed()

    with raw_server(script) as server, exchanges(server.url) as it:
        for number in (1, 2):
            with pytest.raises(RemoteProtocolError) as caught:
                it.exchange()
            assert type(caught.value) is RemoteProtocolError
            assert server.connections == number


@pytest.mark.attack("S15")
@pytest.mark.parametrize("size", [2_000, 200_000])
def test_head_over_the_limit_is_refused(size):
    answer = json_reply(OK, x_long="a" * size)
    with (
        raw_server(answering(answer)) as server,
        exchanges(server.url, limits=Limits(head=1_000)) as it,
        pytest.raises(MessageTooLarge) as caught,
    ):
        it.exchange()
    assert caught.value.limit == 1_000


@pytest.mark.attack("S15")
def test_users_client_may_decode_and_the_decoded_body_is_delivered():
    packed = gzip.compress(b"a" * 100_000)
    answer = reply(200, packed, content_encoding="gzip")
    bad = reply(200, b"no gzip", content_encoding="gzip")
    with (
        raw_server(answering(answer, bad)) as server,
        exchanges(server.url, client={}) as it,
    ):
        response = it.exchange()
        assert response.body == b"a" * 100_000
        assert not {b"content-encoding", b"content-length"} & set(response.fields)
        with pytest.raises(RemoteProtocolError, match="cannot be decoded"):
            it.exchange()


@pytest.mark.parametrize("body", [gzip.compress(b"a" * 100_000), b"no gzip"])
def test_encoded_body_of_an_error_is_not_decoded(body):
    answer = reply(500, body, content_encoding="gzip")
    with raw_server(answering(answer)) as server, exchanges(server.url) as it:
        response = it.exchange()
        assert (response.status, response.body, response.has_ended) == (500, b"", True)


def test_invalid_request_is_refused_without_showing_secrets():
    with raw_server(answering(json_reply(OK))) as server, exchanges(server.url) as it:
        request = request_to(it.target, authorization=f"{HUSH}\0")
        with pytest.raises(LocalProtocolError) as caught:
            it.exchange(request)
        assert server.requests == []
    assert HUSH not in "".join(traceback.format_exception(caught.value))


# Failed connections...


@pytest.mark.fault("F19")
@pytest.mark.pain("P28")
def test_missing_client_certificate_is_a_connect_error():
    # With TLS 1.3 the server reports it when the handshake is over for us. Its alert is
    # lost on asyncio if writing fails before it is read.
    context = server_context(wants_client=True, version=ssl.TLSVersion.TLSv1_2)
    with raw_server(answering(json_reply(OK)), ssl_context=context) as server:
        error = failure(server.url, ssl=client_context())
    assert "client certificate" in str(error)
    context = server_context(wants_client=True)
    with raw_server(answering(json_reply(OK)), ssl_context=context) as server:
        with (
            exchanges(server.url, ssl=client_context()) as it,
            pytest.raises((ConnectError, ConnectionClosed)),
        ):
            it.exchange()
        assert server.requests == []


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (httpx.PoolTimeout(HUSH), "no connection left"),
        (httpx.UnsupportedProtocol(HUSH), "does not speak this scheme"),
        (httpx.ConnectError(HUSH), "ended before anything was sent"),
    ],
    ids=["pool", "scheme", "connecting"],
)
def test_httpx_error_before_sending_is_a_connect_error(raised, message):
    def fail(request):
        raise raised

    client = {"transport": httpx.MockTransport(fail)}
    assert message in str(failure("http://host.example/mcp", client=client))


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


def test_closed_client_of_the_user_is_reported():
    with raw_server(answering(json_reply(OK))) as server:
        client = httpx.AsyncClient()
        with exchanges(server.url, client=client) as it:
            it.close_client()
            with pytest.raises(LocalProtocolError, match="http_client is closed"):
                it.exchange()
