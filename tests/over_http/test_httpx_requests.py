"""What goes out through httpx: our requests as they are; which clients are taken."""

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


def test_our_own_requests_are_sent_as_they_are():
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


def test_a_user_s_headers_are_sent_and_ours_win():
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


def test_a_user_s_auth_and_hooks_are_honoured():
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


def test_a_hook_may_read_the_answer_first():
    async def read(response):
        await response.aread()

    client = {"event_hooks": {"response": [read]}}
    with (
        raw_server(answering(json_reply(OK))) as server,
        exchanges(server.url, client=client) as it,
    ):
        assert it.exchange().body == b'{"ok": true}'


def test_a_hook_that_refuses_a_status_makes_an_http_error():
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
def test_no_redirect_is_followed_and_no_other_origin_is_asked(client, status):
    with raw_server(answering(json_reply(OK))) as other:
        answer = reply(status, location=other.url)
        with (
            raw_server(answering(answer)) as server,
            exchanges(server.url, client=client and {"follow_redirects": True}) as it,
        ):
            fed = it.exchange()
        assert (fed.status, fed.fields[b"location"]) == (status, other.url.encode())
        assert other.connections == 0
        assert len(server.requests) == 1


def test_our_own_engine_keeps_no_cookie():
    answer = json_reply(OK, set_cookie=f"session={HUSH}")
    with raw_server(answering(answer)) as server, exchanges(server.url) as it:
        it.exchanges(2)
    assert not any("cookie" in one.headers for one in server.requests)


def test_our_own_engine_writes_no_url_into_the_log(caplog):
    caplog.set_level("DEBUG")
    with (
        raw_server(answering(json_reply(OK))) as server,
        exchanges(f"{server.url}?key={HUSH}") as it,
    ):
        it.exchange()
    assert server.requests[0].target.endswith(HUSH)
    assert HUSH not in caplog.text


# Whose clients are taken...


def test_a_client_of_the_other_kind_is_refused():
    message = r"must be an httpx\.AsyncClient, got httpx\.Client"
    with (
        pytest.raises(ValueError, match=message),
        exchanges("http://127.0.0.1/", client=httpx.Client()),
    ):
        pass


def test_what_only_looks_like_a_client_is_refused():
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


def test_a_client_of_a_class_of_the_user_s_is_one():
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


def test_a_user_s_own_transport_may_be_anything():
    def answer(request):
        assert request.content == b"{}"
        return httpx.Response(200, json=OK)

    client = {"transport": httpx.MockTransport(answer)}
    with exchanges("http://host.example/", client=client) as it:
        assert it.exchange().has_ended
        assert it.engine.bytes_sent == 0


def test_a_failure_of_such_a_transport_may_come_after_sending():
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
