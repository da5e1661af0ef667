"""Ctrl-C for a main thread that waits for the network, from any other thread.

with interrupting() as interrupt:
    ...  # a handler, or a server's script, calls interrupt()
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOUND_S: Final = 30.0

STILL: Final = 5
"""As many looks in a row find a thread waiting before that is believed."""


@contextmanager
def interrupting() -> Iterator[Callable[[], None]]:
    """Give what interrupts the main thread as soon as it waits in its selector."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        looks = 0
        ends_at = time.monotonic() + BOUND_S
        while looks < STILL:
            assert time.monotonic() < ends_at, "it does not wait"
            waits = sys._current_frames()[main].f_code.co_name == "select"
            looks = looks + 1 if waits else 0
            time.sleep(0.002)  # between two looks; nothing tells
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
