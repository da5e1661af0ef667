"""A blocking client subscribes once the server's own stream is there to tell on."""

import contextlib
import itertools
import signal
import threading
import time

import pytest
from forgetful import URI, Forgetful, never_heads
from interrupts import Interrupts
from mcp_server import scripted_mcp
from running import Running, ours
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.sync._made import http_going_on
from mcpwire.sync._shell.shared import Filter, Interests

# What is told at once is heard...


def test_an_update_as_soon_as_it_is_listened_for_is_heard():
    with scripted_mcp() as server:
        Forgetful(server, "resources/subscribe")
        with (
            mcpwire.sync.Client(server.url) as client,
            client.listen([URI]) as changes,
        ):
            assert changes.next(BOUND_S).params.uri == URI


def test_an_update_as_soon_as_it_is_watched_is_read():
    with scripted_mcp() as server:
        forgetful = Forgetful(server, "resources/subscribe")
        with mcpwire.sync.Client(server.url) as client, client.watch(URI) as contents:
            next(contents)
            forgetful.is_telling = False
            Running(next, contents).result()
    assert server.verbs().count("resources/read") == 2


def test_what_is_told_once_events_are_entered_is_heard():
    with scripted_mcp() as server:
        Forgetful(server, "ping")
        with mcpwire.sync.Client(server.url) as client, client.events() as events:
            client.ping()
            assert events.next(BOUND_S).params.uri == URI


# ... and who waits for it can be interrupted.


@pytest.fixture
def interrupts_main():
    """Give a function that interrupts the main thread once a condition holds."""

    def interrupt(*_):
        raise KeyboardInterrupt

    def interrupts(condition):
        def run():
            until(condition)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

        return Running(run)

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield interrupts
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.fault("F42")
@pytest.mark.pain("P12")
def test_ctrl_c_ends_the_wait_and_nothing_was_wanted(interrupts_main, monkeypatch):
    monkeypatch.setattr(http_going_on, "OPENING_S", 10 * BOUND_S)
    with scripted_mcp() as server:
        server.on["GET"] = never_heads
        with mcpwire.sync.Client(server.url) as client:
            waiting = interrupts_main(lambda: "GET" in server.verbs())
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                client.subscribe(URI, timeout=None)
            assert time.monotonic() - started < BOUND_S / 3
            waiting.result()
            assert not client._connection.is_needed()
            assert client.call_tool("echo", {"text": "x"}).text == "x"
    assert "resources/subscribe" not in server.verbs()


@pytest.mark.pain("P12")
def test_threads_that_subscribe_at_once_wait_together():
    with scripted_mcp() as server:
        Forgetful(server, "resources/subscribe")
        with mcpwire.sync.Client(server.url) as client:
            uris = [f"memo://{number}" for number in range(8)]
            for running in [Running(client.subscribe, uri) for uri in uris]:
                running.result()
    verbs = server.verbs()
    assert verbs.count("GET") == 1
    assert sorted(server.subscribed) == uris
    assert verbs.index("GET") < verbs.index("resources/subscribe")


@pytest.mark.fault("F42")
@pytest.mark.pain("P12")
def test_a_subscribe_in_a_session_may_be_interrupted_at_any_moment():
    with scripted_mcp() as server:

        def subscribing(*moments):
            client = mcpwire.sync.Client(server.url)
            client.connect()
            interrupts = Interrupts(*moments)
            try:
                with interrupts:
                    client.subscribe(URI, timeout=BOUND_S)
            except KeyboardInterrupt:
                assert moments
            if client._subscriptions.interests.current.uris:
                client.unsubscribe(URI, timeout=BOUND_S)
            with client.listen(["memo://two"], timeout=BOUND_S) as changes:
                assert changes.acknowledged.uris == {"memo://two"}
            client.close()
            until(lambda: not ours())
            return interrupts.passed

        server.on["resources/unsubscribe"] = forgiving
        every = subscribing(10**9)
        for moment in range(1, every, max(every // 30, 1)):
            subscribing(moment)


def forgiving(request, conn):
    """Let go also of what an interrupt kept from being subscribed to."""
    from http_bytes import json_reply

    conn.send(json_reply({"jsonrpc": "2.0", "id": request.json["id"], "result": {}}))
    return True


@pytest.mark.fault("F42")
@pytest.mark.parametrize("verb", ["add", "remove"])
def test_a_want_that_is_interrupted_is_there_or_it_is_not(verb):
    """Never counted and not told, or the other way round."""
    wanted = Filter(tools=True, uris=frozenset([URI]))
    for moment in itertools.count(1):
        interests = Interests()
        if verb == "remove":
            interests.add(wanted)
        with contextlib.suppress(KeyboardInterrupt), Interrupts(moment) as interrupts:
            getattr(interests, verb)(wanted)
        assert interests.current in (wanted, Filter())
        if interests.current:
            interests.remove(wanted)
        assert not interests.current
        with pytest.raises(ValueError, match="nobody wants"):
            interests.remove(wanted)
        if interrupts.is_through:
            break
    assert moment > 10
