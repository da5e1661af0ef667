"""Ctrl-C: what ran is undone or taken back, at once, and the client goes on."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripted import ECHO_LOOP, PRELUDE, scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

ATTEMPTS = 10
"""A machine that runs other things may stall any of them; the promise stays."""

AT_ONCE_S = 10.0
"""In less, nothing was waited out that takes thirty seconds or more."""

LOGGING = """
handshake()
while True:
    m = recv()
    if m["method"] == "notifications/cancelled":
        print("cancelled", m["params"]["requestId"], time.monotonic(),
              file=sys.stderr, flush=True)
    elif m["method"] == "tools/call" and m["params"]["name"] != "hang":
        text(m, "here")
    elif m["method"] == "tools/call":
        print("heard", file=sys.stderr, flush=True)
"""


@contextmanager
def interrupting(after, once=lambda: True):
    """Interrupt the main thread as Ctrl-C does, some time after something is so."""

    def interrupt(*_):
        raise KeyboardInterrupt

    def run():
        until(once)
        time.sleep(after)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
        thread.join()
        until(lambda: False)  # pragma: no cover - it comes at any instruction
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def interrupted(function, after, once=lambda: True):
    """Call a function, expect it to be interrupted; return the seconds it took."""
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interrupting(after, once):
        function()
    return time.monotonic() - started - after


@pytest.mark.fault("F42")
@pytest.mark.pain("P10")
@pytest.mark.parametrize(
    "after", [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3]
)
def test_an_interrupted_connect_leaves_nothing_and_can_be_tried_again(after):
    client = mcpwire.sync.Client(scripted("while True: recv()"), background=True)
    assert interrupted(client.connect, after) < AT_ONCE_S
    assert not client.is_connected
    assert client._connection._turns.opening is None
    assert interrupted(client.connect, 0.01) < AT_ONCE_S


def test_an_interrupted_connect_is_taken_over_by_another_thread_that_waits(
    tmp_path, monkeypatch
):
    # The first server says nothing, so there is time for all that.
    body = f"""
if not os.path.exists({str(tmp_path / "again")!r}):
    open({str(tmp_path / "again")!r}, "w").close()
    while True: recv()
handshake()
"""
    client = mcpwire.sync.Client(scripted(body + ECHO_LOOP))
    outcome, waiting = [], threading.Event()
    share = client._connection._turns._share

    def shared(*args):
        waiting.set()
        share(*args)

    monkeypatch.setattr(client._connection._turns, "_share", shared)

    def connect_too():
        until(lambda: "connecting" in str(client))
        client.connect()
        outcome.append(client.call_tool("x", {"text": "hi"}).text)

    thread = threading.Thread(target=connect_too)
    thread.start()
    interrupted(client.connect, 0.1, waiting.is_set)
    thread.join(BOUND_S)
    assert outcome == ["hi"]
    client.close()


@pytest.mark.pain("P09")
def test_an_interrupted_call_is_cancelled_and_the_connection_goes_on():
    with mcpwire.sync.Client(scripted(LOGGING)) as client:
        channel, hang = client._connection.channel, lambda: client.call_tool("hang")
        assert interrupted(hang, 0.01, lambda: channel.stderr_tail) < AT_ONCE_S
        assert client.call_tool("x").text == "here"
        id = client.stats.requests - 1
        until(lambda: "cancelled" in channel.stderr_tail)
        assert channel.stderr_tail.startswith(f"heard\ncancelled {id} ")
        assert client.stats.connections == 1


def test_an_interrupted_started_call_is_cancelled_too():
    with mcpwire.sync.Client(scripted(LOGGING)) as client:
        call = client.start_call("hang")
        interrupted(call.result, 0.05)
        assert not call.done  # whoever waits is interrupted, not what runs
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            call.result(BOUND_S)
        assert client.call_tool("x").text == "here"


def test_an_interrupted_close_kills_the_server_at_once():
    target = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nhandshake()\n"
        "while sys.stdin.buffer.readline(): pass\nwhile True: time.sleep(9)"
    )
    limits = mcpwire.Limits(close_grace=60.0, terminate_grace=60.0)
    client = mcpwire.sync.Client(target, limits=limits)
    client.connect()
    pid = client._connection.channel.pid
    assert interrupted(client.close, 0.1) < AT_ONCE_S
    until(lambda: is_gone(pid))
    assert not client.is_connected
    client.close()


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_an_iteration_over_events_is_interrupted_like_a_call():
    target = scripted("handshake(capabilities={'tools': {}})\n" + ECHO_LOOP)
    with mcpwire.sync.Client(target) as client:
        events = client.events()
        assert interrupted(lambda: next(events), 0.1) < AT_ONCE_S
        events.close()
        assert client.call_tool("x", {"text": "hi"}).text == "hi"


PROGRAM = """
import sys, time
import mcpwire, mcpwire.sync
target = mcpwire.Stdio(sys.executable, ["-S", "-c", sys.argv[1]], stderr="inherit")
with mcpwire.sync.Client(target) as client:
    print("ready", flush=True)
    try:
        client.call_tool("hang", timeout=30)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic(), client.call_tool("x").text, flush=True)
"""


def interrupt_a_program():
    """Send SIGINT to a real program; return seconds until it and its server knew."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, PRELUDE + LOGGING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        assert process.stderr.readline() == "heard\n"
        time.sleep(0.05)  # no condition says that it waits for the answer
        at = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND_S)
    finally:
        process.kill()
        process.wait()
    word, program_at, answer = out.split()
    assert (word, answer, process.returncode) == ("interrupted", "here", 0)
    cancelled, _, server_at = err.split()
    assert cancelled == "cancelled"
    return float(program_at) - at, float(server_at) - at


@pytest.mark.pain("P12", "P09")
def test_ctrl_c_in_a_program_ends_its_call_here_and_on_the_server_within_100_ms():
    assert any(max(interrupt_a_program()) < 0.1 for _ in range(ATTEMPTS))


@pytest.mark.pain("P12")
def test_a_signal_handler_may_close_the_client_whatever_the_thread_is_doing():
    ended = []
    for number in range(10):
        client = mcpwire.sync.Client(scripted("handshake()\n" + ECHO_LOOP))
        client.connect()
        before = signal.signal(signal.SIGUSR1, lambda *_, client=client: client.close())
        thread = threading.Thread(target=signal_main, args=(0.002 * (number % 5),))
        thread.start()
        try:
            while True:
                client.call_tool("x")
        except mcpwire.MCPError as error:
            ended.append(type(error))
        finally:
            thread.join()
            signal.signal(signal.SIGUSR1, before)
        client.close()
        assert not client.is_connected
    assert set(ended) <= {mcpwire.ConnectionClosed, mcpwire.LocalProtocolError}


def signal_main(after):
    time.sleep(after)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
