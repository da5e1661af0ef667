"""The asyncio httpx engine when exchanges end early: no connection is left."""

import asyncio
import threading

import httpx
import pytest
from http2_server import AUTHORITY
from httpx_exchanges import BOUND_S, ResponseSink, forget_proxies, request_to
from raw_server import json_reply, raw_server

from mcpwire import Http
from mcpwire.errors import CallCancelled, ConnectionClosed
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.transports.http.httpx_engine import HttpxEngine


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    forget_proxies(monkeypatch)


@pytest.fixture
def trust(tmp_path):
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    return {"ca_file": tmp_path / "ca.pem"}


def engine_to(url, **options):
    return HttpxEngine(Http(url, **options), DEFAULT_LIMITS)


async def ask(engine, url, response=None):
    response = response or ResponseSink()
    async with asyncio.timeout(BOUND_S):
        await engine.exchange(request_to(Http(url)), response, None)
    return response


async def until(event):
    """Wait for a thread's event without blocking the loop."""
    assert await asyncio.to_thread(event.wait, 30)


@pytest.mark.parametrize("how", ["cancel", "abort", "close"])
async def test_exchange_ended_while_connecting_leaves_no_connection(trust, how):
    greeted, closed = threading.Event(), threading.Event()

    def script(conn):
        conn.read_some()  # the beginning of a handshake that will not go on
        greeted.set()
        if conn.wait_closed():
            closed.set()

    with raw_server(script) as server:
        url = server.url.replace("http:", "https:")
        engine = engine_to(url, **trust)
        response = ResponseSink()
        call = asyncio.ensure_future(ask(engine, url, response))
        await until(greeted)
        if how == "cancel":
            call.cancel()
        elif how == "abort":
            assert engine.abort(response, CallCancelled("tools/call"))
        else:
            await engine.aclose()
        with pytest.raises((asyncio.CancelledError, CallCancelled, ConnectionClosed)):
            await call
        await until(closed)
        await engine.aclose()
        assert not engine.abort(response, CallCancelled("tools/call"))


async def test_exchange_aborted_while_writing_leaves_no_connection():
    reading, closed = threading.Event(), threading.Event()

    def script(conn):
        conn.read_some()
        reading.set()
        conn.wait_for(closed)

    with raw_server(script) as server:
        engine = engine_to(server.url)
        response = ResponseSink()
        large = request_to(Http(server.url), b"x" * 30_000_000)
        call = asyncio.ensure_future(engine.exchange(large, response, None))
        await until(reading)
        assert engine.abort(response, CallCancelled("tools/call"))
        with pytest.raises(CallCancelled):
            await call
        await engine.aclose()
        closed.set()


async def test_cancelled_error_in_a_hook_does_not_cancel_the_caller():
    async def give_up(request):
        raise asyncio.CancelledError

    with raw_server(lambda conn: conn.wait_closed()) as server:
        async with httpx.AsyncClient(event_hooks={"request": [give_up]}) as client:
            engine = engine_to(server.url, http_client=client)
            with pytest.raises(ConnectionClosed):
                await ask(engine, server.url)
            await engine.aclose()


async def test_error_of_a_hook_is_raised_unchanged():
    async def fail(request):
        raise ZeroDivisionError

    async with httpx.AsyncClient(event_hooks={"request": [fail]}) as client:
        engine = engine_to("http://127.0.0.1:9/", http_client=client)
        with pytest.raises(ZeroDivisionError):
            await ask(engine, "http://127.0.0.1:9/")
        await engine.aclose()


async def test_users_request_continues_on_a_connection_that_the_engine_opened():
    received, may_answer = threading.Event(), threading.Event()

    def script(conn):
        while (request := conn.receive()) is not None:
            if request.target == "/theirs":
                received.set()
                conn.wait_for(may_answer)
            conn.send(json_reply({}))

    with raw_server(script) as server:
        async with httpx.AsyncClient() as client:
            engine = engine_to(server.url, http_client=client)
            await ask(engine, server.url)
            users_request = asyncio.ensure_future(client.get(f"{server.origin}/theirs"))
            await until(received)
            engine.abandon()
            may_answer.set()
            assert (await users_request).status_code == 200
            assert server.connections == 1
