"""The httpx engine: what it sends, feeds, refuses and lets go."""

import gzip
import socket
import threading
import traceback

import httpx
import pytest
from httpx_exchanges import (
    MARK,
    Fed,
    answering,
    exchanges,
    forget_proxies,
    request_to,
)
from raw_server import (
    LAST_CHUNK,
    WAIT_S,
    chunk,
    head,
    json_reply,
    raw_server,
    reply,
    sse_head,
)

from mcpwire.errors import (
    ConnectionClosed,
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.limits import Limits

HUSH = "hush-hush"
OK = {"ok": True}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


# What is fed...


def test_an_answer_is_fed_with_its_head_in_lower_case():
    answer = json_reply(OK, X_Twice=["a", "b"])
    with (
        raw_server(answering(answer)) as server,
        exchanges(server.url, client={}) as it,
    ):
        fed = it.exchange()
    assert fed.status == 200
    assert fed.fields[b"content-type"] == b"application/json"
    assert fed.fields[b"x-twice"] == b"a, b"
    assert fed.body == b'{"ok": true}'
    assert fed.has_ended


@pytest.mark.usefixtures("kept_for_long")
def test_calls_one_after_the_other_share_one_connection():
    script = answering(json_reply(OK))
    with raw_server(script) as server, exchanges(server.url, client={}) as it:
        feds = it.exchanges(20)
        assert all(fed.is_over for fed in feds)
        assert server.connections == 1
        assert it.engine.bytes_sent == sum(len(one.raw) for one in server.requests)


def test_an_exchange_returns_with_its_answer_and_the_rest_is_read_later():
    may_end, has_ended = threading.Event(), threading.Event()

    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(MARK))
        conn.wait_for(may_end)
        conn.send(chunk(b" and more") + LAST_CHUNK)
        has_ended.set()
        conn.receive()
        conn.send(json_reply(OK))

    with raw_server(script) as server, exchanges(server.url, client={}) as it:
        fed = it.exchange()
        assert not fed.has_ended
        may_end.set()
        assert has_ended.wait(WAIT_S)
        it.let_end(fed)
        assert it.exchange().has_ended
        assert fed.body == MARK + b" and more"
        assert fed.has_ended
        assert server.connections == 1


def test_a_reply_that_is_fed_another_answer_gets_none_of_the_first():
    def script(conn):
        while conn.receive(timeout=None) is not None:
            if len(server.requests) > 1:
                conn.send(json_reply(OK))
            else:
                conn.send(sse_head() + chunk(MARK))
                conn.send(chunk(b" and more") + LAST_CHUNK)

    with raw_server(script) as server, exchanges(server.url) as it:
        fed = it.exchange()
        fed.__init__()
        assert it.exchange(fed=fed).body == b'{"ok": true}'


def test_nothing_that_is_left_of_an_answer_is_raised():
    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(MARK) + b"no chunk\r\n")
        conn.wait_closed()

    with raw_server(script) as server, exchanges(server.url) as it:
        for _ in range(3):
            assert it.exchange().body == MARK
        assert server.connections == 3


# What is refused...


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
def test_what_is_no_acceptable_http_is_refused(name):
    def script(conn):
        conn.receive()
        conn.send(NO_HTTP[name])
        conn.wait_closed()

    with raw_server(script) as server, exchanges(server.url) as it:
        for number in (1, 2):
            with pytest.raises(RemoteProtocolError) as caught:
                it.exchange()
            assert type(caught.value) is RemoteProtocolError
            assert server.connections == number


@pytest.mark.attack("S15")
@pytest.mark.parametrize("size", [2_000, 200_000])
def test_a_head_over_its_limit_is_refused(size):
    answer = json_reply(OK, x_long="a" * size)
    with (
        raw_server(answering(answer)) as server,
        exchanges(server.url, limits=Limits(head=1_000)) as it,
        pytest.raises(MessageTooLarge) as caught,
    ):
        it.exchange()
    assert caught.value.limit == 1_000


@pytest.mark.attack("S15")
def test_a_user_s_client_may_decode_and_what_comes_out_is_fed():
    packed = gzip.compress(b"a" * 100_000)
    answer = reply(200, packed, content_encoding="gzip")
    bad = reply(200, b"no gzip", content_encoding="gzip")
    with (
        raw_server(answering(answer, bad)) as server,
        exchanges(server.url, client={}) as it,
    ):
        fed = it.exchange()
        assert fed.body == b"a" * 100_000
        assert not {b"content-encoding", b"content-length"} & set(fed.fields)
        with pytest.raises(RemoteProtocolError, match="cannot be decoded"):
            it.exchange()


@pytest.mark.parametrize("body", [gzip.compress(b"a" * 100_000), b"no gzip"])
def test_the_encoded_body_of_an_error_is_not_decoded(body):
    answer = reply(500, body, content_encoding="gzip")
    with raw_server(answering(answer)) as server, exchanges(server.url) as it:
        fed = it.exchange()
        assert (fed.status, fed.body, fed.has_ended) == (500, b"", True)


def test_what_the_reply_refuses_is_raised_and_the_connection_closed():
    refusal = MessageTooLarge("too long", limit=5)
    closed = threading.Event()

    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(b"too long"))
        if conn.wait_closed():
            closed.set()

    with raw_server(script) as server, exchanges(server.url, client={}) as it:
        with pytest.raises(MessageTooLarge) as caught:
            it.exchange(fed=Fed(refusal=refusal))
        assert caught.value is refusal
        assert closed.wait(30)


def test_a_request_that_is_no_http_is_refused_without_its_secrets():
    with raw_server(answering(json_reply(OK))) as server, exchanges(server.url) as it:
        request = request_to(it.target, authorization=f"{HUSH}\0")
        with pytest.raises(LocalProtocolError) as caught:
            it.exchange(request)
        assert server.requests == []
    assert HUSH not in "".join(traceback.format_exception(caught.value))


# The end of connections...


@pytest.mark.fault("F21", "F22")
@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"HTTP/1.1 20",
        head(200, content_length=10) + b"ab",
        sse_head() + chunk(b"ab"),
        sse_head() + b"5\r\nab",
    ],
    ids=["nothing", "in-head", "in-body", "between-chunks", "in-chunk"],
)
def test_a_connection_that_ends_too_early_may_have_run_the_call(before, reset):
    def script(conn):
        conn.receive()
        conn.send(before)
        if reset:
            conn.reset()

    with (
        raw_server(script) as server,
        exchanges(f"{server.url}?{HUSH}", client={}) as it,
        pytest.raises(ConnectionClosed) as caught,
    ):
        it.exchange()
    assert caught.value.sent
    assert len(server.requests) == 1
    assert HUSH not in str(caught.value)


def leave(conn, answer):
    """Send an answer and the end of the connection in one segment."""
    conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    conn.send(answer)
    conn.sock.close()


@pytest.mark.fault("F23")
def test_an_idle_connection_whose_end_has_come_is_not_used():
    def script(conn):
        if conn.receive() is not None:
            leave(conn, json_reply(OK))

    with raw_server(script) as server, exchanges(server.url, client={}) as it:
        feds = it.exchanges(50)
    assert all(fed.has_ended for fed in feds)
    assert len(server.requests) == 50


@pytest.mark.fault("F23")
def test_what_arrived_is_not_sent_again_though_no_byte_of_an_answer_came():
    def script(conn):
        conn.receive()
        conn.send(json_reply(OK))
        conn.receive()

    with raw_server(script) as server, exchanges(server.url, client={}) as it:
        it.exchange()
        with pytest.raises(ConnectionClosed) as caught:
            it.exchange()
    assert caught.value.sent
    assert len(server.requests) == 2


def test_a_user_s_closed_client_is_told():
    with raw_server(answering(json_reply(OK))) as server:
        client = httpx.AsyncClient()
        with exchanges(server.url, client=client) as it:
            it.close_client()
            with pytest.raises(LocalProtocolError, match="http_client is closed"):
                it.exchange()
