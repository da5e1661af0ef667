"""Runs handlers for what the peer asks: a task each, so many at once, the rest in line.

Reading never waits for a handler. A request is answered once, with what the handler
returns or with the error it raises; one that the peer withdraws is cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from mcpwire.errors import InternalError, RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.transports.base import ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["InboundTasks"]

logger = logging.getLogger("mcpwire")


class InboundTasks:
    """The handlers that run for one connection, by request id."""

    def __init__(self, *, limit: int, backlog: int) -> None:
        self._limit = limit
        self._backlog = backlog
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._waiting: deque[tuple[RequestId, Callable[[], Any], ReplyFn]] = deque()

    def __len__(self) -> int:
        """Return how many run or wait."""
        return len(self._running) + len(self._waiting)

    def start(self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn) -> None:
        """Run a handler, plain or async, now or when there is room."""
        if len(self._running) < self._limit:
            self._run(id, handler, reply)
        elif len(self._waiting) < self._backlog:
            self._waiting.append((id, handler, reply))
        else:
            reply(InternalError("too many requests are waiting already"))

    def _run(self, id: RequestId, handler: Callable[[], Any], reply: ReplyFn) -> None:
        task = asyncio.get_running_loop().create_task(
            self._answer(handler, reply), name=f"mcpwire-request-{id}"
        )
        self._running[id] = task
        task.add_done_callback(lambda _: self._ended(id))

    def _ended(self, id: RequestId) -> None:
        del self._running[id]
        while self._waiting and len(self._running) < self._limit:
            self._run(*self._waiting.popleft())

    async def _answer(self, handler: Callable[[], Any], reply: ReplyFn) -> None:
        try:
            result = handler()
            if inspect.isawaitable(result):
                result = await result
        except RPCError as error:
            reply(error)
        except Exception:
            # Its text may hold what the peer must not see; the log has it all.
            logger.exception("handler %r raised", handler)
            reply(InternalError("the handler failed"))
        else:
            reply(result)

    def cancel(self, id: RequestId) -> None:
        """Stop the handler of a request that the peer withdrew."""
        task = self._running.get(id)
        if task is not None:
            task.cancel()
            return
        self._waiting = deque(item for item in self._waiting if item[0] != id)

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel all of them; return the tasks that have yet to end.

        The task that calls this is left out: a handler may close its own connection.
        """
        self._waiting.clear()
        current = asyncio.current_task()
        tasks = [task for task in self._running.values() if task is not current]
        for task in tasks:
            task.cancel()
        return tasks
