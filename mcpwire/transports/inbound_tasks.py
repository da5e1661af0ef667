"""Runs handlers for what the peer asks: a task each, so many at once, the rest in line.

Reading never waits for a handler. A request is answered once, with what the handler
returns or with the error it raises; one that the peer withdraws is cancelled.

A reader of several messages at a time holds the handlers until all of them are known:
a request that the next message withdraws never runs. Those are begun together, without
a turn of the loop between, and one that never waits has answered when `begin` returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from contextvars import copy_context
from inspect import isawaitable
from math import inf
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, RPCError
from mcpwire.transports.eager_tasks import FirstSteps

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from mcpwire.transports.base import ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["InboundTasks"]

logger = logging.getLogger("mcpwire")

TASK_NAME: Final = "mcpwire-request"


class _Run:
    """A handler that runs, or is to.

    Attributes:
        task: Its task; it has none before its first step has ended.
        context: The context it came in, where others are begun before it.
    """

    __slots__ = ("about", "context", "handler", "id", "reply", "task")

    def __init__(
        self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn, about: Any
    ) -> None:
        self.id = id
        self.handler = handler
        self.reply = reply
        self.about = about
        self.task: asyncio.Task[None] | None = None
        self.context: Context | None = None


class InboundTasks:
    """The handlers that run for one connection, by request id.

    Attributes:
        held: Those that wait for `begin`, by request id.
    """

    __slots__ = (
        "_backlog",
        "_first_steps",
        "_holds",
        "_is_sharing",
        "_left",
        "_limit",
        "_running",
        "_tasks",
        "_waiting",
        "held",
    )

    def __init__(
        self,
        *,
        limit: int,
        backlog: int,
        room: float = inf,
        holds: bool = False,
        first_steps: FirstSteps | None = None,
    ) -> None:
        self._limit = limit
        self._backlog = backlog
        self._left = room
        self._holds = holds
        self._is_sharing = first_steps is not None
        self._first_steps = first_steps
        self._tasks: set[asyncio.Task[None]] = set()
        # Those that have an answer to come.
        self._running: dict[RequestId, _Run] = {}
        # A deque takes 600 bytes, and hardly any connection needs it.
        self._waiting: deque[tuple[_Run, int]] | tuple[()] = ()
        self.held: dict[RequestId, _Run] = {}

    def __len__(self) -> int:
        """Return how many run or wait."""
        return len(self._tasks) + len(self._waiting) + len(self.held)

    def start(
        self,
        id: RequestId,
        handler: Callable[[], Any],
        reply: ReplyFn,
        size: int = 0,
        *,
        about: Any = None,
    ) -> None:
        """Run a handler, plain or async, now or when there is room."""
        run = _Run(id, handler, reply, about)
        # Those that wait came first.
        if not self._waiting and len(self._tasks) + len(self.held) < self._limit:
            if self._holds:
                self.held[id] = run
            else:
                self._run(run)
        elif len(self._waiting) < self._backlog and size <= self._left:
            self._left -= size
            run.context = copy_context()
            if not self._waiting:
                self._waiting = deque()
            self._waiting.append((run, size))
        else:
            reply(InternalError("too many requests are waiting already"))

    def begin(self) -> None:
        """Run what is held; where that leaves room, what waits follows in turns."""
        first_steps = self._first_steps
        if first_steps is None:
            first_steps = self._first_steps = FirstSteps(TASK_NAME)
        held, running = self.held, self._running
        while held:
            run = held.pop(next(iter(held)))
            running[run.id] = run
            work, context = self._answer(run), run.context
            if context is None:
                task = first_steps.start(work)
            else:
                task = context.run(first_steps.start, work)
            if task is not None:
                self._add(run, task)
        if self._waiting and len(self._tasks) < self._limit:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Run of what waits as many as may run at once."""
        while self._waiting and len(self._tasks) + len(self.held) < self._limit:
            run, size = self._waiting.popleft()
            self._left += size
            self.held[run.id] = run
        self.begin()

    def _run(self, run: _Run) -> None:
        # In a turn of its own: begun at the end of one, each would begin the next.
        self._running[run.id] = run
        loop = asyncio.get_running_loop()
        work = self._answer(run)
        task = loop.create_task(work, name=TASK_NAME, context=run.context)
        self._add(run, task)

    def _add(self, run: _Run, task: asyncio.Task[None]) -> None:
        if not task.done():
            run.task = task
            self._tasks.add(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        while self._waiting and len(self._tasks) < self._limit:
            run, size = self._waiting.popleft()
            self._left += size
            self._run(run)

    async def _answer(self, run: _Run) -> None:
        answer: Any
        try:
            try:
                answer = run.handler()
                if type(answer) is CoroutineType or isawaitable(answer):
                    answer = await answer
            except RPCError as error:
                answer = error
            except asyncio.CancelledError:
                if _current().cancelling():
                    raise
                # The handler awaited something that somebody cancelled: its failure.
                logger.exception("handler %r raised", run.handler)
                answer = InternalError("the handler failed")
            except Exception:
                # Its text may hold what the peer must not see; the log has it all.
                logger.exception("handler %r raised", run.handler)
                answer = InternalError("the handler failed")
            # A handler may outlive its cancellation, and the id may be in use again.
            if self._running.get(run.id) is run:
                del self._running[run.id]
                run.reply(answer)
        except BaseException:
            # It may have been cancelled by others than us, and has no answer then.
            if self._running.get(run.id) is run:
                del self._running[run.id]
            raise
        finally:
            if run.task is not None:
                self._ended(run.task)

    def cancel(self, id: RequestId) -> Any:
        """Stop the handler of a request that the peer withdrew.

        Returns what it is about; ``None`` where there is none.
        """
        run = self._running.pop(id, None)
        if run is not None:
            self._stop(run.task or _current())
            return run.about
        run = self.held.pop(id, None)
        if run is not None:
            return run.about
        for item in self._waiting:
            if item[0].id == id:
                rest = [each for each in self._waiting if each is not item]
                self._waiting = deque(rest)
                self._left += item[1]
                return item[0].about
        return None

    def unanswered(self) -> list[Any]:
        """Return what those are about that have begun and have yet to answer."""
        return [run.about for run in self._running.values()]

    async def ended(self, of: Callable[[Any], bool]) -> None:
        """Wait until none is left that is about what `of` accepts."""
        while any(of(run.about) for run in self._all()):
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0)  # it is held, and begins in this turn

    def _all(self) -> list[_Run]:
        waiting = [run for run, _ in self._waiting]
        return [*self._running.values(), *waiting, *self.held.values()]

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
        self._left += sum(size for _, size in self._waiting)
        self._waiting = ()
        self.held.clear()
        self._running.clear()
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            self._stop(task)
        if self._first_steps is not None and not self._is_sharing:
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
