"""A blocking client is connected, used and closed from any thread, in any order."""

import contextlib
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest
from quick import quick
from scripted import ECHO_LOOP, scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.testing import leaks


def echo():
    return scripted("handshake()\n" + ECHO_LOOP)


def silent():
    """A server that reads and never answers, so that connecting never ends."""
    return scripted("while True: recv()")


def forget(holder):
    holder.clear()
    gc.collect()


def assert_works(client):
    assert client.call_tool("x", {"text": "hi"}).text == "hi"


@pytest.fixture
def threads():
    with ThreadPoolExecutor(12) as pool:
        yield pool


def in_thread(threads, function, *args):
    return threads.submit(function, *args).result(BOUND_S)


@pytest.mark.pain("P01", "P11")
def test_one_thread_connects_another_uses_and_a_third_closes(threads):
    client = mcpwire.sync.Client(echo())
    in_thread(threads, client.connect)
    in_thread(threads, assert_works, client)
    in_thread(threads, client.close)
    client.close()
    assert not client.is_connected


@pytest.mark.pain("P01")
def test_two_clients_close_in_the_order_they_were_opened():
    first, second = mcpwire.sync.Client(echo()), mcpwire.sync.Client(echo())
    first.connect()
    second.connect()
    first.close()
    assert_works(second)
    second.close()


@pytest.mark.pain("P01")
def test_a_generator_left_open_closes_from_where_it_is_finalised():
    def session():
        with mcpwire.sync.Client(echo()) as client:
            yield client

    generator = session()
    assert_works(next(generator))
    del generator
    gc.collect()


@pytest.mark.pain("P04")
@pytest.mark.fault("F41")
def test_the_same_client_connects_again_after_closing_and_after_the_child_died():
    client = mcpwire.sync.Client(echo(), recovery=mcpwire.Recovery(restart=False))
    client.connect()
    client.close()
    client.connect()
    assert_works(client)
    os.kill(client._connection.channel.pid, 9)
    with pytest.raises(mcpwire.ConnectionClosed):
        client.call_tool("x")
    client.connect()
    assert_works(client)
    assert client.stats.connections == 3
    client.close()


@pytest.mark.fault("F41")
def test_many_threads_share_one_connecting_and_one_closing(threads):
    client = mcpwire.sync.Client(echo())
    for done in [threads.submit(client.connect) for _ in range(8)]:
        done.result(BOUND_S)
    assert client.stats.connections == 1
    assert_works(client)
    for done in [threads.submit(client.close) for _ in range(8)]:
        done.result(BOUND_S)
    assert not client.is_connected


@pytest.mark.usefixtures("last_words_are_awaited")
def test_all_who_wait_for_a_connection_get_its_failure_each_one_of_its_own(threads):
    target = scripted("recv(); time.sleep(0.2); sys.exit(3)")
    client = mcpwire.sync.Client(target, mode="session")
    failures = [
        done.exception(BOUND_S)
        for done in [threads.submit(client.connect) for _ in range(4)]
    ]
    assert {type(error) for error in failures} == {mcpwire.ConnectError}
    assert {error.exit_code for error in failures} == {3}
    assert len({id(error) for error in failures}) == 4


@pytest.mark.fault("F41")
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.05, 0.2])
def test_closing_during_connect_ends_it_with_a_typed_error(threads, delay):
    client = mcpwire.sync.Client(silent())
    connecting = [threads.submit(client.connect) for _ in range(3)]
    until(lambda: "connecting" in str(client))
    threading.Event().wait(delay)
    client.close()
    for done in connecting:
        error = done.exception(BOUND_S)
        assert type(error) is mcpwire.ConnectionClosed
        assert "closed while connecting" in str(error)
    assert not client.is_connected


@pytest.mark.fault("F41")
def test_closing_during_calls_fails_each_of_them(threads):
    all_came = threading.Event()
    client = mcpwire.sync.Client(
        scripted(
            "handshake()\n"
            "for _ in range(8): recv()\n"
            "send({'jsonrpc': '2.0', 'method': 'notifications/x'})\n"
            "while True: recv()"
        ),
        on_notification=lambda _: all_came.set(),
    )
    client.connect()
    calls = [threads.submit(client.call_tool, "x") for _ in range(8)]
    assert all_came.wait(BOUND_S)
    client.close()
    errors = [call.exception(BOUND_S) for call in calls]
    assert {type(error) for error in errors} == {mcpwire.ConnectionClosed}
    assert "closed by this side" in str(errors[0])
    assert {error.sent for error in errors} == {True}


def test_calls_before_connecting_and_after_closing_are_refused():
    client = mcpwire.sync.Client(echo())
    with pytest.raises(mcpwire.LocalProtocolError, match="`with client:`"):
        client.call_tool("x")
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        client.notify("x")
    client.close()
    with client:
        assert_works(client)
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        client.ping()


def test_connecting_honours_its_timeout_as_a_whole():
    client = mcpwire.sync.Client(silent(), connect_timeout=1.0, probe_timeout=0.1)
    started = monotonic()
    with pytest.raises(mcpwire.RequestTimeout) as caught:
        client.connect()
    assert 1.0 <= monotonic() - started < 10
    assert (caught.value.timeout, caught.value.method) == (1.0, "initialize")
    assert not client.is_connected


@pytest.mark.fault("F41")
def test_a_forgotten_client_kills_its_child_with_a_warning():
    client = mcpwire.sync.Client(echo())
    client.connect()
    pid = client._connection.channel.pid
    holder = [client]
    del client
    with pytest.warns(ResourceWarning, match="unclosed <mcpwire.sync.Client"):
        forget(holder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.fault("F41")
def test_a_forgotten_client_with_a_reader_is_collected_all_the_same():
    client = mcpwire.sync.Client(echo(), background=True, keepalive=30)
    client.connect()
    (reader, pinger) = client._connection._threads
    holder = [client]
    del client
    with pytest.warns(ResourceWarning, match="unclosed"):
        forget(holder)
    for thread in (reader, pinger):
        thread.join(BOUND_S)
        assert not thread.is_alive()


def test_a_client_whose_construction_failed_is_forgotten_in_silence():
    with pytest.raises(ValueError, match="timeout"):
        mcpwire.sync.Client(echo(), timeout=0)
    gc.collect()


def test_a_hook_that_closes_what_it_watches_ends_the_connecting():
    def hook(event, data):
        if event == "receive":
            client.close()

    client = mcpwire.sync.Client(echo(), trace=hook)
    with pytest.raises(mcpwire.MCPError):
        client.connect()
    client.close()
    assert not client.is_connected


def test_a_repr_is_one_line_that_says_target_state_and_revision(threads):
    client = mcpwire.sync.Client(echo(), recovery=mcpwire.Recovery(restart=False))
    assert repr(client).startswith("<mcpwire.sync.Client ")
    assert repr(client).endswith("not connected>")
    with client:
        assert repr(client).endswith("connected, 2025-11-25>")
        assert "\n" not in repr(client)
        os.kill(client._connection.channel.pid, 9)
        with pytest.raises(mcpwire.ConnectionClosed):
            client.call_tool("x")
        assert "lost: the server was killed by SIGKILL" in repr(client)


def test_nothing_is_left_of_connecting_and_closing_many_times():
    client = mcpwire.sync.Client(echo(), background=True)
    watch = leaks.Watch()
    for _ in range(10):
        with client:
            assert_works(client)
    assert watch.settle() == []
    assert client.stats.connections == 10


@pytest.mark.fault("F44")
def test_the_thread_that_watches_the_time_for_connecting_ends_with_connecting():
    before = set(threading.enumerate())
    for _ in range(20):
        client = mcpwire.sync.Client(quick())
        client.connect()
        until(lambda: set(threading.enumerate()) <= before)
        client.close()


def test_what_is_closed_again_and_again_by_its_own_callback_stays_closed():
    heard = threading.Event()

    def close(_):
        client.close()
        heard.set()

    target = scripted(
        "handshake()\nrecv()\nsend({'jsonrpc': '2.0', 'method':"
        " 'notifications/tools/list_changed'})\nwhile True: recv()"
    )
    client = mcpwire.sync.Client(target, on_notification=close)
    client.connect()
    with pytest.raises(mcpwire.ConnectionClosed, match="closed by this side"):
        client.call_tool("x")
    assert heard.wait(BOUND_S)
    with contextlib.suppress(mcpwire.MCPError):
        client.close()


def test_a_hook_that_closes_a_connection_in_use_ends_it_by_force():
    def hook(event, data):
        if event == "receive" and b"content" in data:
            client.close()

    client = mcpwire.sync.Client(echo(), trace=hook)
    client.connect()
    pid = client._connection.channel.pid
    client.call_tool("x")  # its answer was there already
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        client.call_tool("x")


def test_a_client_that_was_closed_as_it_was_opened_stays_closed(monkeypatch):
    """The opening is through with the handshake, and closing begins just then."""
    client = mcpwire.sync.Client(echo())
    connection = client._connection
    begin_use, is_through = connection._begin_use, threading.Event()

    def held(*what):
        is_through.set()
        until(lambda: connection._reviver._closings)
        begin_use(*what)

    monkeypatch.setattr(connection, "_begin_use", held)
    with ThreadPoolExecutor(1) as threads:
        connecting = threads.submit(client.connect)
        assert is_through.wait(BOUND_S)
        client.close()
        connecting.exception(BOUND_S)
    assert not client.is_connected
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        client.call_tool("x", {"text": "hi"})
