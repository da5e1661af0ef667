"""How the cost of a function grows with its input, in ratios, on any machine.

`calls` counts function calls exactly. The work within one C call is measured
by the CPU time of the thread at two sizes: the minimum of several attempts each, with
room between linear (8 times the time for 8 times the input) and quadratic growth (64).
"""

import gc
import sys
from time import thread_time

TIMES = 8
"""The ratio of the large input to the small one."""

ROOM = 4
"""By which factor the large input may exceed proportional cost."""

ATTEMPTS = 10
UNIT_S = 0.001
"""Shorter times count as this: clocks are coarse."""


def calls(function, *args):
    """Count the function calls that a call makes, C functions and itself included."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()  # finalisers would be counted too
    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count - 1  # without the call that ends the counting


def seconds(function, *args):
    """Return the CPU time of a call in this thread."""
    gc.disable()
    try:
        began = thread_time()
        function(*args)
        return thread_time() - began
    finally:
        gc.enable()


def grows_in_proportion(function, make, size):
    """Return whether the cost at `size` is proportional to that at an eighth of it."""
    small, large = make(size // TIMES), make(size)
    least = min(seconds(function, small) for _ in range(3))
    return any(
        seconds(function, large) < TIMES * ROOM * max(least, UNIT_S)
        for _ in range(ATTEMPTS)
    )
