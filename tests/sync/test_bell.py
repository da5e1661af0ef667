"""What a thread waits for that may be interrupted in the middle of it."""

import re
import sys
import threading
from pathlib import Path

import pytest

from mcpwire.sync import _bell
from mcpwire.sync._bell import Bell

BOUND_S = 30.0
MOMENTS = 200
"""More than a wait has instructions."""


def interrupted_at(number, function):
    """Call a function, interrupted before one instruction of `Bell.wait`.

    Return whether it has so many.
    """
    left = number

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != _bell.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.fault("F42")
@pytest.mark.parametrize("is_rung_before", [False, True])
def test_who_is_interrupted_while_it_waits_disturbs_nobody_who_rings(is_rung_before):
    moments = 0
    for number in range(MOMENTS):
        bell = Bell()
        if is_rung_before:
            bell.ring()
        if not interrupted_at(number, lambda bell=bell: bell.wait(0.001)):
            break
        moments += 1
        ringing = threading.Thread(target=bell.ring)
        ringing.start()
        assert bell.wait(BOUND_S), f"not heard after instruction {number}"
        ringing.join(BOUND_S)
        assert not ringing.is_alive()
        bell.ring()  # again: by whom it concerns no more
    assert 20 < moments < MOMENTS


def test_everybody_who_waits_hears_it():
    bell = Bell()
    heard = []
    threads = [
        threading.Thread(target=lambda: heard.append(bell.wait(BOUND_S)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    bell.ring()
    for thread in threads:
        thread.join(BOUND_S)
    assert heard == [True] * 3
    assert bell.wait(0)


def test_a_bell_that_does_not_ring_is_not_heard():
    assert not Bell().wait(0)
    assert not Bell().wait(-1)


def test_nothing_of_the_blocking_client_waits_for_what_an_interrupt_breaks():
    users = [
        path.name
        for path in Path(_bell.__file__).parent.rglob("*.py")
        if re.search(r"threading\.Event\(", path.read_text())
    ]
    assert users == []
