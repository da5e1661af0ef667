"""What a server needs while it serves: entered with its first user, left with the last.

A user is a connection, or an HTTP application. The context manager runs in a task of
its own, so that it ends in the task in which it began, whoever came first and last.

Where serving is the whole work of a process, nothing that handlers left running in
threads is to keep it alive: `end_soon` before the loop ends, `leave_threads` after.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractAsyncContextManager

    EnterFn = Callable[[], AbstractAsyncContextManager[Any]]

__all__ = ["Lifespan", "end_soon", "leave_threads"]

EXIT_GRACE_S: Final = 0.3
"""How long what ignored its cancellation, or runs in a thread, may hold up the exit."""


class Lifespan:
    """Runs context managers for as long as there are users."""

    def __init__(self, *enter: EnterFn) -> None:
        self._enter = list(enter)
        self._others: list[Lifespan] = []
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[None] | None = None
        self._leave = asyncio.Event()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to begin."""
        return bool(self._enter) or any(o.is_needed for o in self._others)

    def add(self, enter: EnterFn) -> None:
        """Let a context manager begin after, and end before, those that are here."""
        self._enter.append(enter)

    def include(self, other: Lifespan) -> None:
        """Let another one begin before and end after this one."""
        self._others.append(other)

    async def start(self) -> None:
        """Begin, for one more user; returns when everything is ready.

        Raises:
            Exception: What beginning raised; the user is not counted then.
        """
        self._users += 1
        if not self.is_needed:
            return
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._leave = asyncio.Event()
            self._entered = loop.create_future()
            self._task = loop.create_task(self._run(), name="mcpwire-lifespan")
        assert self._entered is not None
        try:
            await asyncio.shield(self._entered)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Let one user go; with the last one everything ends."""
        self._users -= 1
        if self._users > 0 or self._task is None:
            return
        task, self._task = self._task, None
        self._leave.set()
        # What ends may fail; that is for the log, and nobody else waits for it.
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            task.get_loop().call_exception_handler(
                {
                    "message": "the lifespan of a server failed",
                    "exception": task.exception(),
                }
            )

    async def _run(self) -> None:
        assert self._entered is not None
        entered, leave = self._entered, self._leave
        async with AsyncExitStack() as stack:
            try:
                for other in self._others:
                    await other.start()
                    stack.push_async_callback(other.aclose)
                for enter in self._enter:
                    await stack.enter_async_context(enter())
            except Exception as error:  # noqa: BLE001 - raised in whoever starts
                entered.set_exception(error)
                entered.exception()  # they may have given up waiting
            else:
                entered.set_result(None)
                await leave.wait()


def end_soon(code: int) -> list[threading.Timer]:
    """End this process, with that exit code, if the end of the loop takes too long.

    It waits for every task and for the threads that are its own. Whoever is done with
    it in time cancels the timers that this returns.
    """
    if len(asyncio.all_tasks()) <= 1 and threading.active_count() <= 1:
        return []
    timer = threading.Timer(EXIT_GRACE_S, os._exit, (code,))
    timer.daemon = True
    timer.start()
    return [timer]


def leave_threads(known: Collection[threading.Thread], code: int) -> None:
    """End this process, with that exit code, if other threads do not end soon.

    The interpreter itself would wait for them, however long they take.

    Args:
        known: Those that are none of ours.
        code: The exit code.
    """
    deadline = time.monotonic() + EXIT_GRACE_S
    for thread in threading.enumerate():
        if not thread.daemon and thread not in known:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                os._exit(code)
