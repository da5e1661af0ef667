"""What a server needs while it serves: entered with its first user, left with the last.

A user is a connection, or an HTTP application. The context manager runs in a task of
its own, so that it ends in the task in which it began, whoever came first and last.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    EnterFn = Callable[[], AbstractAsyncContextManager[Any]]

__all__ = ["Lifespan"]


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
