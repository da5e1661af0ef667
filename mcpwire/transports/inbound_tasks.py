"""Runs handlers for what the peer asks: a task each, so many at once, the rest in line.

Reading never waits for a handler. A request is answered once, with what the handler
returns or with the error it raises; one that the peer withdraws is cancelled.

Who takes in several messages at a time holds the handlers until all of them are known:
a request that the next message withdraws never runs. Those are begun together, without
a turn of the loop between, and one that never waits has answered when `begin` returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, RPCError
from mcpwire.transports.tasks.first_step import FirstSteps

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.transports.base import ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

    _Waiting = tuple[RequestId, Callable[[], Any], ReplyFn, int]

__all__ = ["InboundTasks"]

logger = logging.getLogger("mcpwire")

TASK_NAME: Final = "mcpwire-request"


class InboundTasks:
    """The handlers that run for one connection, by request id.

    Args:
        limit: How many run at once.
        backlog: How many more may wait.
        room: How many bytes those that wait may have had on the wire.
        holds: Whether they wait for `begin`; else each begins in the loop's next turn.

    Attributes:
        held: Those that do, by request id.
    """

    def __init__(
        self, *, limit: int, backlog: int, room: float = inf, holds: bool = False
    ) -> None:
        self._limit = limit
        self._backlog = backlog
        self._left = room
        self._holds = holds
        self.held: dict[RequestId, tuple[Callable[[], Any], ReplyFn]] = {}
        self._first_steps: FirstSteps | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Who has an answer to come; in its first step it has no task yet.
        self._running: dict[RequestId, asyncio.Task[None] | None] = {}
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        """Return how many run or wait."""
        return len(self._tasks) + len(self._waiting) + len(self.held)

    def start(
        self,
        id: RequestId,
        handler: Callable[[], Any],
        reply: ReplyFn,
        size: int = 0,
    ) -> None:
        """Run a handler, plain or async, now or when there is room."""
        if len(self._tasks) + len(self.held) < self._limit:
            if self._holds:
                self.held[id] = handler, reply
            else:
                self._run(id, handler, reply)
        elif len(self._waiting) < self._backlog and size <= self._left:
            self._left -= size
            self._waiting.append((id, handler, reply, size))
        else:
            reply(InternalError("too many requests are waiting already"))

    def begin(self) -> None:
        """Run what is held; where that leaves room, what waits follows in turns."""
        first_steps = self._first_steps
        if first_steps is None:
            first_steps = self._first_steps = FirstSteps(TASK_NAME)
        held = self.held
        while held:
            id = next(iter(held))
            handler, reply = held.pop(id)
            self._running[id] = None
            self._add(id, first_steps.start(self._answer(id, handler, reply)))
        if self._waiting and len(self._tasks) < self._limit:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Run of what waits as many as may run at once."""
        while self._waiting and len(self._tasks) + len(self.held) < self._limit:
            id, handler, reply, size = self._waiting.popleft()
            self._left += size
            self.held[id] = handler, reply
        self.begin()

    def _run(self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn) -> None:
        # In a turn of its own: begun at the end of one, each would begin the next.
        self._running[id] = None
        work = self._answer(id, handler, reply)
        task = asyncio.get_running_loop().create_task(work, name=TASK_NAME)
        self._add(id, task)

    def _add(self, id: RequestId, task: asyncio.Task[None] | None) -> None:
        if task is None or task.done():
            return
        self._tasks.add(task)
        # It may have been withdrawn or replaced by what it did itself.
        if self._running.get(id, task) is None:
            self._running[id] = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        while self._waiting and len(self._tasks) < self._limit:
            id, handler, reply, size = self._waiting.popleft()
            self._left += size
            self._run(id, handler, reply)

    async def _answer(
        self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn
    ) -> None:
        answer: dict[str, Any] | RPCError
        try:
            try:
                outcome = handler()
                answer = await outcome if inspect.isawaitable(outcome) else outcome
            except RPCError as error:
                answer = error
            except asyncio.CancelledError:
                if _current().cancelling():
                    raise
                # The handler awaited something that somebody cancelled: its failure.
                logger.exception("handler %r raised", handler)
                answer = InternalError("the handler failed")
            except Exception:
                # Its text may hold what the peer must not see; the log has it all.
                logger.exception("handler %r raised", handler)
                answer = InternalError("the handler failed")
            # A handler may outlive its cancellation, and the id may be in use again.
            running = self._running
            if id in running and (running[id] is None or running[id] is _current()):
                del running[id]
                reply(answer)
        finally:
            if self._tasks:
                self._ended(_current())

    def cancel(self, id: RequestId) -> None:
        """Stop the handler of a request that the peer withdrew."""
        if id in self._running:
            self._stop(self._running.pop(id) or _current())
            return
        if self.held.pop(id, None) is not None:
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
                while len(self):
                    if self._tasks:
                        await asyncio.wait(self._tasks)
                    else:
                        await asyncio.sleep(0)  # where there is room, the next turn

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel all of them; return the tasks that have yet to end.

        The task that calls this is left out: a handler may close its own connection.
        """
        self._left += sum(item[-1] for item in self._waiting)
        self._waiting.clear()
        self.held.clear()
        self._running.clear()
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            self._stop(task)
        if self._first_steps is not None:
            self._first_steps.close()
        return tasks

    def _stop(self, task: asyncio.Task[None]) -> None:
        """Cancel a task; one that has not begun cannot say itself that it ended."""
        task.add_done_callback(self._ended)
        task.cancel()


def _current() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
