"""Runs handlers for what the peer asks: in threads, so many at once, the rest in line.

Reading never waits for a handler. A request is answered once, with what the handler
returns or with the error it raises. A thread cannot be stopped from outside: the
handler of a request that the peer withdrew runs to its end, and its answer is dropped.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpwire.errors import InternalError, RPCError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.transports.base import ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["InboundThreads"]

logger = logging.getLogger("mcpwire")


class _Work(NamedTuple):
    id: RequestId
    handler: Callable[[], Any]
    reply: ReplyFn
    size: int


class InboundThreads:
    """The handlers that run for one connection, by request id.

    A thread begins with a request, takes those in line, and ends when there are none.
    None of them keeps the interpreter from exiting.

    Args:
        limit: How many run at once.
        backlog: How many more may wait.
        room: How many bytes those that wait may have had on the wire.
    """

    def __init__(self, *, limit: int, backlog: int, room: float = inf) -> None:
        self._limit = limit
        self._backlog = backlog
        self._room = room
        self._lock = threading.RLock()  # a signal handler may close the client
        self._threads: set[threading.Thread] = set()
        self._wanted: dict[RequestId, _Work] = {}
        self._waiting: deque[_Work] = deque()

    def __len__(self) -> int:
        """Return how many run or wait."""
        return len(self._threads) + len(self._waiting)

    def start(
        self,
        id: RequestId,
        handler: Callable[[], Any],
        reply: ReplyFn,
        size: int = 0,
    ) -> None:
        """Run a handler, now or when there is room."""
        work = _Work(id, handler, reply, size)
        with self._lock:
            if len(self._threads) >= self._limit:
                is_refused = (
                    len(self._waiting) >= self._backlog
                    or size + sum(item.size for item in self._waiting) > self._room
                )
                if not is_refused:
                    self._waiting.append(work)
                    self._wanted[id] = work
                    return
            else:
                is_refused = False
                thread = threading.Thread(
                    target=self._run,
                    args=(work,),
                    name=f"mcpwire-request-{id}",
                    daemon=True,
                )
                self._threads.add(thread)
                self._wanted[id] = work
        if is_refused:
            reply(InternalError("too many requests are waiting already"))
            return
        try:
            thread.start()
        except RuntimeError:
            logger.exception("handler %r cannot be called", handler)
            self.cancel(id)
            with self._lock:
                self._threads.discard(thread)
            reply(InternalError("no handler can be started"))

    def _run(self, work: _Work | None) -> None:
        while work is not None:
            self._answer(work)
            with self._lock:
                work = self._waiting.popleft() if self._waiting else None
                if work is None:
                    self._threads.discard(threading.current_thread())

    def _answer(self, work: _Work) -> None:
        answer: dict[str, Any] | RPCError
        try:
            answer = work.handler()
        except RPCError as error:
            answer = error
        except (Exception, SystemExit):
            # Its text may hold what the peer must not see; the log has it all.
            logger.exception("handler %r raised", work.handler)
            answer = InternalError("the handler failed")
        with self._lock:
            # The peer may have withdrawn the request, and used its id again.
            is_wanted = self._wanted.get(work.id) is work
            if is_wanted:
                del self._wanted[work.id]
        if is_wanted:
            work.reply(answer)

    def cancel(self, id: RequestId) -> None:
        """Drop a request that the peer withdrew; its answer will not be sent."""
        with self._lock:
            work = self._wanted.pop(id, None)
            self._waiting = deque(item for item in self._waiting if item is not work)

    def close(self) -> list[threading.Thread]:
        """Drop all requests; return the threads that have yet to end.

        The thread that calls this is left out: a handler may close its own connection.
        """
        with self._lock:
            self._waiting.clear()
            self._wanted.clear()
            return [
                thread
                for thread in self._threads
                if thread is not threading.current_thread()
            ]
