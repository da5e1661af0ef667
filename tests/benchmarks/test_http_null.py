"""The C null server for HTTP: exact answers with any chunking of input."""

import socket
import subprocess
from contextlib import contextmanager

import pytest

TIMEOUT_S = 30.0
HELLO = b'"result":{"content":[{"type":"text","text":"hello"}]}}'
INITIALIZED = (
    b'"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"null","version":"1"}}}'
)
NOT_FOUND = b'"error":{"code":-32601,"message":"Method not found"}}'
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
NOT_ALLOWED = (
    b"HTTP/1.1 405 Method Not Allowed\r\nAllow: POST, DELETE\r\n"
    b"Content-Length: 0\r\n\r\n"
)
SESSION = b"Mcp-Session-Id: 00000000-0000-4000-8000-000000000000\r\n"


@pytest.fixture(scope="module")
def program(null_program):
    return null_program("http_null")


@contextmanager
def served(program, *options):
    """Start the server and yield its port; it must exit by itself, without output."""
    process = subprocess.Popen(
        [program, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield int(process.stdout.readline())
        assert process.communicate(timeout=TIMEOUT_S) == (b"", b"")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def ask(program):
    """Return a function that sends pieces on a connection and returns all responses."""

    def send(options, *pieces):
        with (
            served(program, *options) as port,
            socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection,
        ):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            parts = iter(lambda: connection.recv(65_536), b"")
            return b"".join(parts)

    return send


def post(body, length=b"content-length"):
    head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n"
    return head + b"%b: %d\r\n\r\n%b" % (length, len(body), body)


def request(method, id=b"1"):
    return b'{"jsonrpc":"2.0","id":' + id + b',"method":"' + method + b'"}'


def message(rest, id=b"1"):
    return b'{"jsonrpc":"2.0","id":' + id + b"," + rest


def as_json(body, *, status=b"200 OK", fields=b""):
    head = b"HTTP/1.1 %b\r\n%bContent-Type: application/json\r\n" % (status, fields)
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def as_event(body, fields=b""):
    event = b"event: message\ndata: " + body + b"\n\n"
    return (
        b"HTTP/1.1 200 OK\r\n%bContent-Type: text/event-stream\r\n"
        b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\n\r\n" % (fields, len(event), event)
    )


@pytest.mark.parametrize(
    ("options", "shape"),
    [((), as_json), (("--json",), as_json), (("--sse",), as_event)],
)
def test_session_responses_match_byte_for_byte(ask, options, shape):
    refusal = (
        b'{"jsonrpc":"2.0","error":{"code":-32000,'
        b'"message":"Bad Request: No valid session"},"id":null}'
    )
    response = ask(
        options,
        post(request(b"server/discover")),
        post(request(b"initialize", b'"a"')),
        post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'),
        b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n",
        post(request(b"tools/call", b"7")),
        post(request(b"nope")),
        b"DELETE /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n",
    )
    assert response == b"".join(
        (
            as_json(refusal, status=b"400 Bad Request"),
            shape(message(INITIALIZED, b'"a"'), fields=SESSION),
            ACCEPTED,
            NOT_ALLOWED,
            shape(message(HELLO, b"7")),
            as_json(message(NOT_FOUND)),
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        )
    )


def test_modern_mode_answers_discover_and_rejects_unknown_methods(ask):
    stamp = (
        b'"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"null","version":"1"}}'
    )
    response = ask(
        ("--modern", "--sse"),
        post(request(b"server/discover")),
        post(request(b"tools/call")),
        post(request(b"nope")),
    )
    discovered = (
        b'"result":{"resultType":"complete","supportedVersions":["2026-07-28"],'
        b'"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public",' + stamp + b"}}"
    )
    called = (
        b'"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}],'
        + stamp
        + b"}}"
    )
    assert response == b"".join(
        (
            as_event(message(discovered)),
            as_event(message(called)),
            as_json(message(NOT_FOUND), status=b"404 Not Found"),
        )
    )


def test_split_and_joined_requests_are_parsed(ask):
    sent = post(request(b"tools/call", b"1")) + post(request(b"tools/call", b"2"))
    expected = as_json(message(HELLO, b"1")) + as_json(message(HELLO, b"2"))
    pieces = [sent[at : at + 1] for at in range(len(sent))]
    assert ask((), *pieces) == ask((), sent) == expected
    for cut in range(0, len(sent), 17):
        assert ask((), sent[:cut], sent[cut:]) == expected


def test_content_length_is_case_insensitive(ask):
    sent = (
        post(request(b"tools/call"), name)
        for name in (b"Content-Length", b"CONTENT-LENGTH")
    )
    assert ask((), *sent) == as_json(message(HELLO)) * 2


def test_body_without_length_is_refused_with_411_and_close(ask):
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert ask((), head + b"0\r\n\r\n" + post(request(b"tools/call"))) == (
        b"HTTP/1.1 411 Length Required\r\n"
        b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    )


def test_bytes_option_sets_the_length_of_the_text(ask):
    size = 300_000
    response = ask(("--bytes", str(size)), post(request(b"tools/call")))
    assert response.endswith(b'"text":"' + b"x" * size + b'"}]}}')


def test_concurrent_connections_get_their_own_responses(program):
    with served(program) as port:
        for _ in range(3):
            connections = [
                socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
                for _ in range(40)
            ]
            for number, connection in enumerate(connections):
                connection.sendall(post(request(b"tools/call", b"%d" % number)))
            for number, connection in enumerate(connections):
                expected = as_json(message(HELLO, b"%d" % number))
                assert connection.recv(65_536) == expected
            for connection in connections[::2] + connections[1::2]:
                connection.close()
