"""Servers, threads and interrupts for the blocking client."""

import signal
from concurrent.futures import ThreadPoolExecutor

import echoing
import pytest
import schema_checks
from waiting import signal_main, until

posted_messages_are_checked = schema_checks.posted_messages_are_checked


@pytest.fixture(params=echoing.TRANSPORTS)
def echo(request, tmp_path):
    with echoing.serving(request.param, tmp_path / "seen") as server:
        yield server


@pytest.fixture
def threads():
    with ThreadPoolExecutor(12) as pool:
        yield pool


def raise_interrupt(*_):
    raise KeyboardInterrupt


@pytest.fixture
def on_signal():
    """Yield a function that sets the handler of the signal of `signal_main`."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def interrupted(on_signal):
    """Return a function that calls another one and interrupts it."""

    def interrupt(function, *conditions, after=0.0):
        def work():
            function()
            until(lambda: False)  # pragma: no cover - it comes at any instruction

        on_signal(raise_interrupt)
        thread = signal_main(*conditions, after=after)
        try:
            with pytest.raises(KeyboardInterrupt):
                work()
        finally:
            on_signal(signal.SIG_IGN)
            thread.join()

    return interrupt
