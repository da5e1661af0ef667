"""How the cost of a function grows with its input, in ratios: no machine is too slow.

`calls` counts what Python runs, exactly. What happens within one call of C is measured,
by the CPU time of the thread at two sizes: the least of several attempts each, with
room between what is linear (8 times the time for 8 times the input) and a square (64).
"""

import gc
import sys
from time import thread_time

TIMES = 8
"""How much larger the large input is."""

ROOM = 4
"""How much more than in proportion the large input may cost."""

ATTEMPTS = 10
UNIT_S = 0.001
"""What is quicker than this counts as this: clocks are coarse."""


def calls(function, *args):
    """Count the functions that a call runs, those in C and itself included."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()  # what it finalises would be counted too
    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count - 1  # the end of the counting


def seconds(function, *args):
    """Return the CPU time that a call takes of this thread."""
    gc.disable()
    try:
        began = thread_time()
        function(*args)
        return thread_time() - began
    finally:
        gc.enable()


def grows_in_proportion(function, make, size):
    """Tell whether input of `size` costs in proportion to an eighth of it."""
    small, large = make(size // TIMES), make(size)
    least = min(seconds(function, small) for _ in range(3))
    return any(
        seconds(function, large) < TIMES * ROOM * max(least, UNIT_S)
        for _ in range(ATTEMPTS)
    )
