"""The blocking engine when a connection ends: sent again, aborted, forked."""

import errno
import os
import signal
import socket
import threading
from collections import Counter

import pytest
from blocking_exchanges import Answer, Doing, ask, echo, engine_for
from http_bytes import chunk, head, json_reply, sse_event, sse_head
from raw_server import raw_server

from mcpwire.errors import (
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
)
from mcpwire.sync._http import _connection as connection_module

ABORTED = RemoteProtocolError("aborted by the test")


def runs_of(server):
    """How often the server got each request."""
    return Counter(str(request.json) for request in server.requests)


# At most once...


@pytest.mark.fault("F23")
@pytest.mark.parametrize("resets", [False, True])
def test_a_connection_that_ended_while_idle_is_replaced_without_a_word(resets):
    def script(conn):
        request = conn.receive()
        conn.send(json_reply(request.json))
        if resets:
            conn.reset()

    with raw_server(script) as server, engine_for(server.url) as engine:
        for number in range(20):
            assert ask(engine, number).json == number
            assert engine._idle[0]._poll(30_000)
        assert server.connections == 20
        assert set(runs_of(server).values()) == {1}


@pytest.mark.fault("F23")
@pytest.mark.pain("P24")
def test_a_server_that_closes_after_each_reply_runs_no_call_twice():
    def script(conn):
        conn.send(json_reply(conn.receive().json))

    with raw_server(script) as server, engine_for(server.url) as engine:
        answered = [number for number in range(300) if answers(engine, number)]
        assert runs_of(server) == dict.fromkeys(map(str, answered), 1)


def answers(engine, number):
    """Ask; where the answer is lost, nothing is known of the request.

    It came just before the server closed, and what its system says to that (an RST, or
    a FIN after it has acknowledged the bytes) does not tell what became of it.
    """
    try:
        return ask(engine, number).json == number
    except ConnectionClosed as error:
        if not error.sent:
            raise
        return False


@pytest.fixture
def race(monkeypatch):
    """Let the server close between the look at an idle connection and the write."""
    closed = threading.Event()
    closing = threading.Event()

    def close_now(self, data, flags):
        if self.written:
            closing.set()
            assert closed.wait(30)
        return socket.socket.send(self._socket, data, flags)

    def run(self, *args):
        self._send = lambda data, flags: close_now(self, data, flags)
        return real(self, *args)

    real = connection_module.Connection.run
    monkeypatch.setattr(connection_module.Connection, "run", run)
    return closing, closed


@pytest.mark.fault("F23")
def test_a_request_that_only_met_the_end_of_the_stream_is_sent_again(race):
    closing, closed = race

    def script(conn):
        conn.send(json_reply(conn.receive().json))
        if conn.number == 1:
            conn.wait_for(closing)
            conn.close()
            closed.set()

    with raw_server(script) as server, engine_for(server.url) as engine:
        assert ask(engine, "first").json == "first"
        assert ask(engine, "second").json == "second"
        assert server.connections == 2
        assert runs_of(server) == {"first": 1, "second": 1}


def test_it_is_not_sent_again_where_the_system_does_not_tell(race, monkeypatch):
    closing, closed = race
    monkeypatch.setattr(connection_module, "acknowledged", lambda sock: 0)

    def script(conn):
        conn.send(json_reply(conn.receive().json))
        if conn.number == 1:
            conn.wait_for(closing)
            conn.close()
            closed.set()

    with raw_server(script) as server, engine_for(server.url) as engine:
        ask(engine, "first")
        with pytest.raises(ConnectionClosed, match="before the response") as caught:
            ask(engine, "second")
        assert caught.value.sent
        assert server.connections == 1


@pytest.mark.fault("F21", "F23")
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_server_that_dies_on_a_request_gets_it_once(resets, calls):
    def script(conn):
        for _ in range(calls - 1):
            conn.send(json_reply(conn.receive().json))
        conn.receive()
        if resets:
            conn.reset()

    with raw_server(script) as server, engine_for(server.url) as engine:
        for number in range(1, calls):
            ask(engine, number)
        with pytest.raises(ConnectionClosed, match="before the response") as caught:
            ask(engine, calls)
        assert caught.value.sent
        assert caught.value.target == server.url
        assert server.connections == 1
        assert len(server.requests) == calls


@pytest.mark.fault("F21", "F22")
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize(
    ("begun", "place"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-", "within the head"),
        (head(200, content_length=10) + b"12345", "within the body"),
        (sse_head() + chunk(sse_event("x")), "within the body"),
    ],
)
def test_a_response_that_breaks_off_is_no_response(begun, place, resets):
    def script(conn):
        conn.receive()
        conn.send(begun)
        if resets:
            conn.wait(0.01)
            conn.reset()

    with raw_server(script) as server, engine_for(server.url) as engine:
        with pytest.raises(ConnectionClosed, match=place) as caught:
            ask(engine, answer=Answer())
        assert caught.value.sent
        assert len(server.requests) == 1


def test_a_request_that_cannot_be_written_is_sent_again_a_few_times():
    def script(conn):
        conn.read_some()
        conn.reset()

    with raw_server(script) as server, engine_for(server.url) as engine:
        with pytest.raises(ConnectionClosed, match="ends every connection") as caught:
            ask(engine, body=b"x" * 30_000_000)
        assert not caught.value.sent
        assert server.connections == 4


def test_a_request_that_cannot_be_written_once_is_written_elsewhere():
    def script(conn):
        if conn.number == 1:
            conn.read_some()
            conn.reset()
        else:
            echo(conn)

    body = b'"' + b"x" * 10_000_000 + b'"'
    with raw_server(script) as server, engine_for(server.url) as engine:
        assert ask(engine, body=body).body == body
        assert server.connections == 2
        assert len(server.requests) == 1


@pytest.fixture
def broken_pipe():
    """Make the next write of an idle connection fail, in the system's own words."""

    def break_it(engine):
        def send(*_):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

        engine._idle[0]._send = send

    return break_it


def test_a_write_that_fails_is_done_elsewhere(broken_pipe):
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine, "first")
        broken_pipe(engine)
        assert ask(engine, "second").json == "second"
        assert server.connections == 2
        assert runs_of(server) == {"first": 1, "second": 1}


def test_a_write_that_fails_does_not_matter_where_there_is_an_answer(
    broken_pipe, monkeypatch
):
    whole = json_reply("unread", status=413)

    def script(conn):
        conn.send(json_reply(conn.receive().json))
        conn.wait_for(idle)
        conn.send(whole[:20])
        conn.wait_for(looked)
        conn.send(whole[20:])
        assert conn.wait_closed()

    idle, looked = threading.Event(), threading.Event()
    with raw_server(script) as server, engine_for(server.url) as engine:
        ask(engine, "first")
        broken_pipe(engine)
        idle.set()
        assert engine._idle[0]._poll(30_000)
        # As if it came between this look and the write.
        monkeypatch.setattr(connection_module.Connection, "_is_sound", lambda _: True)
        looked.set()
        answer = ask(engine, body=b"x" * 100_000)
        assert (answer.status, answer.json) == (413, "unread")
        server.wait_until(lambda: not server.open)


def test_an_answer_counts_although_the_server_closed_before_it_had_read_all():
    def script(conn):
        conn.read_some()
        conn.send(json_reply("no", status=413))

    with raw_server(script) as server, engine_for(server.url) as engine:
        answer = ask(engine, body=b"x" * 30_000_000)
        assert (answer.status, answer.json) == (413, "no")
        assert server.connections == 1


# Aborted by another thread...


@pytest.mark.timeout(180)
def test_an_abort_ends_its_own_exchange_and_no_other():
    """Two hundred times, while other threads call on."""

    def script(conn):
        while (request := conn.receive()) is not None:
            if request.json == "wait":
                conn.wait_closed()
                return
            conn.send(json_reply(request.json))

    with raw_server(script) as server, engine_for(server.url) as engine:
        stop = threading.Event()

        def call_on(thread):
            number = 0
            while not stop.is_set():
                number += 1
                assert ask(engine, [thread, number]).json == [thread, number]
            return number

        others = [Doing(lambda thread=thread: call_on(thread)) for thread in range(2)]
        try:
            for number in range(200):
                answer = Answer()
                doing = Doing(lambda answer=answer: ask(engine, "wait", answer=answer))
                if number % 2:  # or at any moment
                    server.wait_until(
                        lambda number=number: runs_of(server)["wait"] > number // 2
                    )
                while not engine.abort(answer, ABORTED):
                    assert doing.error is None
                with pytest.raises(RemoteProtocolError, match="aborted by the test"):
                    doing.result()
                assert not engine.abort(answer, ABORTED)
        finally:
            stop.set()
        assert all(other.result() for other in others)
        engine.close()
        server.wait_until(lambda: not server.open)


def test_an_abort_at_the_moment_of_the_answer_ends_one_exchange_or_none():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        outcomes = Counter()
        for number in range(100):
            answer = Answer()
            doing = Doing(lambda answer=answer, n=number: ask(engine, n, answer=answer))
            while not answer.status and doing.error is None:
                pass
            was_aborted = engine.abort(answer, ABORTED)
            try:
                assert doing.result().json == number
                outcomes["answered"] += 1
                assert not was_aborted
            except RemoteProtocolError:
                outcomes["aborted"] += 1
                assert was_aborted
            assert ask(engine, "next").json == "next"
        assert outcomes.total() == 100


def test_an_abort_within_the_last_bytes_of_an_answer_still_ends_the_exchange():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        answer = Answer(until=lambda answer: engine.abort(answer, ABORTED))
        with pytest.raises(RemoteProtocolError, match="aborted by the test"):
            ask(engine, 1, answer=answer)
        assert answer.json == 1
        assert engine._idle == []
        server.wait_until(lambda: not server.open)


def test_an_abort_while_a_request_is_about_to_be_sent_again_is_found(monkeypatch):
    def run(self, first, rest, reply, deadline):
        assert engine.abort(reply, ABORTED)
        raise connection_module.Unseen("it ended")

    monkeypatch.setattr(connection_module.Connection, "run", run)
    with raw_server(echo) as server, engine_for(server.url) as engine:
        with pytest.raises(RemoteProtocolError, match="aborted by the test"):
            ask(engine)
        assert engine._running == {}
        assert not server.requests


def test_an_abort_that_came_before_the_exchange_is_found():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        answer = Answer()
        assert not engine.abort(answer, ABORTED)
        answer.aborted = ABORTED
        with pytest.raises(RemoteProtocolError, match="aborted by the test"):
            ask(engine, answer=answer)
        assert not server.requests


def test_an_abort_ends_the_writing_of_a_large_body():
    reading = threading.Event()

    def script(conn):
        conn.wait_for(reading)

    with raw_server(script) as server, engine_for(server.url) as engine:
        answer = Answer()
        doing = Doing(lambda: ask(engine, body=b"x" * 30_000_000, answer=answer))
        server.wait_until(lambda: server.connections)
        while not engine.abort(answer, ABORTED):
            assert doing.error is None
        with pytest.raises(RemoteProtocolError, match="aborted by the test"):
            doing.result()
        reading.set()


# A forked process...


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_refuses_and_leaves_the_connections_to_its_parent():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine)
        descriptor = engine._idle[0].socket.fileno()
        number = os.fstat(descriptor).st_ino
        out, into = os.pipe()
        child = os.fork()
        if not child:
            report = b"?"
            try:
                try:
                    ask(engine)
                except LocalProtocolError:
                    report = b"refused"
                engine.close()
                try:
                    is_open = os.fstat(descriptor).st_ino == number
                except OSError:
                    is_open = False
                report += b" open" if is_open else b" closed"
            finally:
                os.write(into, report)
                os.kill(os.getpid(), signal.SIGKILL)
        os.close(into)
        os.waitpid(child, 0)
        assert os.read(out, 100) == b"refused closed"
        os.close(out)
        assert ask(engine, 2).json == 2
        assert server.connections == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_within_an_exchange_refuses_to_go_on_with_it():
    out, into = os.pipe()
    reports = []
    pids = []

    def script(conn):
        request = conn.receive()
        conn.send(head(200, content_length=1))
        reports.append(os.read(out, 100))
        conn.send(b"1")
        request = conn.receive()
        conn.send(json_reply(request.json))

    def fork(_):
        if not pids:
            pids.append(os.fork())
        return False

    with raw_server(script) as server, engine_for(server.url) as engine:
        test = os.getpid()
        report = b"answered"
        try:
            assert ask(engine, 1, answer=Answer(until=fork)).json == 1
        except LocalProtocolError:
            report = b"refused"
        finally:
            if os.getpid() != test:
                os.write(into, report)
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pids[0], 0)
        assert reports == [b"refused"]
        assert ask(engine, 2).json == 2
        assert server.connections == 1
    os.close(into)
    os.close(out)
