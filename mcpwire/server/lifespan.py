"""A server's lifespan: entered for the first user, exited after the last.

A user is a connection, or an HTTP application. The context managers run in a task of
their own, so that they are exited in the task that entered them, whatever users do.

If serving is the main work of a process, handlers that still run in threads must not
keep it alive: call `arm_exit_timer` before the loop ends, `join_threads_or_exit` after.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.notifications import call_soon
from mcpwire.transports.base import wait_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    EnterFn = Callable[[], AbstractAsyncContextManager[Any]]
    _Future = concurrent.futures.Future[None]

EXIT_GRACE_S: Final = 0.3
"""How long uncancellable tasks and threads may delay the exit, in seconds."""


class Lifespan:
    """Runs context managers for as long as there are users."""

    def __init__(self) -> None:
        self._enter: list[EnterFn] = []
        self._included: list[Lifespan] = []
        self._users = 0
        self._lock = threading.Lock()
        self._run: _LifespanRun | None = None
        self._included_in: list[Lifespan] = []
        # An attribute, because each request reads it.
        self.is_needed = False

    def add(self, enter: EnterFn) -> None:
        """Add a context manager, entered after and exited before the present ones."""
        self._enter.append(enter)
        self.need()

    def include(self, other: Lifespan) -> None:
        """Enter another lifespan before this one and exit it afterwards."""
        self._included.append(other)
        other._included_in.append(self)
        if other.is_needed:
            self.need()

    def need(self) -> None:
        """Mark this lifespan, and those that include it, as not empty."""
        if not self.is_needed:
            self.is_needed = True
            for outer in self._included_in:
                outer.need()

    async def start(self) -> None:
        """Enter the lifespan for one more user; wait until it is ready."""
        with self._lock:
            run = self._run
            if run is not None and run.loop.is_closed():
                # The loop was closed without `aclose` of its users.
                run, self._users = None, 0
            self._users += 1
            if not self.is_needed:
                return
            if run is None or run.task.done():
                run = _LifespanRun(self._included, self._enter)
            self._run = run
        try:
            await _wait(run.entered)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Release one user; after the last one exit the lifespan."""
        with self._lock:
            self._users -= 1
            run = self._run
            if self._users > 0 or run is None:
                return
            self._run = None
        await run.end()


class _LifespanRun:
    """The context managers, entered and exited on one loop for users on any loop."""

    def __init__(self, included: Iterable[Lifespan], enter: Iterable[EnterFn]) -> None:
        self.loop = asyncio.get_running_loop()
        self.entered: _Future = concurrent.futures.Future()
        self._ended: _Future = concurrent.futures.Future()
        self._exit_requested = asyncio.Event()
        self.task = self.loop.create_task(
            self._run_managers(list(included), list(enter)), name="mcpwire-lifespan"
        )
        self.task.add_done_callback(self._report_end)

    async def end(self) -> None:
        """Exit all of them, from any loop; if cancelled, cancel them."""
        call_soon(self.loop, self._stop)
        if self.loop.is_closed():
            return
        try:
            await _wait(self._ended)
        except asyncio.CancelledError:
            call_soon(self.loop, self.task.cancel)
            raise

    def _stop(self) -> None:
        self._exit_requested.set()
        if not self.entered.done():
            self.task.cancel()  # no user waits for it

    async def _run_managers(
        self, included: list[Lifespan], enter: list[EnterFn]
    ) -> None:
        async with AsyncExitStack() as stack:
            try:
                for other in included:
                    await other.start()
                    stack.push_async_callback(other.aclose)
                for enter_manager in enter:
                    await stack.enter_async_context(enter_manager())
            except Exception as error:  # noqa: BLE001 - raised in `start`
                self.entered.set_exception(error)
            except BaseException as error:
                # `start` must not raise it as a cancellation of the caller's task.
                failure = RuntimeError("the lifespan was cancelled as it began")
                failure.__cause__ = error
                self.entered.set_exception(failure)
                if not isinstance(error, asyncio.CancelledError) or (
                    self.task.cancelling()
                ):
                    raise
            else:
                self.entered.set_result(None)
                await self._exit_requested.wait()

    def _report_end(self, task: asyncio.Task[None]) -> None:
        if not self.entered.done():  # cancelled before its first step
            self.entered.set_exception(RuntimeError("the lifespan did not begin"))
        self._ended.set_result(None)
        # Errors on exit are only logged: no user waits for the task.
        if not task.cancelled() and task.exception() is not None:
            self.loop.call_exception_handler(
                {
                    "message": "the lifespan of a server failed",
                    "exception": task.exception(),
                }
            )


async def _wait(future: _Future) -> None:
    """Wait for a future of any loop; cancelling the wait does not cancel the future."""
    if future.done():
        future.result()
    else:
        local = asyncio.wrap_future(future)
        # A cancelled caller does not need the error.
        local.add_done_callback(lambda done: done.cancelled() or done.exception())
        await wait_shared(local)


def refuse_running_loop() -> None:
    """Raise `RuntimeError` if an event loop is running: `run` starts its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "an event loop runs here already, and run() starts its own: "
        "await serve_stdio(), or serve asgi() over HTTP"
    )


def arm_exit_timer(code: int) -> list[threading.Timer]:
    """End the process with that exit code if the event loop takes too long to close.

    Closing waits for all tasks and for the loop's threads. The caller must cancel the
    returned timers once the loop is closed.
    """
    if len(asyncio.all_tasks()) <= 1 and threading.active_count() <= 1:
        return []
    timer = threading.Timer(EXIT_GRACE_S, os._exit, (code,))
    timer.daemon = True
    timer.start()
    return [timer]


def join_threads_or_exit(
    known_threads: Collection[threading.Thread], code: int
) -> None:
    """End the process with that exit code if threads other than these do not end.

    The interpreter itself would wait for them without limit.
    """
    deadline = time.monotonic() + EXIT_GRACE_S
    for thread in threading.enumerate():
        if not thread.daemon and thread not in known_threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                os._exit(code)
