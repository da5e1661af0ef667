"""Guarantees of the direct engine only: pool, timers, resending, limits and closing."""

import asyncio
import contextlib
import random
import socket
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
    open_engine,
    over_tls,
    post,
    until,
)
from http_bytes import LAST_CHUNK, chunk, head, json_reply, reply, sse_event, sse_head
from raw_server import raw_server
from traced_memory import traced_memory

from mcpwire.errors import ConnectionClosed, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.transports.http import direct
from mcpwire.transports.http.direct import DirectEngine
from mcpwire.transports.http.target import Http

pytestmark = pytest.mark.unchecked_wire("the bodies are no MCP")

STOP = TransportError("stopped by the test")


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
                await engine.engine.exchange(post(number), response)
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
                await asyncio.sleep(0)  # one loop iteration
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


def engine_to(server, **options):
    return open_engine("direct", server.url, **options)


# Proofs that a request was not received...


@pytest.fixture
def race(monkeypatch):
    """Make the server close between the check of an idle connection and the write."""
    closing, closed = threading.Event(), threading.Event()

    def poller(fd):
        def poll(timeout):
            found = real(timeout)
            closing.set()
            assert closed.wait(30)
            return found

        real = poller_of(fd)
        return poll

    poller_of = direct._make_poll
    monkeypatch.setattr(direct, "_make_poll", poller)
    return closing, closed


def closes_in_the_race(race):
    closing, closed = race

    def script(conn):
        if conn.number > 1:
            return echo(conn)
        conn.send(json_reply(conn.receive().json))
        conn.wait_for(closing)
        conn.close()
        return closed.set()

    return script


@pytest.mark.fault("F23")
@pytest.mark.parametrize("secure", [False, True])
async def test_request_written_as_the_stream_ended_may_have_run(race, secure):
    """No system call distinguishes it from a request that was read."""
    script, options = closes_in_the_race(race), over_tls() if secure else {}
    async with engine_at("direct", script, **options) as (server, engine):
        assert (await engine.ask("first")).json == "first"
        with pytest.raises(ConnectionClosed, match="before the response") as caught:
            await engine.ask("second")
        assert caught.value.sent
        assert (await engine.ask("third")).json == "third"
        assert [request.json for request in server.requests] == ["first", "third"]


async def test_request_that_cannot_be_written_uses_another_connection():
    async with engine_at("direct", echo) as (server, engine):
        await engine.ask("first")
        engine.idle[-1].socket.shutdown(socket.SHUT_WR)
        engine.idle[-1].poll = lambda _: []
        sent = engine.bytes_sent
        assert (await engine.ask("second")).json == "second"
        assert engine.bytes_sent - sent == len(server.requests[-1].raw)
        assert server.connections == 2


async def test_unsendable_request_is_retried_a_few_times_and_reported_unsent(
    monkeypatch,
):
    def made(self, transport):
        made_connections.append(self)
        real(self, transport)
        self.socket.shutdown(socket.SHUT_WR)

    made_connections = []
    real = direct.Connection.connection_made
    monkeypatch.setattr(direct.Connection, "connection_made", made)
    async with engine_at("direct", echo) as (server, engine):
        with pytest.raises(ConnectionClosed) as caught:
            await engine.ask("never")
        assert not caught.value.sent
        assert len(made_connections) == len(direct.ATTEMPTS)
        assert not server.requests


async def test_response_is_used_although_the_server_stopped_reading():
    """The server responded before it had read all, and closed: our write fails."""

    def script(conn):
        conn.read_some()
        conn.send(json_reply("too large", status=413))
        conn.sock.close()

    async with engine_at("direct", script) as (_server, engine):
        for _ in range(5):
            response = await engine.ask(body=b"x" * 9_000_000)
            assert (response.status, response.json) == (413, "too large")


@pytest.mark.parametrize("error", [TransportError("by the test"), KeyError("a bug")])
async def test_error_of_a_reply_at_the_end_of_the_stream_is_raised(error):
    def script(conn):
        conn.receive()
        conn.send(head(200) + b"abc")

    class Refusing(RecordedResponse):
        def end(self):
            raise error

    async with engine_at("direct", script) as (server, engine):
        with pytest.raises(type(error), match=str(error.args[0])):
            await engine.ask(response=Refusing())
        await all_closed(server)


def test_readable_descriptor_is_detected_without_select_poll(monkeypatch):
    monkeypatch.delattr(direct.select, "poll")
    own, peer = socket.socketpair()
    with own, peer:
        poll = direct._make_poll(own.fileno())
        assert not poll(0)
        peer.send(b"x")
        assert poll(0)


@pytest.fixture
def deaf_server():
    def script(conn):
        conn.wait_for(released)
        conn.wait_closed()

    released = threading.Event()
    with raw_server(script) as server:
        yield server
        released.set()


async def test_unwritten_requests_are_bounded_over_all_exchanges(deaf_server):
    limits = Limits(unwritten=20_000_000)
    async with engine_to(deaf_server, limits=limits) as engine:
        body = b"x" * 16_000_000
        slow = asyncio.create_task(engine.ask(body=body))
        await eventually(lambda: engine.blocked)
        with pytest.raises(TransportError, match=r"Limits.unwritten is 20000000"):
            await engine.ask(body=body)
        small = asyncio.create_task(engine.ask("small"))
        await until(deaf_server, lambda: deaf_server.connections == 2)
        for task in (slow, small):
            task.cancel()
        await asyncio.wait([slow, small])
        await eventually(lambda: not engine.blocked)
        # A single request may have any size.
        alone = asyncio.create_task(engine.ask(body=b"x" * 24_000_000))
        await eventually(lambda: engine.blocked)
        alone.cancel()
        await asyncio.wait([alone])


async def test_requests_waiting_for_a_connection_count_as_unwritten(deaf_server):
    async with engine_to(deaf_server, limits=Limits(unwritten=1000)) as engine:
        first = asyncio.create_task(engine.ask(body=b"x" * 800))
        await asyncio.sleep(0)  # one loop iteration
        with pytest.raises(TransportError, match=r"Limits\.unwritten"):
            await engine.ask(body=b"x" * 800)
        first.cancel()
        await asyncio.wait([first])


async def test_waiting_large_request_is_not_copied(deaf_server):
    async with engine_to(deaf_server) as engine:
        request = post(body=b"x" * 30_000_000)
        with traced_memory() as memory:
            task = asyncio.create_task(
                engine.engine.exchange(request, RecordedResponse())
            )
            await eventually(lambda: engine.blocked)
        assert memory.peak < 3_000_000
        task.cancel()
        await asyncio.wait([task])


async def test_connection_is_reused_after_blocked_writing():
    def script(conn):
        conn.wait_for(released)
        echo(conn)

    released = threading.Event()
    async with engine_at("direct", script) as (server, engine):
        body = b'"' + b"x" * 8_000_000 + b'"'
        task = asyncio.create_task(engine.ask(body=body))
        await eventually(lambda: engine.blocked)
        assert 0 < engine.bytes_sent < len(body)
        released.set()
        assert len((await task).body) == len(body)
        assert (await engine.ask("next")).json == "next"
        assert not engine.blocked
        assert engine.bytes_sent == sum(len(r.raw) for r in server.requests)
        assert server.connections == 1


async def test_closing_ends_a_response_whose_rest_is_being_read():
    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(sse_event("answer")))
        conn.wait_closed()

    async with engine_at("direct", script) as (server, engine):
        await engine.ask(
            response=RecordedResponse(until=lambda body: b"answer" in body)
        )
        await engine.aclose()
        assert not engine.connections
        await all_closed(server)


async def test_abandoned_body_without_a_length_is_incomplete():
    def script(conn):
        conn.receive()
        conn.send(b"HTTP/1.1 200 OK\r\n\r\n[1")
        conn.wait_closed()

    async with engine_at("direct", script) as (_server, engine):
        response = RecordedResponse()
        call = asyncio.create_task(engine.ask(response=response))
        await eventually(lambda: response.body)
        engine.abandon()
        with pytest.raises(ConnectionClosed):
            await call
        assert not response.has_ended


def test_engine_can_be_abandoned_while_its_loop_is_not_running():
    with raw_server(echo) as server:
        engine = DirectEngine(Http(server.url), DEFAULT_LIMITS)
        with asyncio.Runner() as runner:
            runner.run(engine.exchange(post("hi"), RecordedResponse()))
            engine.abandon()
            server.wait_until(lambda: not server.open)
            assert not engine.idle
