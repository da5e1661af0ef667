"""Calls users' callbacks for what comes in, in order, never blocking a reader.

A plain function is called at once. What an async one returns is awaited by one task,
behind which further items queue; the task ends with the queue. On a loop that blocking
callers run (`mcpwire.sync`) a plain function may block and call the client, so it is
called in a thread: progress in that of its call, all else in one of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.limits import Limits

__all__ = [
    "Callers",
    "Delivery",
    "Newest",
    "ProgressSink",
    "Waiting",
    "invoke",
    "is_blocking",
    "set_callers",
    "stay_for",
]

SETTLE_S: Final = 5.0
"""How long callbacks may take to be through when their call has no limit."""

logger = logging.getLogger("mcpwire")


class Callers(Protocol):
    """The threads that wait for calls on a loop."""

    def of_caller(self) -> Callable[..., None] | None:
        """Return what has functions called by the thread that waits for this task."""

    def stay_for(self, task: asyncio.Task[Any]) -> None:
        """Run the loop until that task is done, at least for a while."""


def set_callers(loop: Any, callers: Callers) -> None:
    """Have plain functions called in threads on this loop."""
    loop.mcpwire_callers = callers


def _callers() -> Callers | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    found: Callers | None = getattr(loop, "mcpwire_callers", None)
    return found


def is_blocking() -> bool:
    """Tell whether blocking callers run this loop."""
    return _callers() is not None


def stay_for(task: asyncio.Task[Any]) -> None:
    """Have a task done also where nobody runs its loop between calls."""
    callers = _callers()
    if callers is not None:
        callers.stay_for(task)


def invoke(function: Callable[..., Any], *args: Any) -> Any:
    """Call a user's function; return its result, or an awaitable of it."""
    if not is_blocking() or inspect.iscoroutinefunction(function):
        return function(*args)
    return _in_thread(function, *args)


def _for_caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function in the thread that waits for the current task."""
    callers = _callers()
    post = None if callers is None else callers.of_caller()
    if post is None or inspect.iscoroutinefunction(function):
        return function

    async def call(*args: Any) -> None:
        post(function, *args)

    return call


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a thread that does not keep the interpreter from exiting."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if answer.done():  # nobody waits any more
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def run() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = function(*args)
        except (StopIteration, SystemExit, KeyboardInterrupt) as raised:
            # A future does not take the first; the others would end the loop.
            error = RuntimeError(f"{function!r} raised {raised!r}")
        except BaseException as raised:  # noqa: BLE001 - raised on the loop
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, error)

    # Not a thread of the loop's executor: the interpreter waits for those at its exit.
    context = copy_context()
    threading.Thread(
        target=context.run, args=(run,), name="mcpwire-callback", daemon=True
    ).start()
    value = await answer
    return await value if inspect.isawaitable(value) else value


class Waiting(Protocol):
    """Items that wait for a callback, bounded."""

    @property
    def dropped(self) -> int:
        """Items forgotten because the callback was too slow."""

    def put(self, *item: Any) -> object:
        """Let one more wait."""

    def pop(self) -> tuple[Any, ...]:
        """Take the oldest out."""

    def clear(self) -> None:
        """Forget all."""

    def __bool__(self) -> bool:
        """Tell whether any waits."""


class Newest:
    """A queue that forgets the oldest items when they are too many, or too long."""

    def __init__(self, limit: int, room: int) -> None:
        self._items: deque[tuple[Any, ...]] = deque()
        self._limit = limit
        self._left = room
        self.dropped = 0

    def put(self, *item: Any) -> None:
        """Let one more wait."""
        self._items.append(item)
        self._left -= _length(item)
        while len(self._items) > self._limit or self._left < 0:
            self.pop()
            self.dropped += 1

    def pop(self) -> tuple[Any, ...]:
        """Take the oldest out."""
        item = self._items.popleft()
        self._left += _length(item)
        return item

    def clear(self) -> None:
        """Forget all."""
        while self._items:
            self.pop()

    def __bool__(self) -> bool:
        """Tell whether any waits."""
        return bool(self._items)


class Delivery:
    """One callback and the items that wait for it.

    The callback runs in the context (`contextvars`) in which this was made, not in that
    of the connection's reader.
    """

    def __init__(self, callback: Callable[..., Any], waiting: Waiting) -> None:
        self._callback = callback
        self._context = copy_context()
        self._waiting = waiting
        self._task: asyncio.Task[None] | None = None

    @property
    def dropped(self) -> int:
        """Items forgotten because the callback was too slow."""
        return self._waiting.dropped

    def put(self, *item: Any) -> None:
        """Hand one item to the callback, or queue it behind those before it."""
        if self._task is None:
            pending = self._call(item)
            if pending is not None:
                loop = asyncio.get_running_loop()
                task = loop.create_task(
                    self._drain(pending), context=self._context.copy()
                )
                if not task.done():  # an eager one may have ended already
                    self._task = task
        else:
            self._waiting.put(*item)

    def _call(self, item: tuple[Any, ...]) -> Awaitable[Any] | None:
        try:
            outcome = self._context.copy().run(invoke, self._callback, *item)
        except (Exception, asyncio.CancelledError):
            # CancelledError: it asked for the result of something cancelled.
            logger.exception("callback %r raised", self._callback)
            return None
        return outcome if inspect.isawaitable(outcome) else None

    async def _drain(self, pending: Awaitable[Any] | None) -> None:
        try:
            while True:
                if pending is not None:
                    await self._finish(pending)
                if not self._waiting:
                    return
                pending = self._call(self._waiting.pop())
        finally:
            self._task = None

    async def _finish(self, pending: Awaitable[Any]) -> None:
        task = asyncio.current_task()
        try:
            await pending
        except asyncio.CancelledError:
            if task is None or task.cancelling():
                raise
            # It awaited something that somebody cancelled: its failure, not our end.
            logger.exception("callback %r raised", self._callback)
        except Exception:
            logger.exception("callback %r raised", self._callback)

    async def settle(self) -> None:
        """Wait until every item so far was taken; safe to cancel."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def close(self) -> asyncio.Task[None] | None:
        """Forget what waits and cancel a callback that runs; return its task."""
        self._waiting.clear()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            return self._task
        return None


class ProgressSink:
    """The way from notifications to ``on_progress(progress, total, message)``."""

    def __init__(
        self,
        on_progress: Callable[[float, float | None, str | None], Any],
        limits: Limits,
    ) -> None:
        waiting = Newest(limits.notifications, limits.message)
        self._delivery = Delivery(_for_caller(on_progress), waiting)

    def take(self, _: str, params: dict[str, Any] | None) -> None:
        """Take a notification; one that carries no number is passed over."""
        fields = params or {}
        progress = _number(fields.get("progress"))
        if progress is not None:
            message = fields.get("message")
            self._delivery.put(
                progress,
                _number(fields.get("total")),
                message if type(message) is str else None,
            )

    async def settle(self, seconds: float | None) -> None:
        """Wait until the callback is through with what came before the answer.

        It has as long as the call had left, or `SETTLE_S` where that is no limit: the
        answer is here, and a callback that hangs must not withhold it.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S if seconds is None else seconds):
                await self._delivery.settle()

    def close(self) -> None:
        """Forget what still waits."""
        self._delivery.close()


def _length(item: tuple[Any, ...]) -> int:
    return sum(len(part) for part in item if type(part) is str)


def _number(value: Any) -> float | None:
    return value if type(value) in {int, float} else None
