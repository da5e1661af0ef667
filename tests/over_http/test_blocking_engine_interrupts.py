"""The blocking engine interrupted at any moment: nothing half-read is used again."""

import json
import signal
import socket
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from blocking_exchanges import Answer, ask, echo, engine_for
from http_bytes import LAST_CHUNK, chunk, json_reply, sse_event, sse_head
from interrupts import Interrupts
from raw_server import raw_server

from mcpwire.sync._http._connecting import _Held

HERE = Path(__file__).parent


def interrupted(engine, obj, *moments, **options):
    """Ask; return whether there are no such moments any more."""
    interrupts = Interrupts(*moments)
    try:
        with interrupts:
            answer = ask(engine, obj, timeout=None, **options)
    except KeyboardInterrupt:
        return False
    assert answer.json == obj
    return interrupts.is_through


def is_tidy(server, engine):
    """Whether the engine has no connection but those in its pool."""
    return len(server.open) == len(engine._idle) + len(engine._tails)


def test_an_interrupt_at_any_moment_costs_its_own_exchange_only():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        for moment in count(1):
            ask(engine, "before")
            is_through = interrupted(engine, ["interrupted", moment], moment)
            assert ask(engine, ["after", moment]).json == ["after", moment]
            assert engine._running == {}
            server.wait_until(lambda: is_tidy(server, engine))
            if is_through:
                break
        assert moment > 40


def test_an_interrupt_while_connecting_leaves_nothing_open():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        for moment in count(1):
            engine._close_unused()
            is_through = interrupted(engine, ["interrupted", moment], moment)
            assert ask(engine, ["after", moment]).json == ["after", moment]
            assert engine._running == {}
            server.wait_until(lambda: is_tidy(server, engine))
            if is_through:
                break
        assert moment > 100


@pytest.mark.parametrize("is_made", [False, True])
def test_a_socket_interrupted_while_it_is_made_is_closed(is_made):
    held = []
    sock = _Held(held)
    if is_made:  # as far as the system goes, and not as far as Python does
        socket.SocketType.__init__(sock, socket.AF_INET, socket.SOCK_STREAM, 0)
    assert held == [sock]
    sock.close()
    assert sock.fileno() == -1


def test_two_interrupts_in_a_row_mix_no_answers_up():
    with raw_server(echo) as server, engine_for(server.url) as engine:
        for moment in count(1):
            moments = (moment, moment + moment % 11 + 1)
            is_through = interrupted(engine, moment, *moments)
            assert ask(engine, ["after", moment]).json == ["after", moment]
            if is_through:
                break
        engine.close()
        server.wait_until(lambda: not server.open)


def test_an_interrupt_while_the_rest_of_a_stream_is_looked_for():
    def script(conn):
        while (request := conn.receive()) is not None:
            conn.send(sse_head() + chunk(sse_event(json.dumps(request.json))))
            conn.send(LAST_CHUNK)

    def is_answered(answer):
        return answer.body.endswith(b"\n\n")

    class Event(Answer):
        @property
        def json(self):
            return sse_data(self.body)

    with raw_server(script) as server, engine_for(server.url) as engine:
        for moment in count(1):
            # The first leaves a tail, which the second looks at.
            ask(engine, "before", answer=Event(is_answered))
            answer = Event(is_answered)
            is_through = interrupted(engine, moment, moment, answer=answer)
            assert ask(engine, "after", answer=Event(is_answered)).json == "after"
            assert engine._running == {}
            server.wait_until(lambda: is_tidy(server, engine))
            if is_through:
                break


def sse_data(body):
    return json.loads(body.split(b"data: ")[1])


@pytest.mark.parametrize("name", ["_poll", "_send", "_receive"])
@pytest.mark.parametrize("is_done", [False, True])
def test_an_interrupted_call_of_the_system_ends_the_connection(name, is_done):
    """Whether or not it has moved bytes already."""
    with raw_server(echo) as server, engine_for(server.url) as engine:
        ask(engine, "before")
        connection = engine._idle[0]
        real = getattr(connection, name)

        def interrupt(*args):
            if is_done:
                real(*args)
            raise KeyboardInterrupt

        setattr(connection, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            ask(engine, "interrupted")
        assert connection.socket is None
        assert ask(engine, "after").json == "after"
        assert server.connections == 2
        server.wait_until(lambda: len(server.open) == 1)


INTERRUPTED = """
import signal, sys, threading
sys.path.insert(0, sys.argv[2])
from blocking_exchanges import ask, engine_for

with engine_for(sys.argv[1]) as engine:
    ask(engine, "before")
    print("waits", flush=True)
    try:
        ask(engine, "never")
    except KeyboardInterrupt:
        print(ask(engine, "after").json, engine.connections, flush=True)
"""


def test_ctrl_c_ends_an_exchange_at_once_and_nothing_else():
    def script(conn):
        while (request := conn.receive()) is not None:
            if request.json == "never":
                assert conn.wait_closed()
                return
            conn.send(json_reply(request.json))

    with raw_server(script) as server:
        command = [sys.executable, "-c", INTERRUPTED, server.url, str(HERE)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout.readline() == "waits\n"
                server.wait_until(lambda: len(server.requests) == 2)
                child.send_signal(signal.SIGINT)
                assert child.stdout.readline() == "after 2\n"
                assert child.wait(30) == 0
            finally:
                child.kill()
