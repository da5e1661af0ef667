"""Cores of a blocking client and its server.

Standard library only, because it runs in every client's environment.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CORES = sorted(getattr(os, "sched_getaffinity", lambda _: range(1))(0))
PLACEMENTS = {"apart": (0, 1), "together": (0, 0)}
"""The cores of client and server; with any other placement the kernel chooses.

The kernel's choice can last for the whole run, and decides whether waiting in a system
call takes ten times as long.
"""


def pin_process(pid: int, placement: str, side: int) -> None:
    """Pin a process to its core; 0 is this thread and the threads it will start."""
    if placement in PLACEMENTS and len(CORES) > 1:
        core = CORES[PLACEMENTS[placement][side]]
        os.sched_setaffinity(pid, {core})


def pin_cores(server: int, placement: str) -> None:
    """Pin this thread, with the threads it will start, and a server to their cores."""
    pin_process(0, placement, 0)
    pin_process(server, placement, 1)


@contextmanager
def start_on_server_core(placement: str) -> Iterator[None]:
    """Pin this thread to the server's core within the block, then to its own."""
    pin_process(0, placement, 1)
    yield
    pin_process(0, placement, 0)
