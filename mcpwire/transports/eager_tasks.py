"""Begins a task, and lets one go on, at once: without a turn of the loop.

A turn is a system call that asks what is ready, and the loop's own work around it. It
costs more than most handlers do, and about a fifth of what a call costs in all.

`FirstSteps` runs the first step of a coroutine; only one that has to wait costs a task.
From Python 3.12 on asyncio has `eager_start` for that. Before, the same is made of what
asyncio offers for tasks of one's own ("Extending"): the first step is run as if by a
task that is at hand::

      made ──► at hand ──► first step ──► ended: at hand again
                  ▲             │
                  └─ next one   └───────► waits: is that coroutine's task from now on

So `asyncio.current_task` is one task from beginning to end, and what is told to that
task (a timeout, a cancellation, a cancel scope) reaches the coroutine. Nobody can tell
that it had another coroutine before: one that anybody still knows, or that was changed
in any way, or has other context variables, is not used again.

`resolve` sets the result of a future. A pipe or a socket is read by the loop, with no
task under way, so the task that waits may be stepped right there::

      set_result:  readable ─► answer found ─► turn of the loop ─► task goes on
      resolve:     readable ─► answer found ─► task goes on

What the future was to call is called with the context it was given, only sooner. From
within a task nothing is stepped, and everything is as with `set_result`.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import _enter_task, _leave_task, current_task
from collections.abc import Coroutine
from contextvars import Context, copy_context
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final
from weakref import getweakrefcount

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = ["FirstSteps", "resolve", "resolve_all"]

HAS_EAGER_START: Final = sys.version_info >= (3, 12)

_MISSING: Final = object()

_set: Final = asyncio.Task.__setattr__
"""Sets what is our own, where `_Task` takes note of what is set by others."""

Work = Coroutine[Any, Any, None]


class FirstSteps:
    """Begins coroutines on the running loop, each as a task of its own would."""

    __slots__ = ("_at_hand", "_loop", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._at_hand: _Task | None = None

    def start(self, work: Work) -> asyncio.Task[None] | None:
        """Run the first step; return the coroutine's task, ``None`` if it has ended.

        What it raises there is dealt with as a task does: it goes no further, unless
        it is to end the program.
        """
        here = copy_context()
        task = self._at_hand
        if (
            task is not None
            and not task.is_changed
            and (not (here or task.given) or _is_same(here, task.given))
        ):
            return self._begin(task, work)
        if self._loop.get_task_factory() is not None:
            return self._loop.create_task(work, name=self._name)
        if HAS_EAGER_START:
            return _start_eagerly(work, self._loop, self._name)
        self.close()  # what is at hand is for others
        return self._begin(_Task(self._loop, self._name, here), work)

    def _begin(self, task: _Task, work: Work) -> asyncio.Task[None] | None:
        loop = self._loop
        # What runs may begin others; and ours must not count among the references.
        self._at_hand = None
        # We may be called out of another task, which goes on afterwards.
        caller = current_task(loop)
        references, weak_references = getrefcount(task), getweakrefcount(task)
        task.carrier.work = work
        try:
            if caller is not None:
                _leave_task(loop, caller)
            _enter_task(loop, task)
            try:
                awaited = task.own.run(work.send, None)
            finally:
                _leave_task(loop, task)
                if caller is not None:
                    _enter_task(loop, caller)
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - what a task does is done to it
            task.carrier.end()
            _deal_with(error, loop)
            return None
        else:
            task.go_on(awaited)
            return task
        if (
            references != getrefcount(task)
            or weak_references != getweakrefcount(task)
            or ((task.own or task.given) and not _is_same(task.own, task.given))
            or task.is_changed
            or self._at_hand is not None
        ):
            task.carrier.end()
        else:
            task.carrier.work = None
            self._at_hand = task
        return None

    def close(self) -> None:
        """Let the task end that is at hand."""
        task, self._at_hand = self._at_hand, None
        if task is not None and not self._loop.is_closed():
            task.carrier.end()


def _start_eagerly(
    work: Work, loop: asyncio.AbstractEventLoop, name: str
) -> asyncio.Task[None] | None:
    eager: Any = {"eager_start": True}  # which Python 3.11 does not know
    task = asyncio.Task(work, loop=loop, name=name, **eager)
    return None if task.done() else task


def _deal_with(error: BaseException, loop: asyncio.AbstractEventLoop) -> None:
    """Do with what ended a first step as a task does."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        raise error
    if not isinstance(error, asyncio.CancelledError):
        loop.call_exception_handler(
            {"message": "the first step of a task raised", "exception": error}
        )


def _is_same(one: Context, other: Context) -> bool:
    """Tell whether both hold the very same values."""
    if len(one) != len(other):
        return False
    for variable, value in one.items():
        if other.get(variable, _MISSING) is not value:
            return False
    return True


class _Task(asyncio.Task[None]):
    """A task that has no coroutine of its own; it goes on with those of others.

    Attributes:
        given: The context variables that it was made with.
        own: Its context, in which coroutines run.
        is_changed: Whether somebody did to it what the next coroutine would notice.
    """

    given: Context
    own: Context
    carrier: _Carrier
    is_changed: bool

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, given: Context
    ) -> None:
        _set(self, "given", given)
        _set(self, "own", given.copy())
        _set(self, "carrier", _Carrier(loop))
        _set(self, "is_changed", False)
        super().__init__(self.carrier, loop=loop, name=name, context=self.own)
        # One that nobody needs any more is no work that was lost.
        _set(self, "_log_destroy_pending", False)

    def __setattr__(self, name: str, value: object) -> None:
        # People keep at a task what belongs to the request that it is about.
        _set(self, "is_changed", True)
        _set(self, name, value)

    def go_on(self, awaited: Any) -> None:
        """Be the task of the coroutine from now on, which waits for that."""
        _set(self, "_log_destroy_pending", True)
        self.carrier.go_on(awaited)

    def done(self) -> bool:
        # Nothing of it is to come: `asyncio.all_tasks` does not show one at hand.
        return self.carrier.work is None or super().done()

    def get_coro(self) -> Any:
        return self.carrier.work or self.carrier

    def add_done_callback(self, *args: Any, **options: Any) -> None:
        _set(self, "is_changed", True)
        super().add_done_callback(*args, **options)

    def cancel(self, msg: Any = None) -> bool:
        self.is_changed = True
        return super().cancel(msg)

    def set_name(self, value: object) -> None:
        _set(self, "is_changed", True)
        super().set_name(value)


class _Carrier(Coroutine[Any, Any, None]):
    """What a task at hand runs: nothing, and then the rest of a coroutine.

    Attributes:
        work: The coroutine; others have run its first step.
    """

    __slots__ = ("_awaited", "_is_on", "_is_over", "_loop", "_slot", "work")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slot: asyncio.Future[None] | None = None  # what the task waits for
        self._awaited: Any = _MISSING
        self._is_on = False
        self._is_over = False
        self.work: Work | None = None

    def __getattr__(self, name: str) -> Any:
        """Show the coroutine to tools that read stacks, by `cr_frame` and the like."""
        return getattr(self.work, name)

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError  # it is its task's alone

    def go_on(self, awaited: Any) -> None:
        """Have the task go on with the coroutine, which waits for that."""
        self._awaited = awaited
        self._wake()

    def end(self) -> None:
        """Have the task end."""
        self._is_over = True
        self.work = None
        self._wake()

    def _wake(self) -> None:
        # Before its own first step a task needs no waking, and one that was cancelled
        # is awake.
        if self._slot is not None and not self._slot.done():
            self._slot.set_result(None)

    def send(self, value: Any) -> Any:
        work = self.work
        if self._is_on:
            assert work is not None
            return work.send(value)
        if self._awaited is not _MISSING:
            return self._wait()
        if self._is_over:
            raise StopIteration
        self._slot = self._loop.create_future()
        return next(self._slot.__await__())

    def _wait(self) -> Any:
        """Have the task wait for what the coroutine's first step waits for."""
        self._is_on = True
        awaited, self._awaited = self._awaited, _MISSING
        # Another task that waits for it, too, may have taken the mark of an `await`.
        if getattr(awaited, "_asyncio_future_blocking", None) is False:
            awaited._asyncio_future_blocking = True  # noqa: SLF001 - as futures do
        return awaited

    def throw(self, error: Any, *_: Any) -> Any:
        if self._is_on:
            assert self.work is not None
            return self.work.throw(error)
        if self._awaited is _MISSING:
            raise error
        # A task that is cancelled passes that on to what it waits for, if it can.
        awaited = self._wait()
        if (
            isinstance(error, asyncio.CancelledError)
            and hasattr(awaited, "cancel")
            and awaited.cancel(*error.args)
        ):
            return awaited
        assert self.work is not None
        return self.work.throw(error)

    def close(self) -> None:
        if self.work is not None:
            self.work.close()


def resolve(
    future: asyncio.Future[Any], result: Any, loop: asyncio.AbstractEventLoop
) -> None:
    """Set a future's result, and let its task go on before this returns.

    For futures that are awaited where they were made and known to nobody else. What was
    begun must be in order by then: the task may use it, or end it.
    """
    # asyncio keeps what a future is to call under this name in all its versions; where
    # there is no such list, or more than one task waits, the loop does it.
    waiting = getattr(future, "_callbacks", None)
    if not waiting or len(waiting) != 1 or current_task(loop) is not None:
        future.set_result(result)
        return
    ((go_on, context),) = waiting
    future.remove_done_callback(go_on)
    future.set_result(result)
    context.run(go_on, future)


def resolve_all(
    answers: Iterable[tuple[asyncio.Future[Any], Any]], loop: asyncio.AbstractEventLoop
) -> None:
    """Do so for several in turn, but for those that are done by then.

    Raises:
        BaseException: A task was interrupted (`KeyboardInterrupt`, `SystemExit`); the
            loop goes on with the rest, if it goes on.
    """
    left = iter(answers)
    try:
        for future, result in left:
            if not future.done():
                resolve(future, result, loop)
    finally:
        for future, result in left:
            if not future.done():
                future.set_result(result)
