"""All engines when they connect: errors name the check that failed."""

import asyncio
import errno
import re
import ssl
import threading
from time import monotonic

import pytest
from certificates import client_context, server_context
from engines import (
    RecordedResponse,
    all_closed,
    echo,
    engine_at,
    eventually,
    every_engine,
    open_engine,
    over_tls,
)
from http_bytes import head
from ports import kept_port
from raw_server import raw_server

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    RequestTimeout,
    TransportError,
)

pytestmark = pytest.mark.unchecked_wire("the bodies are no MCP")

STOP = RequestTimeout(method="test", timeout=1.0, elapsed=1.0)


async def refusal(kind, url, reason, **options):
    """Return the error that connecting to a URL raises, for this reason."""
    async with open_engine(kind, url, **options) as engine:
        with pytest.raises(ConnectError) as caught:
            await engine.ask("hush")
        assert engine.bytes_sent == 0
    assert caught.value.target == url
    assert caught.value.reason == reason
    assert "hush" not in str(caught.value)
    return caught.value


@every_engine
@pytest.mark.fault("F19")
async def test_unresolvable_name_is_named_in_the_error(kind):
    error = await refusal(kind, "http://no-such-host.invalid/mcp", "dns")
    assert str(error).startswith("cannot resolve 'no-such-host.invalid'")
    assert error.errno is None


@every_engine
@pytest.mark.fault("F19")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_refused_connection_is_a_connect_error(kind, host):
    with kept_port() as port:
        error = await refusal(kind, f"http://{host}:{port}/mcp", "refused")
    assert error.errno == errno.ECONNREFUSED
    assert str(error) == f"cannot connect to '{host}:{port}': Connection refused"


@every_engine
@pytest.mark.fault("F19")
async def test_unreachable_network_is_a_connect_error(kind):
    error = await refusal(kind, "http://255.255.255.255:9/mcp", "unreachable")
    assert error.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES}
    assert "cannot connect to '255.255.255.255:9'" in str(error)


@every_engine
@pytest.mark.fault("F20")
async def test_unresponsive_port_fails_after_the_connect_timeout(kind, black_hole):
    url = f"http://127.0.0.1:{black_hole}/mcp"
    before = monotonic()
    error = await refusal(kind, url, "timeout", connect_timeout=0.2)
    assert monotonic() - before > 0.15
    assert error.errno == errno.ETIMEDOUT
    assert "0.2 s" in str(error)


# Only the direct engine: the waits of httpx end with its connect timeout.
@pytest.mark.fault("F20")
@pytest.mark.parametrize("how", ["cancel", "abort", "close"])
async def test_connecting_can_be_cancelled_aborted_or_closed(how, black_hole):
    url = f"http://127.0.0.1:{black_hole}/mcp"
    async with open_engine("direct", url) as engine:
        response = RecordedResponse()
        task = asyncio.create_task(engine.ask("hush", response=response))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == "abort":
            await eventually(lambda: engine.abort(response, STOP))
            with pytest.raises(RequestTimeout):
                await task
        else:
            await engine.aclose()
            with pytest.raises(ConnectionClosed) as caught:
                await task
            assert not caught.value.sent
        assert engine.bytes_sent == 0


UNTRUSTED = {
    "expired": ["expired"],
    "other host": ["127.0.0.1", "mismatch"],
    "unknown authority": ["certificate", "issuer"],
    "self-signed": ["self-signed"],
}


@every_engine
@pytest.mark.fault("F19", "F20")
@pytest.mark.pain("P28")
@pytest.mark.parametrize("name", UNTRUSTED)
async def test_error_for_an_untrusted_certificate_says_why(kind, name):
    with raw_server(echo, ssl_context=server_context(name)) as server:
        error = await refusal(kind, server.url, "tls", ssl=client_context())
        assert any(word in str(error) for word in UNTRUSTED[name])
        assert not server.requests


# Only the direct engine: with TLS 1.3 the refusal comes after the handshake.
@pytest.mark.fault("F19")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_missing_client_certificate_is_reported(version):
    context = server_context(wants_client=True, version=version)
    with raw_server(echo, ssl_context=context) as server:
        async with open_engine("direct", server.url, ssl=client_context()) as engine:
            with pytest.raises(TransportError) as raised:
                await engine.ask("hush")
        assert not server.requests
    # With TLS 1.3 a reset may overtake the alert of the server.
    if version is ssl.TLSVersion.TLSv1_2 or type(raised.value) is ConnectError:
        assert type(raised.value) is ConnectError
        assert "certificate" in str(raised.value)
    else:
        assert type(raised.value) is ConnectionClosed


@every_engine
@pytest.mark.fault("F19")
@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (head(400, connection="close"), "tls", "TLS|SSL"),
        (b"", "unreachable", r"127\.0\.0\.1"),
    ],
    ids=["a server without TLS", "a server that ends the handshake"],
)
async def test_failed_tls_handshake_is_reported(kind, answer, reason, words):
    def script(conn):
        conn.read_some()
        if answer:
            conn.send(answer)

    with raw_server(script) as server:
        url = server.url.replace("http:", "https:")
        error = await refusal(kind, url, reason, ssl=client_context())
        assert re.search(words, str(error))


@every_engine
@pytest.mark.fault("F20")
async def test_connect_timeout_includes_the_tls_handshake(kind):
    def script(conn):
        conn.wait_closed()

    with raw_server(script) as server:
        url = server.url.replace("http:", "https:")
        options = {"ssl": client_context(), "connect_timeout": 0.2}
        error = await refusal(kind, url, "timeout", **options)
        assert error.errno == errno.ETIMEDOUT
        await all_closed(server)


@pytest.mark.fault("F22")
@pytest.mark.attack("S33")
@pytest.mark.parametrize("notify", [False, True])
async def test_tls_body_without_length_ends_only_with_close_notify(notify):
    """Else cutting the connection would cut the body (RFC 9112 section 9.8)."""

    def script(conn):
        conn.receive()
        conn.send(head(200) + b'"abc"')
        conn.close(notify=notify)

    async with engine_at("direct", script, **over_tls()) as (_server, engine):
        if notify:
            assert (await engine.ask()).json == "abc"
        else:
            with pytest.raises(ConnectionClosed, match="within the body"):
                await engine.ask()


@every_engine
@pytest.mark.fault("F22")
async def test_reset_within_a_body_without_length_is_an_error(kind):
    begun = threading.Event()

    def script(conn):
        conn.receive()
        conn.send(head(200) + b'"abc"')
        conn.wait_for(begun)
        conn.reset()

    class Begun(RecordedResponse):
        def data(self, chunk):
            super().data(chunk)
            begun.set()

    async with engine_at(kind, script) as (_server, engine):
        with pytest.raises(ConnectionClosed, match="within the body"):
            await engine.ask(response=Begun())


class LateResponse(RecordedResponse):
    """A response that accepts its head only when the server has sent everything."""

    def __init__(self, sent):
        super().__init__()
        self.sent = sent

    def head(self, status, fields):
        assert self.sent.wait(30)
        super().head(status, fields)


@pytest.mark.fault("F22")
@pytest.mark.parametrize("notify", [False, True])
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("size", [500_000, 550_000, 750_000, 1_100_000])
async def test_tls_body_is_complete_although_the_server_closes(size, framed, notify):
    """Regression: asyncio drops bytes that it has not delivered by then."""
    body = b"x" * size

    def script(conn):
        conn.receive()
        length = {"content_length": len(body)} if framed else {}
        conn.send(head(200, connection="close", **length) + body)
        conn.close(notify=notify)
        sent.set()

    sent = threading.Event()
    async with engine_at("direct", script, **over_tls()) as (_server, engine):
        response = LateResponse(sent)
        if framed or notify:
            assert (await engine.ask(response=response)).body == body
        else:
            with pytest.raises(ConnectionClosed, match="within the body"):
                await engine.ask(response=response)
            assert response.body == body
