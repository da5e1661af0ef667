"""The raw servers send what a test says, end with it, and tell what went wrong."""

import http.client
import socket
import threading

import pytest
from raw_server import (
    LAST_CHUNK,
    chunk,
    head,
    json_reply,
    raw_server,
    sse_event,
    sse_head,
)


def echo(conn):
    while request := conn.receive():
        conn.send(json_reply({"got": request.json}))


def post(client, obj):
    client.request("POST", "/mcp", str(obj), {"Content-Type": "application/json"})
    return client.getresponse()


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), 5)


def client_of(server):
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)


def test_a_script_answers_on_one_connection_and_the_server_keeps_what_came():
    with raw_server(echo) as server:
        client = client_of(server)
        assert post(client, 1).read() == b'{"got": 1}'
        assert post(client, 2).read() == b'{"got": 2}'
        client.close()
    assert server.connections == 1
    first, second = server.requests
    assert (first.verb, first.target, first.json) == ("POST", "/mcp", 1)
    assert first.headers["content-type"] == "application/json"
    assert second.raw.startswith(b"POST /mcp HTTP/1.1\r\n")
    assert second.raw.endswith(b"\r\n\r\n2")
    assert second.connection == 1


def test_bytes_go_out_as_they_are():
    stream = sse_head() + chunk(sse_event({"a": 1}, id="7", retry=10)) + LAST_CHUNK

    def script(conn):
        conn.receive()
        conn.send(stream)

    with raw_server(script) as server:
        client = client_of(server)
        answer = post(client, 1)
        assert answer.getheader("content-type") == "text/event-stream"
        assert answer.read() == b'id: 7\nretry: 10\ndata: {"a": 1}\n\n'
        client.close()


def test_heads_repeat_a_name_for_a_list():
    expected = b"HTTP/1.1 418 I'm a Teapot\r\nx-a: 1\r\nx-a: 2\r\n\r\n"
    assert head(418, x_a=[1, 2]) == expected


@pytest.mark.parametrize(("how", "end"), [("close", b""), ("reset", None)])
def test_a_connection_ends_by_fin_or_rst(how, end):
    def script(conn):
        conn.receive()
        getattr(conn, how)()

    with raw_server(script) as server, connected(server) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\n\r\n")
        if end is None:
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        else:
            assert sock.recv(1) == end


def test_scripts_that_wait_end_with_the_server():
    def script(conn):
        if conn.number == 1:
            conn.wait(60)
        elif conn.number == 2:
            conn.wait_for(threading.Event(), 60)
        elif conn.number == 3:
            conn.send(b"x" * 50_000_000, 60)
        else:
            conn.receive(None)

    with raw_server(script) as server:
        clients = [connected(server) for _ in range(4)]
        server.wait_until(lambda: server.connections == 4)
    for client in clients:
        client.close()


def test_what_a_script_raises_fails_the_test_where_the_server_ends():
    def script(conn):
        assert conn.receive().verb == "GET"

    def body():
        with raw_server(script) as server, connected(server) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\n\r\n")
            assert sock.recv(1) == b""

    with pytest.raises(AssertionError, match="GET"):
        body()


def test_the_tests_own_error_passes_with_a_note_of_the_scripts():
    def script(conn):
        raise AssertionError("of the script")

    def body():
        with raw_server(script) as server:
            connected(server).close()
            server.wait_until(lambda: server.connections and not server.open)
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test") as caught:
        body()
    assert "of the script" in caught.value.__notes__[0]


@pytest.mark.parametrize("reset", [False, True])
def test_a_test_cuts_connections_whose_scripts_wait(reset):
    def script(conn):
        conn.wait(60)

    with raw_server(script) as server, connected(server) as sock:
        server.wait_until(lambda: server.open)
        server.close_connections(reset=reset)
        server.wait_until(lambda: not server.open)
        if reset:
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        else:
            assert sock.recv(1) == b""


def test_a_server_that_stops_accepting_refuses():
    with raw_server(echo) as server:
        server.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            connected(server)


def test_a_server_comes_back_on_its_port():
    with raw_server(echo) as first:
        client = client_of(first)
        post(client, 1).read()
    with raw_server(echo, port=first.port) as second:
        client.close()
        assert post(client, 1).read() == b'{"got": 1}'
        assert second.url == first.url
        client.close()


def test_a_script_sees_whether_the_client_left():
    seen = []
    is_open = threading.Event()

    def script(conn):
        seen.append(conn.wait_closed(0.01))
        is_open.set()
        seen.append(conn.wait_closed(30))

    with raw_server(script) as server:
        with connected(server):
            assert is_open.wait(30)
        server.wait_until(lambda: not server.open)
    assert seen == [False, True]
