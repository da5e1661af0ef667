"""What the direct asyncio engine alone promises: its proofs, its limits, its end."""

import asyncio
import socket
import threading
import tracemalloc

import pytest
from certificates import client_context, server_context
from engines import (
    Answer,
    all_closed,
    echo,
    engine_at,
    eventually,
    open_engine,
    post,
    until,
)
from http_bytes import chunk, head, json_reply, sse_event, sse_head
from raw_server import raw_server

from mcpwire.errors import ConnectionClosed, TransportError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.transports.http import direct
from mcpwire.transports.http.direct import DirectEngine
from mcpwire.transports.http.target import Http

pytestmark = pytest.mark.unchecked_wire("the bodies are no MCP")


def engine_to(server, **options):
    return open_engine("direct", server.url, **options)


# What proves that a request was not seen...


@pytest.fixture
def race(monkeypatch):
    """Let the server close between the look at an idle connection and the write."""
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
async def test_a_request_that_met_the_end_of_the_stream_may_have_run(race, secure):
    """Nothing that a program can ask for tells it apart from one that was read."""
    options = {"ssl_context": server_context()} if secure else {}
    ours = {"ssl": client_context()} if secure else {}
    with raw_server(closes_in_the_race(race), **options) as server:
        async with engine_to(server, **ours) as engine:
            assert (await engine.ask("first")).json == "first"
            with pytest.raises(ConnectionClosed, match="before the response") as caught:
                await engine.ask("second")
            assert caught.value.sent
            assert (await engine.ask("third")).json == "third"
            assert [request.json for request in server.requests] == ["first", "third"]


async def test_a_request_of_which_nothing_can_be_written_is_sent_elsewhere():
    async with engine_at("direct", echo) as (server, engine):
        await engine.ask("first")
        engine.idle[-1].socket.shutdown(socket.SHUT_WR)
        engine.idle[-1].poll = lambda _: []
        sent = engine.bytes_sent
        assert (await engine.ask("second")).json == "second"
        assert engine.bytes_sent - sent == len(server.requests[-1].raw)
        assert server.connections == 2


async def test_what_cannot_be_sent_is_tried_a_few_times_and_provably_did_not_run(
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


async def test_the_answer_counts_though_the_server_cut_us_short():
    """It answered before it had read all, and closed: our writing fails."""

    def script(conn):
        conn.read_some()
        conn.send(json_reply("too large", status=413))
        conn.sock.close()

    async with engine_at("direct", script) as (_server, engine):
        for _ in range(5):
            answer = await engine.ask(body=b"x" * 9_000_000)
            assert (answer.status, answer.json) == (413, "too large")


@pytest.mark.parametrize("error", [TransportError("by the test"), KeyError("a bug")])
async def test_what_a_reply_raises_at_the_end_of_the_stream_comes_out(error):
    def script(conn):
        conn.receive()
        conn.send(head(200) + b"abc")

    class Refusing(Answer):
        def end(self):
            raise error

    async with engine_at("direct", script) as (server, engine):
        with pytest.raises(type(error), match=str(error.args[0])):
            await engine.ask(answer=Refusing())
        await all_closed(server)


def test_without_poll_a_descriptor_is_looked_at_all_the_same(monkeypatch):
    monkeypatch.delattr(direct.select, "poll")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        look = direct._make_poll(ours.fileno())
        assert not look(0)
        theirs.send(b"x")
        assert look(0)


# Limits...


@pytest.fixture
def deaf_server():
    def script(conn):
        conn.wait_for(released)
        conn.wait_closed()

    released = threading.Event()
    with raw_server(script) as server:
        yield server
        released.set()


async def test_unread_requests_are_bounded_over_all_exchanges(deaf_server):
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
        # One alone may be of any size.
        alone = asyncio.create_task(engine.ask(body=b"x" * 24_000_000))
        await eventually(lambda: engine.blocked)
        alone.cancel()
        await asyncio.wait([alone])


async def test_requests_that_wait_for_a_connection_are_counted_too(deaf_server):
    async with engine_to(deaf_server, limits=Limits(unwritten=1000)) as engine:
        first = asyncio.create_task(engine.ask(body=b"x" * 800))
        await asyncio.sleep(0)  # a turn of the loop
        with pytest.raises(TransportError, match=r"Limits\.unwritten"):
            await engine.ask(body=b"x" * 800)
        first.cancel()
        await asyncio.wait([first])


async def test_a_large_request_is_not_copied_while_it_waits(deaf_server):
    async with engine_to(deaf_server) as engine:
        request = post(body=b"x" * 30_000_000)
        tracemalloc.start()
        try:
            task = asyncio.create_task(engine.engine.exchange(request, Answer(), None))
            await eventually(lambda: engine.blocked)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 3_000_000
        task.cancel()
        await asyncio.wait([task])


async def test_after_a_clog_has_gone_connections_are_used_again():
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


# The end...


async def test_closing_ends_a_response_that_is_only_read_to_its_end():
    def script(conn):
        conn.receive()
        conn.send(sse_head() + chunk(sse_event("answer")))
        conn.wait_closed()

    async with engine_at("direct", script) as (server, engine):
        await engine.ask(answer=Answer(until=lambda body: b"answer" in body))
        await engine.aclose()
        assert not engine.connections
        await all_closed(server)


async def test_an_abandoned_body_without_a_length_is_not_complete():
    def script(conn):
        conn.receive()
        conn.send(b"HTTP/1.1 200 OK\r\n\r\n[1")
        conn.wait_closed()

    async with engine_at("direct", script) as (_server, engine):
        answer = Answer()
        call = asyncio.create_task(engine.ask(answer=answer))
        await eventually(lambda: answer.body)
        engine.abandon()
        with pytest.raises(ConnectionClosed):
            await call
        assert not answer.has_ended


def test_an_engine_may_be_abandoned_while_its_loop_stands_still():
    with raw_server(echo) as server:
        engine = DirectEngine(Http(server.url), DEFAULT_LIMITS)
        with asyncio.Runner() as runner:
            runner.run(engine.exchange(post("hi"), Answer(), None))
            engine.abandon()
            server.wait_until(lambda: not server.open)
            assert not engine.idle
