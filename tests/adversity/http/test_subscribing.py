"""A subscription is sent once the server stream is open for its updates."""

import asyncio
import time

import pytest
from faulty import (
    BOUND_S,
    ENGINES,
    HANG_S,
    QUICK,
    answering,
    client_of,
    connected,
    outcome,
    until,
)
from http_bytes import reply
from mcp_server import scripted_mcp
from server_without_events import LATE_S, URI, Forgetful, never_heads

import mcpwire
from mcpwire.transports.http import streamable as channel


@pytest.fixture
def patient(monkeypatch):
    """Make the wait for the stream longer than any test takes."""
    monkeypatch.setattr(channel, "STREAM_OPEN_TIMEOUT_S", 10 * BOUND_S)


@pytest.mark.parametrize("engine", ENGINES)
async def test_update_right_after_subscribe_is_delivered(engine):
    received = []
    with scripted_mcp() as server:
        Forgetful(server, "resources/subscribe")
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(target) as client:
            await client.subscribe(URI)
            assert server.verbs().index("GET") < server.verbs().index(
                "resources/subscribe"
            )
        # Once more with a notification callback.
        options = {"on_notification": received.append}
        async with connected(target, **options) as client:
            await client.subscribe(URI)
            await until(lambda: received)
    assert [notification.params.uri for notification in received] == [URI]


async def test_update_right_after_listen_is_delivered():
    with scripted_mcp() as server:
        Forgetful(server, "resources/subscribe")
        async with connected(server) as client, client.listen([URI]) as changes:
            assert (await changes.next(BOUND_S)).params.uri == URI


async def test_update_right_after_watch_is_read():
    with scripted_mcp() as server:
        forgetful = Forgetful(server, "resources/subscribe")
        async with connected(server) as client, client.watch(URI) as contents:
            await anext(contents)
            forgetful.is_telling = False
            await anext(contents)
        assert server.verbs().count("resources/read") == 2


async def test_update_right_after_entering_events_is_delivered():
    with scripted_mcp() as server:
        Forgetful(server, "ping")
        async with connected(server) as client, client.events() as events:
            await client.ping()
            assert (await events.next(BOUND_S)).params.uri == URI


async def test_watch_reads_again_once_the_new_session_has_a_stream():
    """Otherwise a change between that read and the open stream is never read."""
    with scripted_mcp() as server:
        forgetful = Forgetful(server, "resources/read", late_s=0.0)
        forgetful.is_telling = False
        async with (
            connected(server, recovery=QUICK) as client,
            client.watch(URI) as contents,
        ):
            await anext(contents)
            forgetful.late_s, forgetful.is_telling = LATE_S, True
            forgetful.forget_sessions()
            await anext(contents)  # of the new session; and it changes at once
            forgetful.is_telling = False
            await anext(contents)
            assert client.session_id != "session-1"


# ... and no caller waits in vain, or for long.

VERDICTS = {
    "405": answering(reply(405)),
    "503": answering(reply(503)),
    "closed": answering(b"", "close"),
    "html": answering(reply(200, b"<html>", content_type="text/html")),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.usefixtures("patient")
@pytest.mark.pain("P20")
async def test_subscribe_does_not_wait_when_the_get_fails(case, engine):
    async with client_of(on={"GET": VERDICTS[case]}, engine=engine) as (server, client):
        await client.subscribe(URI, timeout=None)
        await client.subscribe("memo://two", timeout=None)
    assert server.verbs()[:2].count("GET") == 0
    assert server.subscribed == [URI, "memo://two"]


@pytest.mark.usefixtures("patient")
async def test_subscribe_does_not_wait_for_a_disabled_stream():
    async with client_of(server_stream="never") as (server, client):
        await client.subscribe(URI, timeout=None)
    assert "GET" not in server.verbs()


@pytest.mark.usefixtures("patient")
async def test_subscribe_does_not_wait_for_an_open_stream():
    options = {"on_notification": lambda _: None}
    async with client_of(**options) as (server, client):
        await until(lambda: server.streams)
        await client.subscribe(URI, timeout=None)
        # Nor for one that is being reopened.
        server.on["GET"] = never_heads
        server.close_streams()
        await until(lambda: server.verbs().count("GET") == 2)
        await client.subscribe("memo://two", timeout=None)


@pytest.mark.pain("P20")
async def test_subscribe_waits_once_for_a_silent_stream(monkeypatch):
    async with client_of(on={"GET": never_heads}) as (_server, client):
        started = time.monotonic()
        await client.subscribe(URI)
        assert time.monotonic() - started > channel.STREAM_OPEN_TIMEOUT_S * 0.9
        monkeypatch.setattr(channel, "STREAM_OPEN_TIMEOUT_S", HANG_S)
        for number in range(3):
            await client.subscribe(f"memo://{number}", timeout=None)


@pytest.mark.usefixtures("patient")
async def test_waiting_for_the_stream_leaves_half_of_the_timeout():
    """A loaded machine may use up that half: each attempt has more time."""
    for timeout in (1.0, 2.0, 4.0, 16.0):
        async with client_of(on={"GET": never_heads}) as (server, client):
            error = await outcome(client.subscribe(URI, timeout=timeout))
        if error is None:
            break
    assert error is None
    assert server.subscribed == [URI]


@pytest.mark.usefixtures("patient")
@pytest.mark.fault("F42")
@pytest.mark.parametrize("is_closed", [False, True])
async def test_subscribe_abandoned_while_waiting_sends_no_request(is_closed):
    async with client_of(on={"GET": never_heads}) as (server, client):
        subscribing = asyncio.ensure_future(client.subscribe(URI, timeout=None))
        await until(lambda: "GET" in server.verbs())
        if is_closed:
            await client.aclose()
        else:
            subscribing.cancel()
        with pytest.raises(mcpwire.MCPError if is_closed else asyncio.CancelledError):
            await subscribing
        assert client.subscribed == frozenset()
        if not is_closed:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert "resources/subscribe" not in server.verbs()
