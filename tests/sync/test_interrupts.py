"""Ctrl-C: the running operation is cancelled, and the client stays usable."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from child_python import finished
from echoing import command
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, echoed, signal_main, until

import mcpwire
import mcpwire.sync

NEVER_S = 3_600.0
"""Longer than the test may take."""

IN_SELECTOR_S = 0.05
"""By then the thread waits in the selector: an interrupt costs no connection."""


@pytest.mark.pain("P09")
@pytest.mark.fault("F42")
@pytest.mark.parametrize("background", [False, True])
def test_an_interrupted_call_is_cancelled_at_the_server(echo, background, interrupted):
    with mcpwire.sync.Client(echo.target, background=background) as client:
        for count in (1, 2):
            interrupted(
                lambda: client.call_tool("slow", timeout=None),
                lambda count=count: echo.slow == count,
                after=IN_SELECTOR_S,
            )
            until(lambda count=count: echo.cancelled == count)
            assert echoed(client, "here") == "here"
        assert client.stats.connections == 1


@pytest.mark.pain("P09", "P12")
@pytest.mark.parametrize("runs_loop", [True, False])
def test_an_interrupt_does_not_affect_calls_of_other_threads(
    echo, runs_loop, interrupted, threads
):
    """Whichever thread runs the loop."""

    def slow(after):
        until(lambda: echo.slow >= after)
        return client.call_tool("slow")

    with mcpwire.sync.Client(echo.target) as client:
        others = [threads.submit(slow, int(runs_loop)) for _ in range(2)]
        if not runs_loop:
            until(lambda: echo.slow == 2)
        interrupted(
            lambda: client.call_tool("slow"),
            lambda: echo.slow == 3,
            after=IN_SELECTOR_S,
        )
        until(lambda: echo.cancelled == 1)
        assert echoed(client, "here") == "here"
        assert not any(other.done() for other in others)
        assert client.stats.connections == 1
        client.close()
        errors = [other.exception(BOUND_S) for other in others]
        assert {type(error) for error in errors} == {mcpwire.ConnectionClosed}


DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
handshake()
while sys.stdin.buffer.readline(): pass
while True: time.sleep(9)
"""


@pytest.mark.parametrize("background", [False, True])
def test_a_second_interrupt_ends_a_hanging_cleanup(background, interrupted):
    """The cleanup of a cancelled connect may take any time."""
    begun, cleaning = threading.Event(), threading.Event()

    class Stubborn:
        async def open_channel(self, *_):
            try:
                begun.set()
                await asyncio.sleep(NEVER_S)
            finally:
                cleaning.set()
                await asyncio.sleep(NEVER_S)

    client = mcpwire.sync.Client(
        Stubborn(), background=background, connect_timeout=None
    )
    interrupted(client.connect, begun.is_set, cleaning.is_set)
    client.close()


@pytest.mark.fault("F42")
@pytest.mark.pain("P10")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("after", [0.0, 0.01, 0.1])
def test_an_interrupted_connect_can_be_retried(
    interrupted, after, background, tmp_path
):
    begun = tmp_path / "begun"
    silent = scripted(f"open({str(begun)!r}, 'w').close()\nwhile True: recv()")
    client = mcpwire.sync.Client(silent, background=background, connect_timeout=None)
    for _ in range(2):
        # Not during the start of the child: `Popen` itself is not safe to interrupt.
        interrupted(client.connect, begun.exists, after=after)
        begun.unlink()
        assert not client.is_connected
    client.close()


def test_an_interrupted_connect_continues_for_other_threads(
    tmp_path, interrupted, threads
):
    begun, answers = tmp_path / "begun", tmp_path / "answers"
    late = f"""
open({str(begun)!r}, "w").close()
while not os.path.exists({str(answers)!r}): time.sleep(0.01)
handshake()
"""
    client = mcpwire.sync.Client(scripted(late + ECHO_LOOP))

    def connect_too():
        until(lambda: "connecting" in str(client))
        client.connect()
        return client.call_tool("x", {"text": "hi"}).text

    other = threads.submit(connect_too)
    interrupted(client.connect, begun.exists, after=0.05)
    answers.touch()
    assert other.result(BOUND_S) == "hi"
    client.close()


def test_an_interrupted_wait_does_not_cancel_a_started_call(echo, interrupted):
    with mcpwire.sync.Client(echo.target) as client:
        call = client.start_call("slow")
        interrupted(call.result, lambda: echo.slow == 1, after=0.02)
        assert not call.done
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            call.result(BOUND_S)
        until(lambda: echo.cancelled == 1)
        assert echoed(client, "hi") == "hi"


def test_an_interrupted_close_kills_the_server(interrupted):
    limits = mcpwire.Limits(close_grace=NEVER_S, terminate_grace=NEVER_S)
    client = mcpwire.sync.Client(scripted(DEAF), limits=limits)
    client.connect()
    interrupted(client.close, after=0.1)
    assert not client.is_connected
    client.close()


@pytest.mark.parametrize("background", [False, True])
def test_an_iteration_over_events_is_interrupted_like_a_call(
    echo, interrupted, background
):
    with mcpwire.sync.Client(echo.target, background=background) as client:
        events = client.events()
        interrupted(lambda: next(events), after=0.1)
        events.close()
        assert echoed(client, "hi") == "hi"


async def abandoned(client, use, until):
    """Abandon the client as a second interrupt does, while another call waits."""
    waiting = asyncio.ensure_future(use())
    while not until():  # noqa: ASYNC110 - a file may have to change
        await asyncio.sleep(0)  # one loop iteration
    client.abandon()
    with pytest.raises(mcpwire.MCPError) as ended:
        await waiting
    return type(ended.value)


def test_abandoning_a_connecting_client_ends_its_waiters():
    async def main():
        client = mcpwire.Client(scripted("while True: recv()"))
        ended = await abandoned(
            client, client.connect, lambda: "connecting" in str(client)
        )
        assert ended is mcpwire.ConnectionClosed
        await client.aclose()

    asyncio.run(main())


def test_abandoning_a_client_ends_its_waiting_calls(echo):
    async def main():
        client = mcpwire.Client(echo.target)
        await client.connect()
        await abandoned(
            client, lambda: client.call_tool("slow"), lambda: echo.slow == 1
        )
        await client.aclose()

    asyncio.run(main())


def call_until_error(client):
    while True:
        client.call_tool("echo", {"text": "x"})


@pytest.mark.pain("P12")
@pytest.mark.parametrize("background", [False, True])
def test_a_signal_handler_may_close_the_client_at_any_time(echo, background, on_signal):
    for number in range(5):
        client = mcpwire.sync.Client(echo.target, background=background)
        client.connect()
        on_signal(lambda *_, client=client: client.close())
        thread = signal_main(after=0.002 * number)
        with pytest.raises(mcpwire.MCPError) as ended:
            call_until_error(client)
        thread.join()
        assert ended.type in {mcpwire.ConnectionClosed, mcpwire.LocalProtocolError}
        client.close()
        assert not client.is_connected


@pytest.mark.pain("P12")
def test_a_close_in_a_signal_handler_ends_calls_of_threads(echo, on_signal, threads):
    client = mcpwire.sync.Client(echo.target)
    client.connect()
    calls = [threads.submit(client.call_tool, "slow") for _ in range(2)]
    on_signal(lambda *_: client.close())
    thread = signal_main(lambda: echo.slow == 3)
    with pytest.raises(mcpwire.ConnectionClosed):
        client.call_tool("slow")
    thread.join()
    errors = [call.exception(BOUND_S) for call in calls]
    assert {type(error) for error in errors} == {mcpwire.ConnectionClosed}
    assert not client.is_connected


def test_a_signal_handler_cannot_call_the_interrupted_client(echo, on_signal):
    refused = []

    def call(*_):
        with pytest.raises(mcpwire.LocalProtocolError, match="can close the") as e:
            client.call_tool("echo", {"text": "x"})
        refused.append(e.value)

    with mcpwire.sync.Client(echo.target) as client:
        on_signal(call)
        thread = signal_main(lambda: echo.slow == 1)
        with pytest.raises(mcpwire.RequestTimeout):
            client.call_tool("slow", timeout=1.0)
        thread.join()
        assert refused
        assert echoed(client, "hi") == "hi"


INTERRUPTED = """
import mcpwire.sync
from echoing import reachable
with reachable(*sys.argv[1:]) as target, mcpwire.sync.Client(target) as client:
    try:
        client.call_tool("slow")
    except KeyboardInterrupt:
        print(client.call_tool("echo", {"text": "here"}).text)
"""


@pytest.mark.pain("P12", "P09")
def test_ctrl_c_in_a_program_cancels_its_call_at_the_server(echo):
    if echo.name == "memory":
        return  # another process cannot inspect such a server
    process = subprocess.Popen(
        command(INTERRUPTED, echo.name, echo.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: echo.slow == 1)
        state = Path(f"/proc/{process.pid}/stat")  # "S" while it waits
        until(
            lambda: state.read_text().rpartition(")")[2].split()[0] == "S"
        )  # it waits
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, "here\n", "")
    assert echo.cancelled == 1


MOMENTS = """
import json, random, signal, threading, time
import mcpwire.sync
from echoing import reachable
from mcpwire.testing.leaks import ResourceSnapshot

name, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
is_armed = False


def interrupt(*_):
    if is_armed:
        raise KeyboardInterrupt


def said(text, client):
    client.connect()  # where an interrupt in the middle of a callback closed it
    assert client.call_tool("echo", {"text": text}, timeout=20).text == text


def attempt(client, delay):
    global is_armed
    try:
        is_armed = True
        signal.setitimer(signal.ITIMER_REAL, delay)
        said("interrupted", client)
        return False
    except KeyboardInterrupt:
        return True
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def others(client, outcome, ended):
    number = 0
    while not ended.is_set():
        number += 1
        try:
            said(f"other {number}", client)
            outcome["answers"] += 1
        except mcpwire.MCPError:
            outcome["lost"] += 1


signal.signal(signal.SIGALRM, interrupt)
outcome = {"answers": 0, "lost": 0, "interrupts": 0}
watch = ResourceSnapshot()
with reachable(name, address) as target, mcpwire.sync.Client(target) as client:
    began = time.monotonic()
    for number in range(20):
        said(str(number), client)
    life = (time.monotonic() - began) / 20
    ended = threading.Event()
    thread = threading.Thread(target=others, args=(client, outcome, ended))
    while outcome["interrupts"] < count:
        if outcome["interrupts"] == count // 2 and not thread.ident:
            thread.start()  # one half of the moments without another thread
        if attempt(client, 1e-6 + random.random() * life):
            outcome["interrupts"] += 1
            life *= 1.05
        else:
            life *= 0.95  # until about as many calls are interrupted as are not
        said("after", client)
    ended.set()
    thread.join()
    outcome["connections"] = client.stats.connections
outcome["left"] = watch.settle(10)
print(json.dumps(outcome))
"""

COUNT = 40
"""Interrupts over each of five transports."""


@pytest.mark.fault("F42")
@pytest.mark.pain("P09", "P12")
def test_ctrl_c_at_any_moment_of_a_call_is_safe(echo):
    # An interrupt in the coverage tracer would leave one of its locks held.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    words = command(MOMENTS, echo.name, echo.address, str(COUNT))
    done = finished(*words, env=plain, timeout=2 * BOUND_S)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["left"] == []
    assert outcome["answers"] > 0
    # Only an interrupt during a callback costs the connection.
    assert outcome["lost"] <= outcome["connections"] - 1
