"""A blocking `httpx.Client` of the user in our blocking client."""

import threading
from concurrent.futures import ThreadPoolExecutor

import h11
import httpx
import httpx2
import pytest
from certificates import client_context, server_context
from ctrl_c import interrupting
from mcp_server import scripted_mcp
from raw_server import reply
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.errors import LocalProtocolError


def no_thread():
    return all(each.name != "mcpwire-httpx" for each in threading.enumerate())


@pytest.fixture(autouse=True)
def every_thread_ends():
    yield
    until(no_thread)


def opened(url, http_client, *, auth=None, **options):
    target = mcpwire.Http(url, http_client=http_client, auth=auth)
    return mcpwire.sync.Client(target, **options)


def echo(client, text="here"):
    return client.call_tool("echo", {"text": text}, timeout=BOUND_S).text


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_client_of_the_user_closed_at_the_start_of_a_request_is_reported(library):
    class Client(library.Client):
        def send(self, request, **options):
            if b"tools/call" in request.content:  # another thread closes it now
                self.close()
            return super().send(request, **options)

    with scripted_mcp() as server, opened(server.url, Client()) as client:
        with pytest.raises(LocalProtocolError, match="http_client is closed"):
            echo(client)
        assert "tools/call" not in server.verbs()


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_settings_of_the_users_client_are_used_and_it_is_not_closed(library):
    statuses = []
    with (
        scripted_mcp() as server,
        library.Client(
            auth=("me", "secret"),
            headers={"x-mine": "1", "accept": "never"},
            cookies={"kept": "2"},
            event_hooks={
                "request": [lambda request: request.headers.update({"x-hook": "3"})],
                "response": [lambda response: statuses.append(response.status_code)],
            },
        ) as http_client,
    ):
        with opened(server.url, http_client) as client:
            assert [echo(client, text) for text in "abc"] == ["a", "b", "c"]
        headers = server.requests[0].headers
        assert headers["authorization"].startswith("Basic ")
        assert headers["cookie"] + headers["x-mine"] + headers["x-hook"] == "kept=213"
        assert headers["accept"] != "never"
        assert len(statuses) == len(server.requests)
        # Besides the call: a GET, and a response that is read but not yet released.
        assert server.connections <= 3
        with opened(server.url, http_client) as client:
            assert not http_client.is_closed
            http_client.close()
            with pytest.raises(mcpwire.LocalProtocolError, match="is closed"):
                echo(client)


def test_users_async_client_works_in_the_blocking_client():
    # No connection may be left: their loop ends with our client.
    http_client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
    with scripted_mcp() as server, opened(server.url, http_client) as client:
        assert echo(client) == "here"


def test_streams_are_read_during_calls():
    steps, notifications = [], []
    with (
        scripted_mcp(replies="sse") as server,
        httpx.Client() as http_client,
        opened(server.url, http_client, on_notification=notifications.append) as client,
    ):
        server.push({"method": "notifications/tools/list_changed"})
        client.call_tool("notify", {"steps": 2}, on_progress=lambda *s: steps.append(s))
        until(lambda: notifications)
        with ThreadPoolExecutor(8) as pool:
            texts = [str(number) for number in range(40)]
            assert list(pool.map(lambda text: echo(client, text), texts)) == texts
    assert len(steps) == 2


def test_redirects_and_hooks_do_not_send_the_token_elsewhere():
    def move(request):
        request.url = request.url.copy_with(path="/other")

    with (
        scripted_mcp() as server,
        httpx.Client(follow_redirects=True) as http_client,
        opened(server.url, http_client, auth="a-long-token") as client,
    ):
        elsewhere = reply(307, location=f"{server.raw.origin}/other")
        server.on["tools/call"] = lambda _, conn: conn.send(elsewhere) or True
        with pytest.raises(mcpwire.HTTPError):
            echo(client)
        http_client.event_hooks = {"request": [move]}
        with pytest.raises(mcpwire.UrlRefused):
            echo(client)
        http_client.event_hooks = {}  # for the end of the session
        assert {request.target for request in server.requests} == {"/mcp"}


def test_large_bodies_are_sent_and_received():
    large = "x" * 20_000_000
    with (
        scripted_mcp(get_stream=False) as server,
        httpx.Client() as http_client,
        opened(server.url, http_client) as client,
    ):
        assert echo(client, large) == large


def test_closing_ends_calls_of_other_threads():
    with (
        scripted_mcp() as server,
        httpx.Client() as http_client,
        opened(server.url, http_client) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        call = pool.submit(client.call_tool, "slow", timeout=BOUND_S)
        until(lambda: server.executed)
        client.close()
        with pytest.raises(mcpwire.ConnectionClosed):
            call.result(BOUND_S)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("error", "limit"), [(mcpwire.RequestTimeout, 0.1), (KeyboardInterrupt, BOUND_S)]
)
def test_timed_out_or_interrupted_call_ends_its_connection(tls, error, limit):
    with (
        interrupting() as interrupt,
        scripted_mcp(
            "stateless", ssl_context=server_context() if tls else None
        ) as server,
        httpx.Client(verify=client_context()) as http_client,
        opened(server.url, http_client) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        if error is KeyboardInterrupt:
            pool.submit(lambda: until(lambda: server.executed) or interrupt())
        with pytest.raises(error):
            client.call_tool("slow", timeout=limit)
        until(lambda: server.cancelled)
        assert echo(client) == "here"


def test_call_that_times_out_just_before_its_first_byte_is_not_sent(monkeypatch):
    has_timed_out, send, is_late = threading.Event(), h11.Connection.send, False

    def send_late(connection, event):
        if is_late and type(event) is h11.Request:
            assert has_timed_out.wait(BOUND_S)
        return send(connection, event)

    monkeypatch.setattr(h11.Connection, "send", send_late)
    with (
        scripted_mcp("stateless") as server,
        httpx.Client() as http_client,
        opened(server.url, http_client) as client,
    ):
        echo(client)
        is_late = True
        with pytest.raises(mcpwire.RequestTimeout):
            client.call_tool("slow", timeout=0.3)
        has_timed_out.set()
        until(no_thread)
        assert echo(client) == "here"
        assert [name for name, *_ in server.executed] == ["echo", "echo"]


def test_call_cancelled_before_sending_is_not_sent():
    may_go_on = threading.Event()

    def wait(request):
        if b'"slow"' in request.content:
            assert may_go_on.wait(BOUND_S)

    with (
        scripted_mcp(get_stream=False) as server,
        httpx.Client(event_hooks={"request": [wait]}) as http_client,
        opened(server.url, http_client) as client,
    ):
        echo(client)
        with pytest.raises(mcpwire.RequestTimeout):
            client.call_tool("slow", timeout=0.1)
        may_go_on.set()
        client.close()
        until(no_thread)
        assert [name for name, *_ in server.executed] == ["echo"]
