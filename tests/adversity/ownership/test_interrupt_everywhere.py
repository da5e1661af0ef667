"""Ctrl-C at each moment of the blocking client's work leaks and blocks nothing.

An interrupt arrives where the interpreter checks for one: when a Python function starts
and when one of C has returned, so that what it returned may be lost. Moments are
counted, not timed. Lines that start or reap a process are excluded: between two of
their byte codes there is no guarantee.
"""

import gc
import sys
import threading

import pytest
from shell_server import quick

import mcpwire
import mcpwire.sync
from mcpwire.testing.leaks import ResourceSnapshot

pytestmark = [
    pytest.mark.fault("F42"),
    pytest.mark.pain("P10", "P12"),
    # A call was interrupted before its loop got it, or a loop during its close.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

BOUND_S = 30.0


class Interrupt:
    """Raises at the n-th moment in the library.

    Attributes:
        at: The place of that moment; ``None`` if there were fewer moments.
    """

    def __init__(self, moment, kind):
        self._left = moment
        self._kind = kind
        self.at = None

    def _look(self, frame, event, arg):
        file = frame.f_code.co_filename
        is_closing = "asyncio" in file and "close" in frame.f_code.co_name
        if event != self._kind or not ("/mcpwire/" in file or is_closing):
            return
        self._left -= 1
        if self._left == 0:
            self.at = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise KeyboardInterrupt

    def run(self, function):
        """Return whether the function was interrupted."""
        gc.disable()  # finalisers of earlier clients must not count
        sys.setprofile(self._look)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
            gc.enable()
        return False


def within_bound(function):
    """Run a function in a thread, and fail if it does not end."""
    errors = []

    def run():
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(BOUND_S)
    assert not thread.is_alive(), "a caller waits forever"
    if errors:
        raise errors[0]


def call(client):
    assert client.call_tool("x").text


def listing(client):
    assert len(client.list_tools()) == 3


def close(client):
    client.close()


def interrupted_at(moment, kind, operate):
    """Run the operation once; return whether it had such a moment."""
    snapshot = ResourceSnapshot()
    client = mcpwire.sync.Client(quick())
    client.connect()
    interrupt = Interrupt(moment, kind)
    was_interrupted = interrupt.run(lambda: operate(client))
    assert was_interrupted == (interrupt.at is not None), interrupt.at

    def use_and_close():
        client.connect()  # an interrupt in a callback has closed it
        assert client.call_tool("x", timeout=2 * BOUND_S).text
        client.close()

    try:
        within_bound(use_and_close)
    except BaseException as error:
        error.add_note(f"after an interrupt in {interrupt.at}")
        raise
    client = None
    if snapshot.find_leaks():
        gc.collect()
        assert snapshot.settle() == [], interrupt.at
    return interrupt.at is not None


@pytest.mark.parametrize(
    ("operate", "kind", "step", "minimum"),
    [
        (call, "call", 1, 15),
        (call, "c_return", 1, 15),
        (listing, "call", 7, 30),
        (listing, "c_return", 7, 30),
        (close, "call", 1, 30),
    ],
)
def test_interrupt_at_any_moment_leaks_and_blocks_nothing(operate, kind, step, minimum):
    moment = 1
    while interrupted_at(moment, kind, operate):
        moment += step
    assert moment >= minimum
