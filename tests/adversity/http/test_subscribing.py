"""A subscription is made once the server's own stream is there to tell on."""

from __future__ import annotations

import asyncio
import time

import pytest
from faulty import (
    BOUND_S,
    HANG_S,
    QUICK,
    answering,
    client_of,
    connected,
    outcome,
    until,
)
from forgetful import LATE_S, URI, Forgetful, never_heads
from http_bytes import reply
from mcp_server import scripted_mcp

import mcpwire
from mcpwire.transports.http import streamable as channel

ENGINES = ("direct", "httpx")


@pytest.fixture
def patient(monkeypatch):
    """Let what is waited for be waited for longer than any test takes."""
    monkeypatch.setattr(channel, "STREAM_OPEN_TIMEOUT_S", 10 * BOUND_S)


# What is told at once is heard...


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_update_as_soon_as_it_is_subscribed_to_is_heard(engine):
    heard = []
    with scripted_mcp() as server:
        Forgetful(server, "resources/subscribe")
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(target) as client:
            await client.subscribe(URI)
            assert server.verbs().index("GET") < server.verbs().index(
                "resources/subscribe"
            )
        # Once more with somebody who hears it.
        options = {"on_notification": heard.append}
        async with connected(target, **options) as client:
            await client.subscribe(URI)
            await until(lambda: heard)
    assert [told.params.uri for told in heard] == [URI]


async def test_an_update_as_soon_as_it_is_listened_for_is_heard():
    with scripted_mcp() as server:
        Forgetful(server, "resources/subscribe")
        async with (
            connected(server) as client,
            client.listen([URI]) as changes,
        ):
            assert (await changes.next(BOUND_S)).params.uri == URI


async def test_an_update_as_soon_as_it_is_watched_is_read():
    with scripted_mcp() as server:
        forgetful = Forgetful(server, "resources/subscribe")
        async with (
            connected(server) as client,
            client.watch(URI) as contents,
        ):
            await anext(contents)
            forgetful.is_telling = False
            await anext(contents)
        assert server.verbs().count("resources/read") == 2


async def test_what_is_told_once_events_are_entered_is_heard():
    with scripted_mcp() as server:
        Forgetful(server, "ping")
        async with (
            connected(server) as client,
            client.events() as events,
        ):
            await client.ping()
            assert (await events.next(BOUND_S)).params.uri == URI


async def test_a_watch_reads_anew_once_the_new_session_can_tell():
    """Else what changes between that reading and the stream is never read."""
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


# ... and nobody waits for what cannot be, or for long.

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
async def test_a_server_without_a_stream_is_subscribed_to_at_once(case, engine):
    with scripted_mcp() as server:
        server.on["GET"] = VERDICTS[case]
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(target) as client:
            await client.subscribe(URI, timeout=None)
            await client.subscribe("memo://two", timeout=None)
    assert server.verbs()[:2].count("GET") == 0
    assert server.subscribed == [URI, "memo://two"]


@pytest.mark.usefixtures("patient")
async def test_a_stream_that_is_not_wanted_is_not_waited_for():
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, server_stream="never")
        async with connected(target) as client:
            await client.subscribe(URI, timeout=None)
    assert "GET" not in server.verbs()


@pytest.mark.usefixtures("patient")
async def test_a_stream_that_is_open_is_not_waited_for():
    options = {"on_notification": lambda _: None}
    async with client_of(scripted_mcp(), **options) as (server, client):
        await until(lambda: server.streams)
        await client.subscribe(URI, timeout=None)
        # Nor one that is being opened again: who listens knows of that by now.
        server.on["GET"] = never_heads
        server.close_streams()
        await until(lambda: server.verbs().count("GET") == 2)
        await client.subscribe("memo://two", timeout=None)


@pytest.mark.pain("P20")
async def test_a_stream_whose_head_never_comes_is_waited_for_once(monkeypatch):
    with scripted_mcp() as server:
        server.on["GET"] = never_heads
        async with connected(server) as client:
            started = time.monotonic()
            await client.subscribe(URI)
            assert time.monotonic() - started > channel.STREAM_OPEN_TIMEOUT_S * 0.9
            monkeypatch.setattr(channel, "STREAM_OPEN_TIMEOUT_S", HANG_S)
            for number in range(3):
                await client.subscribe(f"memo://{number}", timeout=None)


@pytest.mark.usefixtures("patient")
async def test_the_wait_leaves_a_call_half_of_its_time():
    """Others may keep the machine for that half: each attempt has more time."""
    for timeout in (1.0, 2.0, 4.0, 16.0):
        with scripted_mcp() as server:
            server.on["GET"] = never_heads
            async with connected(server) as client:
                error = await outcome(client.subscribe(URI, timeout=timeout))
        if error is None:
            break
    assert error is None
    assert server.subscribed == [URI]


@pytest.mark.usefixtures("patient")
@pytest.mark.fault("F42")
@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_subscription_that_is_given_up_as_it_waits_was_never_wanted(is_closed):
    with scripted_mcp() as server:
        server.on["GET"] = never_heads
        async with connected(server) as client:
            subscribing = asyncio.ensure_future(client.subscribe(URI, timeout=None))
            await until(lambda: "GET" in server.verbs())
            if is_closed:
                await client.aclose()
            else:
                subscribing.cancel()
            with pytest.raises(
                mcpwire.MCPError if is_closed else asyncio.CancelledError
            ):
                await subscribing
            assert not client._connection.subscriptions.has_consumers()
            if not is_closed:
                assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert "resources/subscribe" not in server.verbs()
