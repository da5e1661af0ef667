"""The server of HTTP+SSE answers as one of 2024-11-05 did."""

import json

import httpx
import pytest
from legacy_server import legacy_server

pytestmark = pytest.mark.unchecked_wire("a client that says as little as it can")


def events(stream):
    """Yield name and data of each event."""
    name = ""
    for line in stream.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, line[6:]


def test_answers_come_on_the_stream():
    with legacy_server() as server, httpx.Client(trust_env=False, timeout=30) as client:
        assert client.post(server.url, json={}).status_code == 405
        with client.stream("GET", server.url) as stream:
            incoming = events(stream)
            name, endpoint = next(incoming)
            assert name == "endpoint"
            params = {"name": "echo", "arguments": {"text": "x"}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = client.post(server.raw.origin + endpoint, json=call)
            assert answer.status_code == 202
            name, data = next(incoming)
            assert name == "message"
            content = json.loads(data)["result"]["content"]
            assert content == [{"type": "text", "text": "x"}]
            server.close_streams()
            assert list(incoming) == []
        # The client may see the end of its stream before the server's thread has.
        server.wait_until(lambda: not server.streams)
        answer = client.post(server.raw.origin + endpoint, json=call)
        assert answer.status_code == 404
    assert server.executed == [("echo", {"text": "x"}, 1)]
