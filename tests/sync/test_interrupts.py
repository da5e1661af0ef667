"""Ctrl-C: what ran is undone or taken back, at once, and the client goes on."""

import asyncio
import signal
import threading
import time

import pytest
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

AT_ONCE_S = 10.0
"""In less, nothing was waited out that takes thirty seconds or more."""


def raise_interrupt(*_):
    """Do what Python does with Ctrl-C."""
    raise KeyboardInterrupt


@pytest.fixture
def on_signal():
    """Give what sets the handler of the signal that `signal_main` sends."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


def signal_main(*conditions, after=0.0):
    """Signal the main thread once something is so, and again for each condition."""

    def run():
        for condition in conditions or (lambda: True,):
            until(condition)
            time.sleep(after)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.fixture
def interrupted(on_signal):
    """Give what calls a function, interrupts it, and returns the seconds it took."""

    def interrupt(function, *conditions, after=0.0):
        started = time.monotonic()
        on_signal(raise_interrupt)
        thread = signal_main(*conditions, after=after)
        try:
            with pytest.raises(KeyboardInterrupt):
                function()
                until(lambda: False)  # pragma: no cover - it comes at any instruction
        finally:
            on_signal(signal.SIG_IGN)
            thread.join()
        return time.monotonic() - started - after

    return interrupt


@pytest.mark.pain("P09")
@pytest.mark.fault("F42")
@pytest.mark.parametrize("background", [False, True])
def test_an_interrupted_call_is_cancelled_at_the_server_and_the_client_goes_on(
    echo, background, interrupted
):
    with mcpwire.sync.Client(echo.target, background=background) as client:
        for count in (1, 2):
            took = interrupted(
                lambda: client.call_tool("slow"), lambda count=count: echo.slow == count
            )
            assert took < AT_ONCE_S
            until(lambda count=count: echo.cancelled == count)
            assert client.call_tool("echo", {"text": "here"}).text == "here"
        assert client.stats.connections == 1


@pytest.mark.pain("P09", "P12")
def test_an_interrupt_in_one_thread_leaves_the_calls_of_others_alone(
    echo, interrupted, threads
):
    """Whichever of them runs the loop."""
    with mcpwire.sync.Client(echo.target) as client:
        stopped = threading.Event()

        def calls():
            count = 0
            while not stopped.is_set():
                said = str(count)
                assert client.call_tool("echo", {"text": said}).text == said
                count += 1
            return count

        running = [threads.submit(calls) for _ in range(2)]
        for count in range(1, 6):
            interrupted(
                lambda: client.call_tool("slow"), lambda count=count: echo.slow == count
            )
        stopped.set()
        assert all(each.result(BOUND_S) for each in running)
        until(lambda: echo.cancelled == 5)
        assert client.stats.connections == 1


def test_a_call_in_a_thread_that_does_not_run_the_loop_is_interrupted_too(
    echo, interrupted, threads
):
    with mcpwire.sync.Client(echo.target) as client:
        first = threads.submit(client.call_tool, "slow")
        until(lambda: echo.slow == 1)
        interrupted(lambda: client.call_tool("slow"), lambda: echo.slow == 2)
        until(lambda: echo.cancelled == 1)
        assert not first.done()
        client.close()
        assert type(first.exception(BOUND_S)) is mcpwire.ConnectionClosed


DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
handshake()
while sys.stdin.buffer.readline(): pass
while True: time.sleep(9)
"""


@pytest.mark.parametrize("background", [False, True])
def test_the_second_interrupt_ends_what_goes_on_after_the_first(
    background, interrupted
):
    """What is cancelled may clean up for as long as it likes."""
    begun, cleaning = threading.Event(), threading.Event()

    class Stubborn(FakeServer):
        async def open_in_memory(self, *_):
            try:
                begun.set()
                await asyncio.sleep(60)
            finally:
                cleaning.set()
                await asyncio.sleep(60)

    client = mcpwire.sync.Client(Stubborn(), background=background)
    took = interrupted(client.connect, begun.is_set, cleaning.is_set)
    assert took < AT_ONCE_S
    client.close()


@pytest.mark.fault("F42")
@pytest.mark.pain("P10")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("after", [0.0, 0.002, 0.01, 0.05, 0.3])
def test_an_interrupted_connect_leaves_nothing_and_can_be_tried_again(
    interrupted, after, background
):
    client = mcpwire.sync.Client(scripted("while True: recv()"), background=background)
    for _ in range(2):
        assert interrupted(client.connect, after=after) < AT_ONCE_S
        assert not client.is_connected
    client.close()


def test_an_interrupted_connect_is_taken_over_by_another_thread_that_waits(
    tmp_path, interrupted, threads
):
    # The first server says nothing, so there is time for all that.
    body = f"""
if not os.path.exists({str(tmp_path / "again")!r}):
    open({str(tmp_path / "again")!r}, "w").close()
    while True: recv()
handshake()
"""
    client = mcpwire.sync.Client(scripted(body + ECHO_LOOP))

    def connect_too():
        until(lambda: "connecting" in str(client))
        client.connect()
        return client.call_tool("x", {"text": "hi"}).text

    other = threads.submit(connect_too)
    interrupted(client.connect, (tmp_path / "again").exists, after=0.1)
    assert other.result(BOUND_S) == "hi"
    client.close()


def test_whoever_waits_for_a_started_call_is_interrupted_and_not_the_call(
    echo, interrupted
):
    with mcpwire.sync.Client(echo.target) as client:
        call = client.start_call("slow")
        interrupted(call.result, lambda: echo.slow == 1, after=0.02)
        assert not call.done
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            call.result(BOUND_S)
        until(lambda: echo.cancelled == 1)
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"


def test_an_interrupted_close_kills_the_server_at_once(interrupted):
    limits = mcpwire.Limits(close_grace=60.0, terminate_grace=60.0)
    client = mcpwire.sync.Client(scripted(DEAF), limits=limits)
    client.connect()
    assert interrupted(client.close, after=0.1) < AT_ONCE_S
    assert not client.is_connected
    client.close()


@pytest.mark.parametrize("background", [False, True])
def test_an_iteration_over_events_is_interrupted_like_a_call(
    echo, interrupted, background
):
    with mcpwire.sync.Client(echo.target, background=background) as client:
        events = client.events()
        assert interrupted(lambda: next(events), after=0.1) < AT_ONCE_S
        events.close()
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"
