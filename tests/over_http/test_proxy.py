"""The proxy passes bytes on and does to the line what it is told."""

import contextlib
import http.client
import time

import pytest
from proxy import cutting_proxy
from raw_server import json_reply, raw_server

ANSWER = json_reply({"n": "x" * 1000})


def serve(conn):
    while conn.receive():
        conn.send(ANSWER)


@pytest.fixture
def line():
    with raw_server(serve) as server, cutting_proxy(server.port) as proxy:
        client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        yield client, proxy, server
        client.close()


def get(client):
    client.request("GET", "/mcp")
    return client.getresponse().read()


def test_it_passes_on_and_counts(line):
    client, proxy, server = line
    assert get(client) == get(client)
    assert proxy.connections == server.connections == 1
    assert proxy.bytes["down"] == 2 * len(ANSWER)
    assert proxy.bytes["up"] == sum(len(request.raw) for request in server.requests)


@pytest.mark.parametrize("reset", [False, True])
def test_it_cuts_now_or_after_some_bytes(line, reset):
    client, proxy, server = line
    get(client)
    proxy.cut(reset=reset)
    server.wait_until(lambda: not server.open)
    client.close()
    proxy.cut_after(down=100, reset=reset)
    expected = ConnectionResetError if reset else http.client.IncompleteRead
    with pytest.raises(expected):
        get(client)
    client.close()
    proxy.heal()
    assert get(client)


def test_a_black_hole_keeps_the_connection_until_it_heals(line):
    client, proxy, _ = line
    get(client)
    proxy.black_hole()
    client.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        get(client)
    proxy.heal()
    client.sock.settimeout(30)
    assert client.sock.recv(10) == ANSWER[:10]


def test_idle_connections_are_closed_by_fin(line):
    client, proxy, _ = line
    get(client)
    proxy.close_idle()
    assert client.sock.recv(1) == b""


def test_it_is_slow_when_told(line):
    client, proxy, _ = line
    started = time.monotonic()
    proxy.throttle(20_000)
    get(client)
    assert time.monotonic() - started > 0.03
    proxy.heal()
    proxy.delay(0.02)
    get(client)
    assert time.monotonic() - started > 0.07


def test_a_server_that_is_gone_ends_the_connection():
    with raw_server(serve) as server, cutting_proxy(server.port) as proxy:
        server.stop_accepting()
        client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        with contextlib.closing(client), pytest.raises(ConnectionError):
            get(client)
