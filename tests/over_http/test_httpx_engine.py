"""The httpx engine: unchanged requests, accepted clients, refused responses, ends."""

import asyncio
import base64
import gzip
import ssl
import threading
import traceback

import httpx
import pytest
from certificates import ca_file, client_context, server_context
from engines import (
    RecordedResponse,
    answering,
    engine_at,
    is_answered,
    open_engine,
    request_to,
)
from raw_server import LAST_CHUNK, chunk, head, json_reply, raw_server, reply, sse_head

from mcpwire.errors import (
    CallCancelled,
    ConnectError,
    ConnectionClosed,
    HTTPError,
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.limits import Limits

HUSH = "hush-hush"
OK = json_reply({"ok": True})
BOTH = pytest.mark.parametrize("client", [None, {}], ids=["own", "user"])


def httpx_at(script, **options):
    """Connect the engine to a script, or to a server that always sends these bytes."""
    script = answering(script) if isinstance(script, bytes) else script
    return engine_at("httpx", script, **options)


def raising(error):
    """Return the options of a user's client whose requests raise this error."""

    def fail(request):
        raise error

    return {"transport": httpx.MockTransport(fail)}


async def test_requests_of_the_own_engine_are_sent_unchanged():
    async with httpx_at(OK) as (server, it):
        request = request_to(it.http, b"[1]", mcp_session_id="a", x_empty="")
        await it.send(request)
        bare = request_to(it.http, None, verb="DELETE")
        await it.send(bare)
    length = b"Content-Length: 3\r\n\r\n[1]"
    assert [one.raw for one in server.requests] == [
        request.start + length,
        bare.start + b"\r\n",
    ]


async def test_users_headers_are_sent_and_request_headers_take_precedence():
    client = {"headers": {"X-Mine": "1", "Accept": "x/y", "Authorization": "mine"}}
    async with httpx_at(OK, client=client) as (server, it):
        await it.send(request_to(it.http, authorization="ours"))
        await it.send()
    first, second = server.requests
    assert first.headers["x-mine"] == "1"
    assert first.headers["accept"] == "application/json, text/event-stream"
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers["user-agent"] == "mcpwire-test"
    assert first.headers["authorization"] == "ours"
    assert second.headers["authorization"] == "mine"
    names = [name for name, _ in first.fields]
    assert len(names) == len(set(names))


async def test_auth_and_hooks_of_the_users_client_are_applied():
    seen = []

    async def note(message):
        seen.append(type(message).__name__)

    hooks = {"request": [note], "response": [note]}
    client = {"auth": ("me", HUSH), "event_hooks": hooks}
    async with httpx_at(OK, client=client) as (server, it):
        await it.send()
    word = base64.b64encode(f"me:{HUSH}".encode()).decode()
    assert server.requests[0].headers["authorization"] == f"Basic {word}"
    assert seen == ["Request", "Response"]


async def test_hook_may_read_the_response_first():
    async def read(response):
        await response.aread()

    client = {"event_hooks": {"response": [read]}}
    async with httpx_at(OK, client=client) as (_server, it):
        assert (await it.send()).json == {"ok": True}


async def test_hook_that_raises_for_status_causes_an_http_error():
    async def check(response):
        response.raise_for_status()

    client = {"event_hooks": {"response": [check]}}
    declined = reply(503, retry_after=3)
    async with httpx_at(declined, query=f"?{HUSH}", client=client) as (_server, it):
        with pytest.raises(HTTPError) as caught:
            await it.send()
    assert caught.value.status == 503
    assert caught.value.headers["retry-after"] == "3"
    assert HUSH not in "".join(traceback.format_exception(caught.value))


@BOTH
@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_to_another_origin_is_not_followed(client, status):
    with raw_server(answering(OK)) as other:
        answer = reply(status, location=other.url)
        client = client and {"follow_redirects": True}
        async with httpx_at(answer, client=client) as (server, it):
            response = await it.send()
        location = response.fields[b"location"]
        assert (response.status, location) == (status, other.url.encode())
        assert other.connections == 0
        assert len(server.requests) == 1


async def test_own_engine_keeps_no_cookies():
    answer = json_reply({}, set_cookie=f"session={HUSH}")
    async with httpx_at(answer) as (server, it):
        for _ in range(2):
            await it.send()
    assert not any("cookie" in one.headers for one in server.requests)


async def test_own_engine_does_not_log_urls(caplog):
    caplog.set_level("DEBUG")
    async with httpx_at(OK, query=f"?key={HUSH}") as (server, it):
        await it.send()
    assert server.requests[0].target.endswith(HUSH)
    assert HUSH not in caplog.text


async def test_invalid_request_is_refused_without_showing_secrets():
    async with httpx_at(OK) as (server, it):
        with pytest.raises(LocalProtocolError) as caught:
            await it.send(request_to(it.http, authorization=f"{HUSH}\0"))
        assert server.requests == []
    assert HUSH not in "".join(traceback.format_exception(caught.value))


class Stranger:
    """Has the methods of a client."""

    is_closed = False

    def build_request(self): ...

    def send(self): ...

    async def aclose(self): ...


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (httpx.Client(), r"must be an httpx\.AsyncClient, got httpx\.Client"),
        (Stranger(), r"must be an httpx client, got .*Stranger"),
    ],
)
async def test_other_clients_are_refused(client, message):
    with pytest.raises(ValueError, match=message):
        async with open_engine("httpx", "http://127.0.0.1/", client=client):
            pass


async def test_subclass_of_an_httpx_client_is_accepted():
    class Mixin:
        pass

    class Own(Mixin, httpx.AsyncClient):
        pass

    script = answering(OK, b"HELLO\r\n\r\n")
    async with Own() as client, httpx_at(script, client=client) as (_server, it):
        assert (await it.send()).has_ended
        with pytest.raises(RemoteProtocolError):
            await it.send()


async def test_custom_httpx_transport_is_accepted():
    def answer(request):
        assert request.content == b"{}"
        return httpx.Response(200, json={})

    client = {"transport": httpx.MockTransport(answer)}
    async with open_engine("httpx", "http://host.example/", client=client) as it:
        assert (await it.send()).has_ended
        assert it.bytes_sent == 0


async def test_read_timeout_of_a_custom_transport_counts_as_sent():
    client = raising(httpx.ReadTimeout(HUSH))
    async with open_engine("httpx", "http://host.example/", client=client) as it:
        with pytest.raises(ConnectionClosed) as caught:
            await it.send()
    assert caught.value.sent
    assert HUSH not in str(caught.value)


async def test_closed_client_of_the_user_is_reported():
    async with httpx_at(OK, client={}) as (_server, it):
        await it.http.http_client.aclose()
        with pytest.raises(LocalProtocolError, match="http_client is closed"):
            await it.send()


async def test_reused_reply_gets_no_bytes_of_the_first_response():
    def script(conn):
        while conn.receive(timeout=None) is not None:
            if len(server.requests) > 1:
                conn.send(OK)
            else:
                conn.send(sse_head() + chunk(b"the answer"))
                conn.send(chunk(b" and more") + LAST_CHUNK)

    async with httpx_at(script) as (server, it):
        response = await it.send(response=RecordedResponse(is_answered))
        response.__init__()
        assert (await it.send(response=response)).body == b'{"ok": true}'


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
async def test_invalid_http_response_is_refused(name):
    async with httpx_at(NO_HTTP[name]) as (server, it):
        for number in (1, 2):
            with pytest.raises(RemoteProtocolError) as caught:
                await it.send()
            assert type(caught.value) is RemoteProtocolError
            assert server.connections == number


@pytest.mark.attack("S15")
@pytest.mark.parametrize(
    ("size", "error"), [(2_000, MessageTooLarge), (200_000, RemoteProtocolError)]
)
async def test_head_over_the_limit_is_refused(size, error):
    answer = json_reply({}, x_long="a" * size)
    async with httpx_at(answer, limits=Limits(head=1_000)) as (_server, it):
        with pytest.raises(error):
            await it.send()


@pytest.mark.attack("S15")
async def test_users_client_may_decode_and_the_decoded_body_is_delivered():
    packed = gzip.compress(b"a" * 100_000)
    answer = reply(200, packed, content_encoding="gzip")
    bad = reply(200, b"no gzip", content_encoding="gzip")
    async with httpx_at(answering(answer, bad), client={}) as (_server, it):
        response = await it.send()
        assert response.body == b"a" * 100_000
        assert not {b"content-encoding", b"content-length"} & set(response.fields)
        with pytest.raises(RemoteProtocolError, match="cannot be decoded"):
            await it.send()


@pytest.mark.parametrize("body", [gzip.compress(b"a" * 100_000), b"no gzip"])
async def test_encoded_body_of_an_error_is_not_decoded(body):
    answer = reply(500, body, content_encoding="gzip")
    async with httpx_at(answer) as (_server, it):
        response = await it.send()
        assert (response.status, response.body, response.has_ended) == (500, b"", True)


async def failure(url, **options):
    """Return the error of an exchange that finds no connection."""
    async with open_engine("httpx", f"{url}?{HUSH}", **options) as it:
        with pytest.raises(ConnectError) as caught:
            await it.send()
    error = caught.value
    assert error.target == f"{url}?***"
    assert HUSH not in str(error)
    assert error.__cause__ is not None
    return error


@pytest.mark.fault("F19")
@pytest.mark.pain("P28")
async def test_missing_client_certificate_is_a_connect_error():
    # With TLS 1.3 the server reports it when the handshake is over for us. Its alert is
    # lost on asyncio if writing fails before it is read.
    context = server_context(wants_client=True, version=ssl.TLSVersion.TLSv1_2)
    with raw_server(answering(OK), ssl_context=context) as server:
        error = await failure(server.url, ssl=client_context())
    assert "client certificate" in str(error)
    context = server_context(wants_client=True)
    options = {"ssl_context": context, "ssl": client_context()}
    async with httpx_at(OK, **options) as (server, it):
        with pytest.raises((ConnectError, ConnectionClosed)):
            await it.send()
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
async def test_httpx_error_before_sending_is_a_connect_error(raised, message):
    error = await failure("http://host.example/mcp", client=raising(raised))
    assert message in str(error)


@pytest.mark.parametrize("how", ["cancel", "abort", "close"])
async def test_exchange_ended_while_connecting_leaves_no_connection(tmp_path, how):
    greeted, closed = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def script(conn):
        conn.read_some()  # the beginning of a handshake that will not go on
        loop.call_soon_threadsafe(greeted.set)
        if conn.wait_closed():
            loop.call_soon_threadsafe(closed.set)

    with raw_server(script) as server:
        url = server.url.replace("http:", "https:")
        async with open_engine("httpx", url, ca_file=ca_file(tmp_path)) as it:
            response = RecordedResponse()
            call = asyncio.ensure_future(it.send(response=response))
            await greeted.wait()
            if how == "cancel":
                call.cancel()
            elif how == "abort":
                assert it.abort(response, CallCancelled("tools/call"))
            else:
                await it.aclose()
            ends = (asyncio.CancelledError, CallCancelled, ConnectionClosed)
            with pytest.raises(ends):
                await call
            await closed.wait()
            await it.aclose()
            assert not it.abort(response, CallCancelled("tools/call"))


async def test_exchange_aborted_while_writing_leaves_no_connection():
    reading, closed = threading.Event(), threading.Event()

    def script(conn):
        conn.read_some()
        reading.set()
        conn.wait_for(closed)

    async with httpx_at(script) as (_server, it):
        response = RecordedResponse()
        large = request_to(it.http, b"x" * 30_000_000)
        call = asyncio.ensure_future(it.send(large, response))
        assert await asyncio.to_thread(reading.wait, 30)
        assert it.abort(response, CallCancelled("tools/call"))
        with pytest.raises(CallCancelled):
            await call
        await it.aclose()
        closed.set()


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        # The caller is not cancelled.
        (asyncio.CancelledError, ConnectionClosed),
        (ZeroDivisionError, ZeroDivisionError),
    ],
)
async def test_error_of_a_hook_is_raised(raised, expected):
    async def fail(request):
        raise raised

    client = {"event_hooks": {"request": [fail]}}
    async with httpx_at(OK, client=client) as (_server, it):
        with pytest.raises(expected):
            await it.send()


async def test_users_request_continues_on_a_connection_that_the_engine_opened():
    received, may_answer = threading.Event(), threading.Event()

    def script(conn):
        while (request := conn.receive()) is not None:
            if request.target == "/theirs":
                received.set()
                conn.wait_for(may_answer)
            conn.send(OK)

    async with httpx_at(script, client={}) as (server, it):
        await it.send()
        theirs = it.http.http_client.get(f"{server.origin}/theirs")
        users_request = asyncio.ensure_future(theirs)
        assert await asyncio.to_thread(received.wait, 30)
        it.abandon()
        may_answer.set()
        assert (await users_request).status_code == 200
        assert server.connections == 1
