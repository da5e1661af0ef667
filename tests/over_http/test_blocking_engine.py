"""The blocking engine: its exchanges, its connections, and threads that share it."""

import threading
from math import inf
from time import monotonic

import pytest
from blocking_exchanges import BOUND_S, Answer, Doing, ask, echo, engine_for, get, post
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from raw_server import raw_server

from mcpwire.errors import (
    ConnectionClosed,
    MessageTooLarge,
    RemoteProtocolError,
    RequestTimeout,
)
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._http import engine as engine_module


def test_calls_one_after_the_other_share_one_connection():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        answers = [ask(engine, number).json for number in range(50)]
        assert answers == list(range(50))
        assert server.connections == engine.connections == 1
        assert engine.bytes_sent == sum(len(item.raw) for item in server.requests)


def test_a_request_has_the_length_of_its_body_and_nothing_else_beside_its_start():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine, "hi")
        assert server.requests[0].raw == post().start + b'content-length: 4\r\n\r\n"hi"'


def test_a_request_without_body_tells_no_length():
    def script(conn):
        conn.receive()
        conn.send(reply(405))

    with raw_server(script) as server, engine_for(server.url) as engine:
        answer = Answer()
        engine.exchange(get(), answer, None)
        assert answer.status == 405
        assert server.requests[0].raw == get().start + b"\r\n"


@pytest.mark.parametrize("size", [65_530, 70_000, 3_000_000])
def test_large_bodies_go_out_and_come_back_whole(size):
    body = b'"' + b"x" * size + b'"'
    with raw_server(echo) as server, engine_for(server.url) as engine:
        for _ in range(2):
            assert ask(engine, body=body).body == body
        assert server.connections == 1


def test_an_answer_that_trickles_in_is_put_together():
    whole = b"HTTP/1.1 100 Continue\r\n\r\n" + json_reply({"a": 1}, x_y="z")

    def script(conn):
        while conn.receive() is not None:
            for index in range(len(whole)):
                conn.send(whole[index : index + 1])

    with raw_server(script) as server, engine_for(server.url) as engine:
        assert [ask(engine).json for _ in range(3)] == [{"a": 1}] * 3
        assert server.connections == 1


@pytest.mark.fault("F35")
def test_a_body_up_to_the_end_of_the_connection_ends_with_it():
    def script(conn):
        conn.receive()
        conn.send(head(200, content_type="text/plain") + b"abc")

    with raw_server(script) as server, engine_for(server.url) as engine:
        for _ in range(2):
            assert ask(engine).body == b"abc"
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        json_reply(1, connection="close"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n1",
        json_reply(1, keep_alive="timeout=0"),
        json_reply(1) + json_reply(2),
    ],
)
@pytest.mark.attack("S33")
def test_a_connection_is_not_used_again_where_that_is_refused_or_in_doubt(answer):
    def script(conn):
        while conn.receive() is not None:
            conn.send(answer)

    with raw_server(script) as server, engine_for(server.url) as engine:
        assert [ask(engine).json for _ in range(3)] == [1, 1, 1]
        assert server.connections == 3
        server.wait_until(lambda: not server.open)


@pytest.mark.attack("S33")
def test_bytes_that_come_while_a_connection_is_idle_end_it():
    idle = threading.Event()

    def script(conn):
        conn.receive()
        conn.send(json_reply(conn.number))
        conn.wait_for(idle)
        conn.send(json_reply("forged"))
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        assert ask(engine).json == 1
        idle.set()
        # The server's bytes are there when they can be read; nobody has to wait more.
        assert engine._idle[0]._poll(30_000)
        idle.clear()
        assert ask(engine).json == 2
        idle.set()


def test_what_is_no_http_ends_the_connection_with_an_error():
    def script(conn):
        conn.receive()
        conn.send(b"SMTP ready\r\n")
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        with pytest.raises(RemoteProtocolError, match="status line"):
            ask(engine)
        server.wait_until(lambda: not server.open)


def test_what_the_reply_raises_comes_out_and_ends_the_connection():
    def refuse(_):
        raise MessageTooLarge("too much", limit=1)

    def script(conn):
        conn.receive()
        conn.send(json_reply(1))
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        with pytest.raises(MessageTooLarge):
            ask(engine, answer=Answer(until=refuse))
        server.wait_until(lambda: not server.open)


def test_a_server_may_answer_before_it_has_read_all():
    def script(conn):
        while b"\r\n\r\n" not in conn.unread:
            conn.unread += conn.read_some()
        conn.send(reply(413, b"too much"))
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        answer = ask(engine, body=b"x" * 60_000_000)
        assert (answer.status, answer.body) == (413, b"too much")
        assert engine._idle == []


def test_eight_threads_share_an_engine_and_no_answers_cross():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        start = threading.Barrier(8)

        def calls(thread):
            start.wait(30)
            for number in range(200):
                assert ask(engine, [thread, number]).json == [thread, number]

        doing = [Doing(lambda thread=thread: calls(thread)) for thread in range(8)]
        for each in doing:
            each.result()
        assert len(server.requests) == 1600
        assert server.connections == engine.connections <= 8


# How long idle connections are trusted...


@pytest.fixture
def clock(monkeypatch):
    """Let time pass for the engine, and none by itself."""

    class Clock:
        passed = 0.0

    start = monotonic()
    monkeypatch.setattr(engine_module, "monotonic", lambda: start + Clock.passed)
    return Clock


@pytest.mark.parametrize(
    ("field", "passed", "connections"),
    [
        ({}, 3.9, 1),
        ({}, 4.1, 2),
        ({"keep_alive": "timeout=2"}, 1.9, 1),
        ({"keep_alive": "timeout=2, max=100"}, 2.1, 2),
        ({"keep_alive": "timeout=60"}, 4.1, 2),
    ],
)
@pytest.mark.pain("P23")
def test_an_idle_connection_is_trusted_for_a_time(clock, field, passed, connections):
    def script(conn):
        while conn.receive() is not None:
            conn.send(json_reply(1, **field))

    with raw_server(script) as server, engine_for(server.url) as engine:
        ask(engine, timeout=None)
        clock.passed = passed
        ask(engine, timeout=None)
        assert server.connections == connections
        server.wait_until(lambda: len(server.open) == 1)


def test_connections_that_only_a_burst_needed_are_closed_by_the_next_call(clock):
    together = threading.Barrier(4)

    def script(conn):
        while (request := conn.receive()) is not None:
            if request.json == "together":
                together.wait(30)
            conn.send(json_reply(1))

    with raw_server(script) as server, engine_for(server.url) as engine:
        burst = [Doing(lambda: ask(engine, "together", timeout=None)) for _ in "1234"]
        for each in burst:
            each.result()
        assert server.connections == 4
        clock.passed = 3.0
        ask(engine, timeout=None)
        clock.passed = 6.0
        ask(engine, timeout=None)
        server.wait_until(lambda: len(server.open) == 1)
        assert server.connections == 4


# The rest of a response whose answer is there...


def answered(answer):
    return b"\n\n" in answer.body


@pytest.mark.fault("F34")
def test_the_end_of_a_stream_may_come_a_little_after_its_answer():
    def script(conn):
        while (request := conn.receive()) is not None:
            conn.send(sse_head() + chunk(sse_event(request.json)))
            conn.wait(0.0001)
            conn.send(LAST_CHUNK)

    with raw_server(script) as server, engine_for(server.url) as engine:
        for number in range(50):
            answer = ask(engine, number, answer=Answer(until=answered))
            assert answer.body == sse_event(number)
            # Not faster than the server, which says that it is through by its end.
            assert engine._idle or engine._tails[0]._poll(30_000)
        assert server.connections == 1


def test_a_stream_that_goes_on_after_its_answer_holds_nobody_up(clock):
    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(sse_event(conn.number)))
        conn.wait_closed(30)

    with raw_server(script) as server, engine_for(server.url) as engine:
        for _ in range(12):
            ask(engine, timeout=None, answer=Answer(until=answered))
        assert server.connections == 12
        server.wait_until(lambda: len(server.open) == engine_module.TAILS)
        clock.passed = 4.1
        ask(engine, timeout=None, answer=Answer(until=answered))
        server.wait_until(lambda: len(server.open) == 1)


@pytest.mark.parametrize(
    "rest", [LAST_CHUNK + b"HTTP/1.1 200 OK\r\n", b"xyz\r\n", b"", None]
)
def test_a_rest_that_is_wrong_ends_the_connection_and_nothing_else(rest):
    answered_all = threading.Event()

    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(sse_event(conn.number)))
        if conn.number == 1:
            conn.wait_for(answered_all)
            if rest is None:
                conn.reset()
                return
            conn.send(rest)
        if rest:
            assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        ask(engine, answer=Answer(until=answered))
        answered_all.set()
        assert engine._tails[0]._poll(30_000)
        assert ask(engine, answer=Answer(until=answered)).body == sse_event(2)
        assert server.connections == 2


# Time...


@pytest.mark.fault("F37")
def test_a_deadline_ends_the_exchange_and_its_connection():
    def script(conn):
        conn.receive()
        conn.send(b"HTTP/1.1 200 OK\r\ncontent-")
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        begun = monotonic()
        answer = Answer()
        with pytest.raises(RequestTimeout):
            ask(engine, timeout=0.1, answer=answer)
        assert 0.1 <= monotonic() - begun < 10
        assert answer.late_at >= begun + 0.1
        server.wait_until(lambda: not server.open)


def test_nothing_is_sent_after_the_deadline():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        deadline = Deadline(monotonic() - 2.0, 1.0)
        with pytest.raises(RequestTimeout):
            engine.exchange(post(1), Answer(), deadline)
        assert server.connections == 0


def test_a_deadline_that_stands_still_ends_nothing_until_it_goes_on():
    asked = threading.Event()
    answer_now = threading.Event()

    def script(conn):
        conn.receive()
        asked.set()
        conn.wait_for(answer_now)
        conn.send(json_reply(1))
        conn.receive()
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        deadline = Deadline(monotonic(), 0.2)
        deadline.pause(monotonic())
        assert deadline.at == inf
        doing = Doing(lambda: engine.exchange(post(1), Answer(), deadline))
        assert asked.wait(30)
        assert not answer_now.wait(0.3), "longer than the deadline"
        answer_now.set()
        doing.result()
        late = Doing(lambda: engine.exchange(post(2), Answer(), deadline))
        server.wait_until(lambda: len(server.requests) == 2)
        deadline.resume(monotonic())
        with pytest.raises(RequestTimeout):
            late.result()


def test_a_deadline_also_ends_the_writing_of_a_large_body():
    stop = threading.Event()

    def script(conn):
        conn.wait_for(stop)

    with raw_server(script) as server, engine_for(server.url) as engine:
        with pytest.raises(RequestTimeout):
            ask(engine, body=b"x" * 30_000_000, timeout=0.2)
        stop.set()


# The end...


def test_closing_ends_what_goes_on_and_refuses_what_comes():
    stop = threading.Event()

    def script(conn):
        request = conn.receive()
        if request.json == "idle":
            conn.send(json_reply(1))
        assert conn.wait_closed()

    with raw_server(script) as server, engine_for(server.url) as engine:
        ask(engine, "idle")
        engine._idle[0].until = 0.0
        doing = [Doing(lambda: ask(engine, "busy")) for _ in range(3)]
        server.wait_until(lambda: len(server.requests) == 4)
        engine.close()
        for each in doing:
            with pytest.raises(ConnectionClosed, match="closed by this side") as caught:
                each.result()
            assert caught.value.sent
            assert caught.value.target == server.url
        server.wait_until(lambda: not server.open)
        with pytest.raises(ConnectionClosed, match="closed by this side") as caught:
            ask(engine)
        assert not caught.value.sent
        stop.set()


def test_what_is_being_sent_as_it_is_closed_may_have_been_seen():
    """The system may have passed it on while our thread does not know it yet."""
    passed_on, may_return = threading.Event(), threading.Event()
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine)
        connection = engine._idle[0]
        send = connection._send

        def held_up(*given):
            count = send(*given)
            passed_on.set()
            may_return.wait(BOUND_S)
            return count

        connection._send = held_up
        doing = Doing(lambda: ask(engine))
        assert passed_on.wait(BOUND_S)
        engine.close()
        may_return.set()
        with pytest.raises(ConnectionClosed, match="closed by this side") as caught:
            doing.result()
        assert caught.value.sent


def test_a_finaliser_may_abandon_an_engine_whatever_its_thread_is_doing():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine)
        with engine._mutex:
            engine.abandon()
        server.wait_until(lambda: not server.open)


def test_an_engine_that_nobody_has_any_more_leaves_nothing_open():
    with raw_server(echo) as server:
        with engine_for(server.url) as engine:
            ask(engine)
            engine.close = lambda: None
        del engine
        server.wait_until(lambda: not server.open)
