"""Waiting in tests of threads: for a condition, never longer than a bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BOUND_S: Final = 30.0
POLL_S: Final = 0.002


def until(condition: Callable[[], object]) -> None:
    """Wait until something is true; fail where it does not become so."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(POLL_S)
