"""What a server needs while it serves: entered with its first user, left with the last.

A user is a connection, or an HTTP application. The context manager runs in a task of
its own, so that it ends in the task in which it began, whatever users come and go.

Where serving is the whole work of a process, nothing that handlers left running in
threads is to keep it alive: `end_soon` before the loop ends, `leave_threads` after.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.notifications import call_soon
from mcpwire.transports.base import wait_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from contextlib import AbstractAsyncContextManager

    EnterFn = Callable[[], AbstractAsyncContextManager[Any]]
    _Future = concurrent.futures.Future[None]

__all__ = ["Lifespan", "end_soon", "leave_threads", "refuse_running_loop"]

EXIT_GRACE_S: Final = 0.3
"""How long what ignored its cancellation, or runs in a thread, may hold up the exit."""


class Lifespan:
    """Runs context managers for as long as there are users."""

    def __init__(self) -> None:
        self._enter: list[EnterFn] = []
        self._others: list[Lifespan] = []
        self._users = 0
        self._lock = threading.Lock()
        self._run: _Run | None = None
        self._included_in: list[Lifespan] = []
        # Each request asks for it.
        self.is_needed = False

    def add(self, enter: EnterFn) -> None:
        """Let a context manager begin after, and end before, those that are here."""
        self._enter.append(enter)
        self.need()

    def include(self, other: Lifespan) -> None:
        """Let another one begin before and end after this one."""
        self._others.append(other)
        other._included_in.append(self)
        if other.is_needed:
            self.need()

    def need(self) -> None:
        """Take note that there is something to begin, here and in what includes it."""
        if not self.is_needed:
            self.is_needed = True
            for outer in self._included_in:
                outer.need()

    async def start(self) -> None:
        """Begin, for one more user; returns when everything is ready."""
        with self._lock:
            run = self._run
            if run is not None and run.loop.is_closed():
                # What ran there has ended, and its users with it, without a word.
                run, self._users = None, 0
            self._users += 1
            if not self.is_needed:
                return
            if run is None or run.task.done():
                run = _Run(self._others, self._enter)
            self._run = run
        try:
            await _wait(run.entered)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Let one user go; with the last one everything ends."""
        with self._lock:
            self._users -= 1
            run = self._run
            if self._users > 0 or run is None:
                return
            self._run = None
        await run.end()


class _Run:
    """The context managers, entered and left on one loop for users on any."""

    def __init__(self, others: Iterable[Lifespan], enter: Iterable[EnterFn]) -> None:
        self.loop = asyncio.get_running_loop()
        self.entered: _Future = concurrent.futures.Future()
        self._ended: _Future = concurrent.futures.Future()
        self._leave = asyncio.Event()
        self.task = self.loop.create_task(
            self._live(list(others), list(enter)), name="mcpwire-lifespan"
        )
        self.task.add_done_callback(self._tell_of_end)

    async def end(self) -> None:
        """Leave all of them; on any loop. Being cancelled, cancel them."""
        call_soon(self.loop, self._stop)
        if self.loop.is_closed():
            return
        try:
            await _wait(self._ended)
        except asyncio.CancelledError:
            call_soon(self.loop, self.task.cancel)
            raise

    def _stop(self) -> None:
        self._leave.set()
        if not self.entered.done():
            self.task.cancel()  # nobody waits for it

    async def _live(self, others: list[Lifespan], enter: list[EnterFn]) -> None:
        async with AsyncExitStack() as stack:
            try:
                for other in others:
                    await other.start()
                    stack.push_async_callback(other.aclose)
                for each in enter:
                    await stack.enter_async_context(each())
            except Exception as error:  # noqa: BLE001 - raised in `start`
                self.entered.set_exception(error)
            except BaseException as error:
                # `start` must not take it for a cancellation of its own task.
                failure = RuntimeError("the lifespan was cancelled as it began")
                failure.__cause__ = error
                self.entered.set_exception(failure)
                if not isinstance(error, asyncio.CancelledError) or (
                    self.task.cancelling()
                ):
                    raise
            else:
                self.entered.set_result(None)
                await self._leave.wait()

    def _tell_of_end(self, task: asyncio.Task[None]) -> None:
        if not self.entered.done():  # it was cancelled before it began
            self.entered.set_exception(RuntimeError("the lifespan did not begin"))
        self._ended.set_result(None)
        # What ends may fail; that is for the log, and nobody else waits for it.
        if not task.cancelled() and task.exception() is not None:
            self.loop.call_exception_handler(
                {
                    "message": "the lifespan of a server failed",
                    "exception": task.exception(),
                }
            )


async def _wait(future: _Future) -> None:
    """Wait for a future of any loop; cancelling the wait does not cancel it."""
    if future.done():
        future.result()
    else:
        here = asyncio.wrap_future(future)
        # A caller that is cancelled does not want to know why it failed, either.
        here.add_done_callback(lambda done: done.cancelled() or done.exception())
        await wait_shared(here)


def refuse_running_loop() -> None:
    """Raise `RuntimeError` where an event loop runs: `run` starts one of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "an event loop runs here already, and run() starts its own: "
        "await serve_stdio(), or serve asgi() over HTTP"
    )


def end_soon(code: int) -> list[threading.Timer]:
    """End this process, with that exit code, if the end of the loop takes too long.

    It waits for every task and for the threads that are its own. The caller cancels
    the timers that this returns when the loop has ended in time.
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
    """
    deadline = time.monotonic() + EXIT_GRACE_S
    for thread in threading.enumerate():
        if not thread.daemon and thread not in known:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                os._exit(code)
