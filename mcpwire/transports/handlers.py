"""Execution of users' callbacks and handlers, without blocking the reader.

**Callbacks** are called in order. A plain function is called at once. The result of an
async function is awaited by a task; further items are queued for this task, which ends
when the queue is empty. On a loop of blocking callers (`mcpwire.sync`) a plain function
may block and call the client, so it runs in a thread: a progress callback in the thread
of its call, any other callback in a new thread.

**Handlers** answer requests of the peer, each in a task. Their number is limited;
further requests are queued. A request is answered once, with the result of its handler
or the `RPCError` that it raises; any other exception is logged and answered as an
internal error. If the peer cancels a request, its handler is cancelled or not started.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections import deque
from contextvars import copy_context
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from math import inf
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.errors import InternalError, RPCError
from mcpwire.transports.base import is_cancelled_here, wait_at_most

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextvars import Context

    from mcpwire.limits import Limits
    from mcpwire.transports.base import ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

SETTLE_TIMEOUT_S: Final = 5.0
"""Time for progress callbacks to finish after a call without a timeout."""

_NAME: Final = "mcpwire-request"

logger = logging.getLogger("mcpwire")


class BlockingRunner(Protocol):
    """The threads that run a loop by their blocking calls."""

    def caller_post(self) -> Callable[..., None] | None:
        """Return a function that posts calls to the thread waiting for this task."""

    def run_until_done(self, task: asyncio.Task[Any]) -> None:
        """Run the loop until that task is done, for a limited time."""


def set_blocking_runner(loop: Any, runner: BlockingRunner) -> None:
    """Mark a loop as run by blocking callers: plain callbacks run in threads."""
    loop.mcpwire_runner = runner


def _blocking_runner() -> BlockingRunner | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    runner: BlockingRunner | None = getattr(loop, "mcpwire_runner", None)
    return runner


def is_blocking() -> bool:
    """Return whether blocking callers run the current loop."""
    return _blocking_runner() is not None


def run_until_done(task: asyncio.Task[Any]) -> None:
    """Finish a task even if blocking callers run its loop only during their calls."""
    runner = _blocking_runner()
    if runner is not None:
        runner.run_until_done(task)


def invoke(function: Callable[..., Any], *args: Any) -> Any:
    """Call a user's function; return its result, or an awaitable of it."""
    if not is_blocking() or iscoroutinefunction(function):
        return function(*args)
    return call_in_thread(function, *args)


def _bind_to_caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function` in the thread waiting for this task."""
    runner = _blocking_runner()
    post = None if runner is None else runner.caller_post()
    if post is None or iscoroutinefunction(function):
        return function

    async def call(*args: Any) -> None:
        post(function, *args)

    return call


async def call_in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a daemon thread, which does not delay the exit."""
    run, answer = prepare_thread_call(function, *args)
    # Not in the loop's executor: the interpreter waits for its threads at exit.
    context = copy_context()
    threading.Thread(
        target=context.run, args=(run,), name="mcpwire-callback", daemon=True
    ).start()
    value = await answer
    return await value if isawaitable(value) else value


def prepare_thread_call(
    function: Callable[..., Any], *args: Any
) -> tuple[Callable[[], None], asyncio.Future[Any]]:
    """Return a function to run in another thread, and the future of its result."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if answer.done():  # the waiting task was cancelled
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
            # A future rejects StopIteration; the other two would end the loop.
            error = RuntimeError(f"{function!r} raised {raised!r}")
        except BaseException as raised:  # noqa: BLE001 - raised on the loop
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, error)

    return run, answer


class ItemQueue(Protocol):
    """A bounded queue of items for a callback."""

    @property
    def dropped(self) -> int:
        """Number of items dropped because the callback was too slow."""

    def put(self, *item: Any) -> object:
        """Add an item."""

    def pop(self) -> tuple[Any, ...]:
        """Remove and return the oldest item."""

    def clear(self) -> None:
        """Remove all items."""

    def __bool__(self) -> bool: ...


class NewestQueue:
    """A queue with limits of items and text length; drops the oldest items first."""

    def __init__(self, limit: int, room: int) -> None:
        self._items: deque[tuple[Any, ...]] = deque()
        self._limit = limit
        self._chars_left = room
        self.dropped = 0

    def put(self, *item: Any) -> None:
        """Add an item."""
        self._items.append(item)
        self._chars_left -= _text_length(item)
        while len(self._items) > self._limit or self._chars_left < 0:
            self.pop()
            self.dropped += 1

    def pop(self) -> tuple[Any, ...]:
        """Remove and return the oldest item."""
        item = self._items.popleft()
        self._chars_left += _text_length(item)
        return item

    def clear(self) -> None:
        """Remove all items."""
        while self._items:
            self.pop()

    def __bool__(self) -> bool:
        return bool(self._items)


class Delivery:
    """A callback and the queue of its items.

    The callback runs in the context (`contextvars`) that was current when this object
    was created, not in the context of the connection's reader.
    """

    def __init__(self, callback: Callable[..., Any], waiting: ItemQueue) -> None:
        self._callback = callback
        self._context = copy_context()
        self._waiting = waiting
        self._task: asyncio.Task[None] | None = None
        self._first: Awaitable[Any] | None = None  # awaited first by the task

    @property
    def dropped(self) -> int:
        """Number of items dropped because the callback was too slow."""
        return self._waiting.dropped

    def put(self, *item: Any) -> None:
        """Pass an item to the callback, or queue it while the callback is busy."""
        if self._task is None:
            pending = self._call(item)
            if pending is not None:
                loop = asyncio.get_running_loop()
                task = loop.create_task(
                    self._drain(pending), context=self._context.copy()
                )
                if not task.done():  # an eager task may have ended already
                    self._task, self._first = task, pending
        else:
            self._waiting.put(*item)

    def _call(self, item: tuple[Any, ...]) -> Awaitable[Any] | None:
        try:
            outcome = self._context.copy().run(invoke, self._callback, *item)
        except (Exception, asyncio.CancelledError):
            # CancelledError: the callback may read the result of a cancelled future.
            logger.exception("callback %r raised", self._callback)
            return None
        return outcome if isawaitable(outcome) else None

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
        try:
            await pending
        except asyncio.CancelledError:
            if is_cancelled_here():
                raise
            # The awaitable was cancelled, not this task: a failure of the callback.
            logger.exception("callback %r raised", self._callback)
        except Exception:
            logger.exception("callback %r raised", self._callback)

    async def settle(self) -> None:
        """Wait until the callback has processed all items; safe to cancel."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def close(self) -> asyncio.Task[None] | None:
        """Discard queued items, cancel a running callback, and return its task."""
        self._waiting.clear()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.add_done_callback(partial(self._on_task_done, self._first))
            self._task.cancel()
            return self._task
        return None

    def _on_task_done(
        self, first: Awaitable[Any] | None, task: asyncio.Task[None]
    ) -> None:
        """Clean up after a task that may have been cancelled before its first step."""
        if self._task is task:
            self._task = None
        if isinstance(first, CoroutineType):
            first.close()


class ProgressSink:
    """The progress notifications for ``on_progress(progress, total, message)``."""

    def __init__(
        self,
        on_progress: Callable[[float, float | None, str | None], Any],
        limits: Limits,
    ) -> None:
        waiting = NewestQueue(limits.notifications, limits.message)
        self._delivery = Delivery(_bind_to_caller(on_progress), waiting)

    def on_notification(self, _: str, params: dict[str, Any] | None) -> None:
        """Handle a notification; ignore it if its progress is not a number."""
        fields = params or {}
        progress = _as_number(fields.get("progress"))
        if progress is not None:
            message = fields.get("message")
            self._delivery.put(
                progress,
                _as_number(fields.get("total")),
                message if type(message) is str else None,
            )

    async def settle(self, seconds: float | None) -> None:
        """Wait until the callback has processed all notifications of the call.

        It takes at most `seconds`, the rest of the call's timeout (None:
        `SETTLE_TIMEOUT_S`): a callback that hangs must not withhold the response.
        """
        left = SETTLE_TIMEOUT_S if seconds is None else seconds
        await wait_at_most(left, self._delivery.settle())

    def close(self) -> None:
        """Discard queued notifications and cancel the callback."""
        self._delivery.close()


def _text_length(item: tuple[Any, ...]) -> int:
    return sum(len(part) for part in item if type(part) is str)


def _as_number(value: Any) -> float | None:
    return value if type(value) in {int, float} else None


# Requests of the peer


@attrs.define(eq=False)
class _Run:
    """A running or queued handler."""

    id: RequestId
    handler: Callable[[], Any]
    reply: ReplyFn
    size: int
    tag: Any
    task: asyncio.Task[None] | None = None
    context: Context | None = None
    """The context in which a queued request was received."""


class InboundTasks:
    """The running and queued handlers of a connection, by request id."""

    __slots__ = ("_backlog", "_bytes_left", "_limit", "_running", "_tasks", "_waiting")

    def __init__(self, *, limit: int, backlog: int, room: float = inf) -> None:
        self._limit = limit
        self._backlog = backlog
        self._bytes_left = room
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[RequestId, _Run] = {}  # not answered yet
        self._waiting: dict[RequestId, _Run] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._tasks) + len(self._waiting)

    def start(
        self,
        id: RequestId,
        handler: Callable[[], Any],
        reply: ReplyFn,
        size: int = 0,
        *,
        tag: Any = None,
    ) -> None:
        """Run a plain or async handler, queue it, or refuse it if the queue is full."""
        run = _Run(id, handler, reply, size, tag)
        if not self._waiting and len(self._tasks) < self._limit:
            self._run(run)
            return
        self._forget_unstarted()
        if not self._waiting and len(self._tasks) < self._limit:
            self._run(run)
        elif len(self._waiting) < self._backlog and size <= self._bytes_left:
            self._bytes_left -= size
            run.context = copy_context()
            self._waiting[id] = run
        else:
            reply(InternalError("too many requests are waiting already"))

    def _run(self, run: _Run) -> None:
        self._running[run.id] = run
        loop, answer = asyncio.get_running_loop(), self._run_and_reply(run)
        task: asyncio.Task[None]
        if sys.version_info >= (3, 12) and loop.get_task_factory() is None:
            # A handler that does not suspend saves an iteration: a seventh of a call.
            task = asyncio.Task(
                answer, loop=loop, name=_NAME, context=run.context, eager_start=True
            )
        else:
            task = loop.create_task(answer, name=_NAME, context=run.context)
        if not task.done():  # an eager task may have ended already
            run.task = task
            self._tasks.add(task)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        while self._waiting and len(self._tasks) < self._limit:
            self._run(self._pop_waiting(next(iter(self._waiting))))

    def _forget_unstarted(self) -> None:
        """Remove handlers that other code cancelled before their first step."""
        for run in list(self._running.values()):
            if run.task is not None and run.task.done():
                self._forget(run)
                self._on_task_done(run.task)

    def _pop_waiting(self, id: RequestId) -> _Run:
        run = self._waiting.pop(id)
        self._bytes_left += run.size
        return run

    async def _run_and_reply(self, run: _Run) -> None:
        answer: Any
        try:
            try:
                answer = run.handler()
                if type(answer) is CoroutineType or isawaitable(answer):
                    answer = await answer
            except RPCError as error:
                answer = error
            except (Exception, asyncio.CancelledError) as error:
                # CancelledError is a failure unless this task itself is cancelled.
                if isinstance(error, asyncio.CancelledError) and is_cancelled_here():
                    raise
                # The peer must not see the text of the exception; it is logged.
                logger.exception("handler %r raised", run.handler)
                answer = InternalError("the handler failed")
            # A handler may ignore its cancellation, and its id may be in use again.
            if self._forget(run):
                run.reply(answer)
        finally:
            self._forget(run)  # a run that other code cancelled has no answer
            # The task's CancelledError refers to this frame: avoid a reference cycle.
            task, run.task = run.task, None
            if task is not None:
                self._on_task_done(task)
            del task

    def _forget(self, run: _Run) -> bool:
        """Remove a run from the unanswered ones; return whether it was there."""
        if self._running.get(run.id) is not run:
            return False
        del self._running[run.id]
        return True

    def cancel(self, id: RequestId) -> Any:
        """Stop the handler of a cancelled request; return its `tag`, if any."""
        run = self._running.pop(id, None)
        if run is not None:
            task = run.task or asyncio.current_task()  # it may cancel itself at once
            assert task is not None
            self._stop(task)
            return run.tag
        return self._pop_waiting(id).tag if id in self._waiting else None

    def end_all(self, answer: Callable[[Any], Any]) -> None:
        """Stop the running handlers; answer each with the result for its `tag`."""
        for run in list(self._running.values()):
            self.cancel(run.id)
            run.reply(answer(run.tag))

    def unanswered(self) -> list[Any]:
        """Return the `tag` values of the running handlers without an answer."""
        return [run.tag for run in self._running.values()]

    async def wait_ended(self, matches: Callable[[Any], bool]) -> None:
        """Wait until no handler is left with a `tag` that `matches` accepts."""
        while any(
            matches(run.tag)
            for run in (*self._running.values(), *self._waiting.values())
        ):
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self._forget_unstarted()

    async def settle(self, seconds: float) -> None:
        """Wait until all handlers have ended, for at most that many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)
                    self._forget_unstarted()

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel all handlers; return the tasks that have not ended yet.

        The calling task is left out: a handler may close its own connection.
        """
        for id in list(self._waiting):
            self._pop_waiting(id)
        self._running.clear()
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            self._stop(task)
        return tasks

    def _stop(self, task: asyncio.Task[None]) -> None:
        """Cancel a task and watch its end: a task that has not started runs no code."""
        task.add_done_callback(self._on_task_done)
        task.cancel()
