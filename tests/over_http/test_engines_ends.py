"""All engines when a connection ends: resending, aborting and closing."""

import asyncio
import gc
import os
import socket
import stat
import threading
from collections import Counter

import pytest
from certificates import client_context, server_context
from engines import (
    ENGINES,
    RecordedResponse,
    all_closed,
    echo,
    engine_at,
    eventually,
    every_engine,
    get,
    open_engine,
    over_tls,
    post,
    until,
)
from http_bytes import chunk, head, json_reply, sse_event, sse_head
from raw_server import raw_server

from mcpwire.errors import ConnectionClosed, RequestTimeout
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.transports.http.target import Http

pytestmark = pytest.mark.unchecked_wire("the bodies are no MCP")

TCP_CORK = getattr(socket, "TCP_CORK", None)
STOP = RequestTimeout(method="test", timeout=1.0, elapsed=1.0)


def runs_of(server):
    """Count how often the server got each request."""
    return Counter(request.json for request in server.requests)


@every_engine
@pytest.mark.fault("F23", "F35")
@pytest.mark.parametrize(
    ("secure", "end"),
    [(False, "close"), (False, "reset"), (True, "close"), (True, "notify")],
)
async def test_connection_that_ended_while_idle_is_replaced(kind, secure, end):
    def script(conn):
        conn.send(json_reply(conn.receive().json))
        conn.wait_for(answered)
        if end == "reset":
            conn.reset()
        else:
            conn.close(notify=end == "notify")

    answered = threading.Event()
    options = over_tls() if secure else {}
    async with engine_at(kind, script, **options) as (server, engine):
        for number in range(5):
            assert (await engine.ask(number)).json == number
            answered.set()
            await all_closed(server)
            answered.clear()
        assert runs_of(server) == dict.fromkeys(range(5), 1)
        assert server.connections == 5


@every_engine
@pytest.mark.fault("F23")
@pytest.mark.pain("P24")
@pytest.mark.skipif(TCP_CORK is None, reason="needs FIN in the segment of the answer")
async def test_every_call_succeeds_if_the_server_closes_with_each_response(kind):
    def script(conn):
        request = conn.receive()
        conn.sock.setsockopt(socket.IPPROTO_TCP, TCP_CORK, 1)
        conn.send(json_reply(request.json))

    async with engine_at(kind, script) as (server, engine):
        assert [(await engine.ask(n)).json for n in range(60)] == [*range(60)]
        assert runs_of(server) == dict.fromkeys(range(60), 1)
        assert server.connections == 60


@every_engine
@pytest.mark.fault("F23")
@pytest.mark.pain("P24")
async def test_no_call_runs_twice_if_the_server_closes_after_each_response(kind):
    def script(conn):
        conn.send(json_reply(conn.receive().json))

    answered = []
    async with engine_at(kind, script) as (server, engine):
        for number in range(200):
            try:
                assert (await engine.ask(number)).json == number
            except ConnectionClosed as error:
                # It was written just before the end, and was acknowledged.
                assert error.sent  # noqa: PT017 - most of them raise nothing
            else:
                answered.append(number)
    assert runs_of(server) == dict.fromkeys(answered, 1)
    assert len(answered) > 100


@every_engine
@pytest.mark.fault("F21", "F23")
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize(("calls", "secure"), [(1, False), (2, False), (1, True)])
async def test_call_is_not_resent_if_the_server_dies_after_it(
    kind, resets, calls, secure
):
    """With OpenSSL an RST may look like a FIN, so it proves nothing."""

    def script(conn):
        for left in range(calls, 0, -1):
            request = conn.receive()
            if request is None:
                return
            if left > 1:
                conn.send(json_reply(request.json))
        if resets:
            conn.reset()

    options = over_tls() if secure else {}
    async with engine_at(kind, script, **options) as (server, engine):
        for number in range(calls - 1):
            assert (await engine.ask(number)).json == number
        with pytest.raises(ConnectionClosed, match="before the response") as caught:
            await engine.ask("once")
        assert caught.value.sent
        assert caught.value.target == server.url
        assert runs_of(server)["once"] == 1
        assert server.connections == 1


BEGUN = {
    "within the head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "within the body": head(200, content_length=9) + b'"abc',
    "within the chunks": head(200, transfer_encoding="chunked") + chunk(b'"abc'),
    "within the stream": sse_head() + chunk(sse_event({"a": 1})),
    "after a 1xx": head(100),
}


@every_engine
@pytest.mark.fault("F21", "F22")
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("begun", BEGUN)
async def test_truncated_response_is_an_error_and_not_resent(kind, begun, resets):
    def script(conn):
        if conn.number > 1:
            echo(conn)
            return
        conn.receive()
        conn.send(BEGUN[begun])
        if resets:
            conn.reset()

    with raw_server(script) as server:
        async with open_engine(kind, f"{server.url}?hush-hush") as engine:
            response = RecordedResponse()
            with pytest.raises(ConnectionClosed) as caught:
                await engine.ask("once", response=response)
            assert caught.value.sent
            assert "hush-hush" not in str(caught.value)
            assert not response.is_over
            assert (await engine.ask("next")).json == "next"
            assert runs_of(server) == {"once": 1, "next": 1}
            assert server.connections == 2


@every_engine
@pytest.mark.fault("F21")
async def test_server_that_closes_every_connection_unread_gets_no_request(kind):
    """A request may have been acknowledged before the end: then it is not resent."""

    def script(conn):
        conn.sock.close()

    async with engine_at(kind, script) as (server, engine):
        with pytest.raises(ConnectionClosed):
            await engine.ask("never")
        assert 1 <= server.connections <= 4
        assert not server.requests


def endless(conn):
    """Respond to `long` with an endless stream, and to other requests normally."""
    request = conn.receive()
    while request is not None and request.body != b'"long"':
        conn.send(json_reply(request.json))
        request = conn.receive()
    if request is not None:
        conn.send(sse_head())
        while True:
            conn.send(chunk(b": " + b"x" * 1000 + b"\n\n"))
            conn.wait(0.001)


@every_engine
@pytest.mark.parametrize("where", ["long", "mute"])
@pytest.mark.parametrize("how", ["cancel", "abort"])
async def test_ended_exchange_closes_only_its_connection(kind, where, how):
    def script(conn):
        if where == "long":
            endless(conn)
        elif conn.number == 1:
            conn.receive()
            conn.wait_closed()
        else:
            echo(conn)

    async with engine_at(kind, script) as (server, engine):
        response = RecordedResponse()
        task = asyncio.create_task(engine.ask(where, response=response))
        await until(server, lambda: server.requests)
        await eventually(lambda: response.chunks or where == "mute")
        assert not engine.abort(RecordedResponse(), STOP)
        assert (await engine.ask("other")).json == "other"
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert engine.abort(response, STOP)
            with pytest.raises(RequestTimeout) as caught:
                await task
            assert caught.value is STOP
        assert not engine.abort(response, STOP)
        await until(server, lambda: len(server.open) == 1)
        assert (await engine.ask("again")).json == "again"
        assert server.connections == 2


@every_engine
async def test_abort_after_the_response_finds_no_exchange(kind):
    async with engine_at(kind, echo) as (server, engine):
        response = await engine.ask("done")
        assert not engine.abort(response, STOP)
        assert (await engine.ask("again")).json == "again"
        assert server.connections == 1


@every_engine
async def test_closing_ends_running_exchanges_and_refuses_new_ones(kind):
    def script(conn):
        request = conn.receive()
        if request.json == "idle":
            conn.send(json_reply("idle"))
        conn.wait_closed()

    async with engine_at(kind, script) as (server, engine):
        slow = [asyncio.create_task(engine.ask(n)) for n in range(3)]
        await until(server, lambda: len(server.requests) == 3)
        await engine.ask("idle")
        await engine.aclose()
        for task in slow:
            with pytest.raises(ConnectionClosed) as caught:
                await task
            assert caught.value.sent
        await all_closed(server)
        response = RecordedResponse()
        with pytest.raises(ConnectionClosed, match="closed by this side") as caught:
            await engine.exchange(post("late"), response)
        assert not caught.value.sent
        await engine.aclose()
    assert server.connections == 4


@every_engine
async def test_abandoning_closes_every_connection(kind):
    async with engine_at(kind, endless) as (server, engine):
        response = RecordedResponse()
        task = asyncio.create_task(engine.ask("long", response=response))
        await eventually(lambda: response.chunks)
        await engine.ask("other")
        engine.abandon()
        with pytest.raises(ConnectionClosed):
            await task
        await all_closed(server)


@every_engine
async def test_unused_engine_opens_no_connection(kind):
    async with engine_at(kind, echo) as (server, engine):
        assert engine.bytes_sent == 0
        assert engine.target == server.url
        assert not engine.abort(RecordedResponse(), STOP)
    with pytest.raises(ConnectionClosed):
        await engine.exchange(get(), RecordedResponse())
    assert server.connections == 0


@every_engine
@pytest.mark.parametrize("secure", [False, True])
def test_engine_can_be_abandoned_after_its_loop_ended(kind, secure):
    def forget():
        engine = ENGINES[kind](Http(server.url, **client_options), DEFAULT_LIMITS)
        asyncio.run(engine.exchange(post("hi"), RecordedResponse()))
        engine.abandon()
        server.wait_until(lambda: not server.open)
        del engine
        gc.collect()

    options = {"ssl_context": server_context()} if secure else {}
    client_options = {"ssl": client_context()} if secure else {}
    with raw_server(echo, **options) as server:
        # The loop ended before the engine: asyncio warns of its own part.
        with pytest.warns(ResourceWarning, match="unclosed"):
            forget()
        assert server.connections == 1


def exit_code_of_a_fork(engine, number):
    """Call `after_fork` of an engine in a forked process; return the exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            engine.after_fork()
            code = int(stat.S_ISSOCK(os.fstat(number).st_mode))
        except OSError:
            code = 0  # the descriptor is closed
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


SOCKETS = {
    "direct": lambda engine: engine.idle[0].socket,
    "httpx": lambda engine: next(iter(engine.streams)).get_extra_info("socket"),
}


@every_engine
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_forked_process_closes_its_copies_and_the_parent_continues(kind):
    async with engine_at(kind, echo) as (server, engine):
        await engine.ask("before")
        number = SOCKETS[kind](engine).fileno()
        assert exit_code_of_a_fork(engine, number) == 0
        assert (await engine.ask("after")).json == "after"
        assert server.connections == 1
        if kind == "direct":
            assert repr(engine.engine) == f"<DirectEngine {server.url} 1 open, 1 idle>"
