"""Several things at once in threads that have ended before anybody goes on."""

from __future__ import annotations

import threading
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, Protocol

from mcpwire.sync._bell import Bell

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
        while True:
            try:
                task = pending.popleft()
            except IndexError:
                return
            task()

    workers: list[_Worker] = []
    try:
        if limit > 1 and len(pending) > 1:
            _start(workers, work, min(limit, len(pending)))
        if not workers:
            work()
        _join(workers, whole)
    except BaseException:
        pending.clear()
        if whole is not None:
            whole.stop()
            _join(workers, whole)
        raise


class _Worker:
    """One thread, and when it has done its work.

    `Thread.join` is no help there: up to Python 3.12 an interrupted one takes a thread
    that goes on for one that has ended, and so does `is_alive` from then on.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.is_done = Bell()
        self.thread = threading.Thread(
            target=copy_context().run,
            args=(self._run,),
            name="mcpwire-group",
            daemon=True,
        )

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self.is_done.ring()


def _start(workers: list[_Worker], work: Callable[[], None], count: int) -> None:
    for _ in range(count):
        worker = _Worker(work)
        workers.append(worker)  # first: it is to be known whenever an interrupt comes
        try:
            worker.thread.start()
        except RuntimeError:  # there are too many, or the interpreter exits
            workers.pop()
            return


def _join(workers: list[_Worker], whole: Stoppable | None) -> None:
    for worker in workers:
        # One that an interrupt kept from starting finds nothing to do if it does.
        while worker.thread.ident is not None and not worker.is_done.wait(PROD_S):
            if whole is not None and whole.is_stopped:
                whole.stop()
        if worker.is_done.wait(0):
            worker.thread.join()
