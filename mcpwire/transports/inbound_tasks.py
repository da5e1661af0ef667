"""Runs handlers for what the peer asks: a task each, so many at once, the rest in line.

Reading never waits for a handler. A request is answered once, with what the handler
returns or with the error it raises; one that the peer withdraws is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from mcpwire.errors import InternalError, RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.transports.base import ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

    _Waiting = tuple[RequestId, Callable[[], Any], ReplyFn, int]

__all__ = ["InboundTasks"]

logger = logging.getLogger("mcpwire")


class InboundTasks:
    """The handlers that run for one connection, by request id.

    Args:
        limit: How many run at once.
        backlog: How many more may wait.
        room: How many bytes those that wait may have had on the wire.
    """

    def __init__(self, *, limit: int, backlog: int, room: float = inf) -> None:
        self._limit = limit
        self._backlog = backlog
        self._left = room
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        """Return how many run or wait."""
        return len(self._tasks) + len(self._waiting)

    def start(
        self,
        id: RequestId,
        handler: Callable[[], Any],
        reply: ReplyFn,
        size: int = 0,
    ) -> None:
        """Run a handler, plain or async, now or when there is room."""
        if len(self._tasks) < self._limit:
            self._run(id, handler, reply)
        elif len(self._waiting) < self._backlog and size <= self._left:
            self._left -= size
            self._waiting.append((id, handler, reply, size))
        else:
            reply(InternalError("too many requests are waiting already"))

    def _run(self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn) -> None:
        task = asyncio.get_running_loop().create_task(
            self._answer(id, handler, reply), name="mcpwire-request"
        )
        # One that is eager may have ended, and taken itself away again.
        if not task.done():
            self._tasks.add(task)
            self._running[id] = task

    def _ended(self, id: RequestId | None, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if id is not None and self._running.get(id) is task:
            del self._running[id]
        while self._waiting and len(self._tasks) < self._limit:
            id_, handler, reply, size = self._waiting.popleft()
            self._left += size
            self._run(id_, handler, reply)

    async def _answer(
        self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        # An eager task runs before `_run` knows it.
        self._tasks.add(task)
        self._running[id] = task
        answer: dict[str, Any] | RPCError
        try:
            try:
                outcome = handler()
                answer = await outcome if inspect.isawaitable(outcome) else outcome
            except RPCError as error:
                answer = error
            except asyncio.CancelledError:
                if task.cancelling():
                    raise
                # The handler awaited something that somebody cancelled: its failure.
                logger.exception("handler %r raised", handler)
                answer = InternalError("the handler failed")
            except Exception:
                # Its text may hold what the peer must not see; the log has it all.
                logger.exception("handler %r raised", handler)
                answer = InternalError("the handler failed")
            # A handler may outlive its cancellation, and the id may be in use again.
            if self._running.get(id) is task:
                reply(answer)
        finally:
            self._ended(id, task)

    def cancel(self, id: RequestId) -> None:
        """Stop the handler of a request that the peer withdrew."""
        task = self._running.pop(id, None)
        if task is not None:
            self._stop(id, task)
            return
        for item in self._waiting:
            if item[0] == id:
                self._waiting.remove(item)
                self._left += item[-1]
                return

    async def settle(self, seconds: float) -> None:
        """Wait until all have ended, but not longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel all of them; return the tasks that have yet to end.

        The task that calls this is left out: a handler may close its own connection.
        """
        self._left += sum(item[-1] for item in self._waiting)
        self._waiting.clear()
        self._running.clear()
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            self._stop(None, task)
        return tasks

    def _stop(self, id: RequestId | None, task: asyncio.Task[None]) -> None:
        """Cancel a task; one that has not begun cannot say itself that it ended."""
        task.add_done_callback(partial(self._ended, id))
        task.cancel()
