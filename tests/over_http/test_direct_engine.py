"""Guarantees of the direct asyncio engine only: its pool and its timers."""

import asyncio
import contextlib
import random
import ssl
import threading
from collections import Counter

import pytest
from engines import (
    RecordedResponse,
    all_closed,
    echo,
    engine_at,
    eventually,
    over_tls,
    post,
    until,
)
from http_bytes import LAST_CHUNK, chunk, json_reply, reply, sse_event, sse_head

from mcpwire.errors import TransportError
from mcpwire.transports.http import direct

pytestmark = pytest.mark.unchecked_wire("the bodies are no MCP")

STOP = TransportError("stopped by the test")


# The pool...


async def test_most_recently_used_connection_is_used_first():
    def script(conn):
        while (request := conn.receive()) is not None:
            if request.json == "burst":
                gate.wait(30)
            conn.send(json_reply(request.connection))

    gate = threading.Barrier(3)
    async with engine_at("direct", script) as (server, engine):
        await asyncio.gather(*(engine.ask("burst") for _ in range(3)))
        assert len(engine.idle) == 3
        used = {(await engine.ask(n)).json for n in range(20)}
        assert len(used) == 1
        assert server.connections == 3


async def test_exchange_on_an_idle_connection_creates_no_task_and_no_timer():
    async with engine_at("direct", echo) as (_server, engine):
        await engine.ask("first")
        timer = engine._timer
        loop = asyncio.get_running_loop()
        started, real = [], loop.call_at

        def call_at(*args, **options):
            started.append(args)
            return real(*args, **options)

        loop.call_at = call_at
        loop.set_task_factory(lambda *args, **_: started.append(args))
        try:
            for number in range(10):
                response = RecordedResponse()
                await engine.engine.exchange(post(number), response, None)
        finally:
            loop.set_task_factory(None)
            del loop.call_at
        assert not started
        assert engine._timer is timer


@pytest.mark.fault("F35")
@pytest.mark.parametrize("field", [None, "timeout=5", "timeout=1, max=3"])
async def test_idle_connections_are_closed_by_one_timer(monkeypatch, field):
    def script(conn):
        while conn.receive() is not None:
            gate.wait(30)
            conn.send(reply(200, b"1", **({"keep_alive": field} if field else {})))

    by_us = field is None or "=5" in field
    monkeypatch.setattr(direct, "IDLE_TIMEOUT_S", 0.03 if by_us else 60.0)
    gate = threading.Barrier(4)
    async with engine_at("direct", script) as (server, engine):
        await asyncio.gather(*(engine.ask() for _ in range(4)))
        assert server.connections == 4
        await all_closed(server)
        await eventually(lambda: not engine.connections)
        assert not engine.idle
        assert engine._timer is None


@pytest.mark.usefixtures("kept_for_long")
async def test_timer_is_moved_forward_for_a_shorter_keep_alive():
    def script(conn):
        while conn.receive() is not None:
            gate.wait(30)
            conn.send(json_reply(1, **({"keep_alive": "timeout=1"} if sooner else {})))

    gate, sooner = threading.Barrier(1), False
    async with engine_at("direct", script) as (server, engine):
        await engine.ask()
        sooner, gate = True, threading.Barrier(2)
        await asyncio.gather(engine.ask(), engine.ask())
        assert server.connections == 2
        await all_closed(server)


async def test_expired_idle_connection_is_not_used_before_its_timer_runs():
    async with engine_at("direct", echo) as (server, engine):
        await engine.ask("first")
        engine.idle[0].close_at = 0.0
        assert (await engine.ask("second")).json == "second"
        assert server.connections == 2


async def test_bytes_on_an_idle_connection_close_it_at_once():
    def script(conn):
        conn.send(json_reply(conn.receive().json))
        conn.wait_for(go)
        conn.send(b"\r\n")
        conn.wait_closed()

    go = threading.Event()
    async with engine_at("direct", script) as (server, engine):
        await engine.ask("first")
        assert len(engine.idle) == 1
        go.set()
        await all_closed(server)
        assert not engine.idle


async def test_cancelling_when_the_response_arrives_keeps_connections_separate():
    def script(conn):
        while (request := conn.receive()) is not None:
            conn.wait_for(go[request.json])
            conn.send(json_reply(request.json))

    go = {name: threading.Event() for name in ("other", "first", "second")}
    async with engine_at("direct", script) as (server, engine):
        other = asyncio.create_task(engine.ask("other"))
        await until(server, lambda: len(server.requests) == 1)
        (busy,) = engine.connections
        task = asyncio.create_task(engine.ask("first"))
        await until(server, lambda: len(server.requests) == 2)
        (connection,) = engine.connections - {busy}

        def updated(count):
            connection.buffer_updated(count)
            task.cancel()  # the response is complete, and the task has not run since

        connection.transport.set_protocol(Spy(connection, updated))
        go["first"].set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(engine.idle) == 1
        connection.transport.set_protocol(connection)
        go["second"].set()
        assert (await engine.ask("second")).json == "second"
        go["other"].set()
        assert (await other).json == "other"
        assert server.connections == 2


class Spy(asyncio.BufferedProtocol):
    """A protocol that forwards to a connection, except for one method."""

    def __init__(self, connection, buffer_updated):
        self.connection = connection
        self.buffer_updated = buffer_updated

    def get_buffer(self, sizehint):
        return self.connection.get_buffer(sizehint)

    def connection_lost(self, exc):
        self.connection.connection_lost(exc)


# Random combinations...


def mixed(conn):
    """Respond as each request demands; `server.requests` records what was run."""
    with contextlib.suppress(ssl.SSLError):  # the client left
        respond_as_requested(conn)


def respond_as_requested(conn):
    while (request := conn.receive()) is not None:
        number, how = request.json
        if how == "reset":
            conn.reset()
            return
        if how == "end":
            return
        if how == "mute":
            conn.wait_closed()
            return
        if how == "stream":
            conn.send(sse_head() + chunk(sse_event(f"answer {number};")))
            conn.send(LAST_CHUNK)
        else:
            conn.send(json_reply(f"answer {number};"))
        if how == "last":
            return


HOWS = ("plain", "plain", "stream", "stream", "last", "end", "reset", "mute")


@pytest.mark.fault("F21", "F23")
@pytest.mark.pain("P24")
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_each_call_gets_its_response_or_an_error_and_runs_once(seed, secure):
    rng = random.Random(seed)
    outcomes = Counter()

    async def call(number):
        how = rng.choice(HOWS)
        response = RecordedResponse(until=lambda body: b";" in body)
        task = asyncio.create_task(engine.ask((number, how), response=response))
        end = "cancel" if how == "mute" else rng.choice(("wait", "wait", "cancel"))
        if end == "cancel":
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0)  # a turn of the loop
            if rng.random() < 0.5 or not engine.abort(response, STOP):
                task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            outcomes["cancelled"] += 1
        except TransportError as error:
            outcomes[type(error).__name__] += 1
        else:
            assert f"answer {number};".encode() in response.body
            outcomes["answered"] += 1

    async def caller(numbers):
        for number in numbers:
            await call(number)

    options = over_tls() if secure else {}
    async with engine_at("direct", mixed, **options) as (server, engine):
        callers = (caller(range(100 * n, 100 * n + 20)) for n in range(6))
        await asyncio.gather(*callers)
        assert not engine._opening
    assert not engine.connections
    assert max(Counter(r.json[0] for r in server.requests).values()) == 1
    assert outcomes["answered"] > 20
    assert outcomes.total() == 120
