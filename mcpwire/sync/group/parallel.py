"""Several things at once in threads that have ended before anybody goes on."""

from __future__ import annotations

import threading
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Stoppable", "run_all"]

PROD_S: Final = 0.1
"""How often what was stopped is stopped again: it may have begun just then."""


class Stoppable(Protocol):
    """What is being done, as a whole."""

    is_stopped: bool
    """Whether all of it is to end."""

    def stop(self) -> None:
        """End what is under way; called more than once."""


def run_all(
    tasks: Iterable[Callable[[], None]], limit: int, whole: Stoppable | None = None
) -> None:
    """Do all of them, at most `limit` at once; no thread is left when this returns.

    One alone is done in the calling thread, and so is what no thread can be started
    for, as while the interpreter exits.

    Args:
        tasks: What is to be done, in this order; no task raises an `Exception`.
        limit: How many threads may do it.
        whole: What is stopped when this is interrupted, and then waited for. Without
            it an interrupt leaves what is under way to end by itself.
    """
    pending = deque(tasks)

    def work() -> None:
        while pending:
            try:
                task = pending.popleft()
            except IndexError:  # another thread took the last
                return
            task()

    threads: list[threading.Thread] = []
    try:
        if limit > 1 and len(pending) > 1:
            _start(threads, work, min(limit, len(pending)))
        if not threads:
            work()
        _join(threads, whole)
    except BaseException:
        pending.clear()
        if whole is not None:
            whole.stop()
            _join(threads, whole)
        raise


def _start(
    threads: list[threading.Thread], work: Callable[[], None], count: int
) -> None:
    for _ in range(count):
        thread = threading.Thread(
            target=copy_context().run, args=(work,), name="mcpwire-group", daemon=True
        )
        threads.append(thread)  # first: it is to be known whenever an interrupt comes
        try:
            thread.start()
        except RuntimeError:  # there are too many, or the interpreter exits
            threads.pop()
            return


def _join(threads: list[threading.Thread], whole: Stoppable | None) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(None if whole is None else PROD_S)
            if whole is not None and whole.is_stopped:
                whole.stop()
