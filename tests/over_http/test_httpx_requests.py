"""Requests through httpx are sent unchanged; which clients are accepted."""

import base64
import traceback

import httpx
import pytest
from httpx_exchanges import answering, exchanges, forget_proxies, request_to
from raw_server import json_reply, raw_server, reply

from mcpwire.errors import ConnectionClosed, HTTPError, RemoteProtocolError

HUSH = "hush-hush"
OK = {"ok": True}
BOTH = pytest.mark.parametrize("client", [None, {}], ids=["own", "user"])


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


def test_requests_of_the_own_engine_are_sent_unchanged():
    with raw_server(answering(json_reply(OK))) as server, exchanges(server.url) as it:
        request = request_to(it.target, b"[1]", mcp_session_id="a", x_empty="")
        it.exchange(request)
        bare = request_to(it.target, None, verb="DELETE")
        it.exchange(bare)
    length = b"Content-Length: 3\r\n\r\n[1]"
    assert [one.raw for one in server.requests] == [
        request.start + length,
        bare.start + b"\r\n",
    ]


def test_users_headers_are_sent_and_request_headers_take_precedence():
    client = {"headers": {"X-Mine": "1", "Accept": "x/y", "Authorization": "mine"}}
    with (
        raw_server(answering(json_reply(OK))) as server,
        exchanges(server.url, client=client) as it,
    ):
        it.exchange(request_to(it.target, authorization="ours"))
        it.exchange()
    first, second = server.requests
    assert first.headers["x-mine"] == "1"
    assert first.headers["accept"] == "application/json, text/event-stream"
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers["user-agent"] == "mcpwire-test"
    assert first.headers["authorization"] == "ours"
    assert second.headers["authorization"] == "mine"
    names = [name for name, _ in first.fields]
    assert len(names) == len(set(names))


def test_auth_and_hooks_of_the_users_client_are_applied():
    seen = []

    async def note(message):
        seen.append(type(message).__name__)

    client = {
        "auth": ("me", HUSH),
        "event_hooks": {"request": [note], "response": [note]},
    }
    with (
        raw_server(answering(json_reply(OK))) as server,
        exchanges(server.url, client=client) as it,
    ):
        it.exchange()
    word = base64.b64encode(f"me:{HUSH}".encode()).decode()
    assert server.requests[0].headers["authorization"] == f"Basic {word}"
    assert seen == ["Request", "Response"]


def test_hook_may_read_the_response_first():
    async def read(response):
        await response.aread()

    client = {"event_hooks": {"response": [read]}}
    with (
        raw_server(answering(json_reply(OK))) as server,
        exchanges(server.url, client=client) as it,
    ):
        assert it.exchange().body == b'{"ok": true}'


def test_hook_that_raises_for_status_causes_an_http_error():
    async def check(response):
        response.raise_for_status()

    client = {"event_hooks": {"response": [check]}}
    with (
        raw_server(answering(reply(503, retry_after=3))) as server,
        exchanges(f"{server.url}?{HUSH}", client=client) as it,
        pytest.raises(HTTPError) as caught,
    ):
        it.exchange()
    assert caught.value.status == 503
    assert caught.value.headers["retry-after"] == "3"
    assert HUSH not in "".join(traceback.format_exception(caught.value))


@BOTH
@pytest.mark.attack("S02")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_to_another_origin_is_not_followed(client, status):
    with raw_server(answering(json_reply(OK))) as other:
        answer = reply(status, location=other.url)
        with (
            raw_server(answering(answer)) as server,
            exchanges(server.url, client=client and {"follow_redirects": True}) as it,
        ):
            response = it.exchange()
        assert (response.status, response.fields[b"location"]) == (
            status,
            other.url.encode(),
        )
        assert other.connections == 0
        assert len(server.requests) == 1


def test_own_engine_keeps_no_cookies():
    answer = json_reply(OK, set_cookie=f"session={HUSH}")
    with raw_server(answering(answer)) as server, exchanges(server.url) as it:
        it.exchanges(2)
    assert not any("cookie" in one.headers for one in server.requests)


def test_own_engine_does_not_log_urls(caplog):
    caplog.set_level("DEBUG")
    with (
        raw_server(answering(json_reply(OK))) as server,
        exchanges(f"{server.url}?key={HUSH}") as it,
    ):
        it.exchange()
    assert server.requests[0].target.endswith(HUSH)
    assert HUSH not in caplog.text


# Accepted clients...


def test_sync_client_is_refused_by_the_asyncio_engine():
    message = r"must be an httpx\.AsyncClient, got httpx\.Client"
    with (
        pytest.raises(ValueError, match=message),
        exchanges("http://127.0.0.1/", client=httpx.Client()),
    ):
        pass


def test_object_with_the_methods_of_a_client_is_refused():
    class Stranger:
        is_closed = False

        def build_request(self):
            pass

        def send(self):
            pass

        async def aclose(self):
            pass

    with (
        pytest.raises(ValueError, match=r"must be an httpx client, got .*Stranger"),
        exchanges("http://127.0.0.1/", client=Stranger()),
    ):
        pass


def test_subclass_of_an_httpx_client_is_accepted():
    class Mixin:
        pass

    class Own(Mixin, httpx.AsyncClient):
        pass

    with (
        raw_server(answering(json_reply(OK), b"HELLO\r\n\r\n")) as server,
        exchanges(server.url, client=Own()) as it,
    ):
        assert it.exchange().has_ended
        with pytest.raises(RemoteProtocolError):
            it.exchange()
        it.close_client()


def test_custom_httpx_transport_is_accepted():
    def answer(request):
        assert request.content == b"{}"
        return httpx.Response(200, json=OK)

    client = {"transport": httpx.MockTransport(answer)}
    with exchanges("http://host.example/", client=client) as it:
        assert it.exchange().has_ended
        assert it.engine.bytes_sent == 0


def test_read_timeout_of_a_custom_transport_counts_as_sent():
    def fail(request):
        raise httpx.ReadTimeout(HUSH)

    client = {"transport": httpx.MockTransport(fail)}
    with (
        exchanges("http://host.example/", client=client) as it,
        pytest.raises(ConnectionClosed) as caught,
    ):
        it.exchange()
    assert caught.value.sent
    assert HUSH not in str(caught.value)
