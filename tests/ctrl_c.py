"""Sends Ctrl-C from any thread while the main thread waits for the network.

with interrupting() as interrupt:
    ...  # a handler or a server's script calls interrupt()
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

BOUND_S: Final = 30.0

STILL: Final = 5
"""How many consecutive checks must find the thread waiting."""


@contextmanager
def interrupting() -> Iterator[Callable[[], None]]:
    """Yield a function that interrupts the main thread when it waits for I/O."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        checks = 0
        ends_at = time.monotonic() + BOUND_S
        while checks < STILL:
            assert time.monotonic() < ends_at, "it does not wait"
            waits = sys._current_frames()[main].f_code.co_name == "select"
            checks = checks + 1 if waits else 0
            time.sleep(0.002)  # between two checks; there is no event
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
