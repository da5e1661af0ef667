"""What is hosted over HTTP is the same server that it is in memory."""

import threading

import httpx
import pytest
from fakes import SILENCE, FakeServer, text
from hosting import hosted
from little_client import META, MODERN, last_message, messages, text_of

from mcpwire.server.demo import demo_dispatcher

pytestmark = pytest.mark.unchecked_wire("a client that says as little as it can")


@pytest.mark.parametrize("mode", ["json", "sse"])
def test_both_eras_are_served_on_one_url(client_of, mode):
    with hosted(demo_dispatcher(), mode) as host:
        client = client_of(host).open()
        assert text_of(client.call("echo", message="x")) == "x"
        found = last_message(client.modern("server/discover"))
        assert "2026-07-28" in found["result"]["supportedVersions"]
        params = {"name": "echo", "arguments": {"message": "y"}}
        answer = client.modern("tools/call", params, **{"Mcp-Name": "echo"})
        assert text_of(last_message(answer)) == "y"
        assert client.modern("ping").status_code == 404
        assert client.http.delete(host.url, headers=client.headers).status_code == 204
        assert client.ask("ping").status_code == 404


@pytest.mark.parametrize("mode", ["json", "sse"])
def test_progress_goes_to_the_stream_of_its_call(client_of, mode):
    with hosted(demo_dispatcher(), mode) as host:
        client = client_of(host).open()
        params = {"name": "slow", "arguments": {"steps": 3, "seconds": 0}}
        params["_meta"] = {"progressToken": 9}
        found = messages(client.ask("tools/call", params))
    steps = [m["params"]["progress"] for m in found if "method" in m]
    assert steps == [1, 2, 3]
    assert "result" in found[-1]


def test_what_belongs_to_no_call_goes_to_the_get_stream(client_of):
    fake = FakeServer({"tools/call": lambda *_: text("x")})
    with hosted(fake) as host:
        client = client_of(host).open()
        with client.http.stream("GET", host.url, headers=client.headers) as stream:
            fake.notify("notifications/tools/list_changed")
            lines = stream.iter_lines()
            assert next(lines) == "event: message"
            assert "list_changed" in next(lines)


def test_closing_the_stream_cancels_what_stands_alone(client_of):
    fake = FakeServer({"tools/call": lambda *_: SILENCE}, version="2026-07-28")
    with hosted(fake, "sse") as host:
        client = client_of(host)
        params = {"name": "x", "arguments": {}, "_meta": META}
        headers = {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "x"}
        with pytest.raises(httpx.ReadTimeout):
            client.http.post(
                host.url,
                json={"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
                | {"params": params},
                headers=headers,
                timeout=httpx.Timeout(30, read=0.05),
            )
        fake_heard = threading.Event()
        for _ in range(3000):
            if fake.requests("notifications/cancelled"):
                fake_heard.set()
                break
            fake_heard.wait(0.01)
        assert fake.requests("notifications/cancelled") == [{"requestId": 5}]


def test_a_server_that_dies_ends_the_connection_of_each_call(client_of):
    fake = FakeServer({"tools/call": lambda *_: fake.channel._other._hang_up()})
    with hosted(fake) as host:
        client = client_of(host).open()
        with pytest.raises(httpx.RemoteProtocolError):
            client.call("x")
        assert client.ask("ping").status_code == 404


def test_http_sse_carries_everything_on_one_stream():
    with (
        hosted(demo_dispatcher(), "legacy") as host,
        httpx.Client(trust_env=False, timeout=30) as client,
        client.stream("GET", host.url) as stream,
    ):
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        endpoint = next(lines)[6:]
        url = host.raw.origin + endpoint
        params = {"protocolVersion": "2024-11-05", "capabilities": {}}
        params["clientInfo"] = {"name": "test", "version": "1"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        assert client.post(url, json=message).status_code == 202
        assert '"2024-11-05"' in next(lines)
