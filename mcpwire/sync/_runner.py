"""The event loop of the blocking client, run by the threads that wait for calls.

Each blocking object has one event loop and, as a rule, no thread of its own::

    first caller ──► runs the loop until its call is done ──► passes the loop on
    other caller ──► submits its coroutine, sleeps ──► is done, or runs the loop

A background thread runs the loop instead if an option needs it, or if a calling thread
is already running an event loop. An interrupt (Ctrl-C) arrives almost always in the
selector, which turns it into an event that cancels the call of the interrupted thread.
An interrupt in the middle of a callback may leave the loop's state inconsistent, so all
calls and connections on the loop are ended, and the next call makes a new loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import selectors
import sys
import threading
import weakref
from collections import deque
from inspect import iscoroutine
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.errors import ConnectionClosed, LocalProtocolError
from mcpwire.transports.base import is_on_loop, register_after_fork
from mcpwire.transports.handlers import set_blocking_runner

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

TASK_END_TIMEOUT_S: Final = 1.0
"""Maximum seconds for the end of a loop's remaining tasks when it is closed."""

CLOSE_TIMEOUT_S: Final = 5.0
"""Maximum seconds that a call waits for another thread to close the previous loop."""

EXIT_TIMEOUT_S: Final = 5.0
"""Maximum seconds to wait for a background thread at the interpreter's exit."""

logger = logging.getLogger("mcpwire")

_background_runners: weakref.WeakSet[Runner] = weakref.WeakSet()

_parent_loops: Final[list[asyncio.AbstractEventLoop]] = []
"""References to loops of the parent process, which a forked process must not close."""

# `poll`, since an epoll instance would be shared with forked processes.
if TYPE_CHECKING or hasattr(selectors, "PollSelector"):
    _Poll = selectors.PollSelector
else:
    _Poll = selectors.SelectSelector  # Windows


class _Selector(_Poll):
    """A selector that reports an exception of a signal handler to a function."""

    def __init__(self, on_signal: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._on_signal = on_signal

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events; return no events if a signal handler raised an exception."""
        try:
            return super().select(timeout)
        except BaseException as error:  # noqa: BLE001 - raised by the cancelled call
            self._on_signal(error)
            return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that can be closed after an interrupt left it marked as running.

    Attributes:
        is_abandoned: Whether an interrupt has ended the thread's run of the loop.
    """

    is_abandoned = False

    def is_running(self) -> bool:
        """Return whether a thread runs the loop."""
        return super().is_running() and not self.is_abandoned


class _Lock:
    """A re-entrant lock that an interrupt cannot leave locked.

    Since Python 3.14 an interrupt may be raised between the `__enter__` of a built-in
    lock and the block, which leaves it locked. `__exit__` has to be the built-in one,
    because an interrupt may be raised at the start of a Python method.
    """

    __slots__ = ("__exit__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.__exit__ = self._lock.__exit__

    def __enter__(self) -> None:
        try:
            self._lock.acquire()
        except BaseException:  # an interrupt, before or after the lock was acquired
            with contextlib.suppress(RuntimeError):
                self._lock.release()
            raise


class _Call:
    """A coroutine that a thread waits for.

    Attributes:
        callbacks: Functions to call in the thread, with their arguments.
        interrupt: The exception that a signal handler raised in the thread.
        is_lost: Whether the loop was abandoned before the call was done.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self, work: Any) -> None:
        self.work = work
        self.thread = threading.get_ident()
        self.task: asyncio.Task[Any] | None = None
        self.callbacks: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self.wakeup: SimpleQueue[None] = SimpleQueue()  # wakes the thread
        self.interrupt: BaseException | None = None
        self.is_submitted = False
        self.is_running_loop = False  # whether the thread runs the loop
        self.is_lost = False

    @property
    def is_done(self) -> bool:
        """Whether the task has ended or is lost."""
        return self.is_lost or (self.task is not None and self.task.done())

    def is_ended_by(self, error: BaseException | None) -> bool:
        """Return whether an interrupt was raised inside the call's task."""
        task = self.task
        if error is None or task is None or not task.done() or task.cancelled():
            return False
        return task.exception() is error

    def start(self) -> None:
        """Create the task; called on the loop, or by the thread that will run it."""
        self.task = self.loop.create_task(self.work)
        self.task.add_done_callback(self.wake)

    def wake(self, _: object = None) -> None:
        """Wake the thread, whether it sleeps or runs the loop."""
        self.wakeup.put(None)
        if self.is_running_loop:
            self.loop.stop()

    def post(self, function: Callable[..., Any], *args: Any) -> None:
        """Queue a function to be called in the thread; called on the loop."""
        self.callbacks.append((function, args))
        self.wake()

    def cancel(self) -> None:
        """Cancel the task; called on the loop."""
        if self.task is not None:
            self.task.cancel()


class Runner:
    """One event loop that is run by one of the threads with a call on it.

    Attributes:
        wants_thread: Whether the next call starts a background thread for the loop.
        abandon_all: Closes all connections on the loop at once, from any thread.
        is_needed: Returns whether a connection uses the loop, also between calls.
    """

    def __init__(self, *, wants_thread: bool = False) -> None:
        self.abandon_all: Callable[[], bool] = bool
        self.is_needed: Callable[[], bool] = bool
        self.wants_thread = wants_thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.AbstractEventLoop | None = None  # a loop being closed
        self._is_closed = threading.Event()  # set when that loop is closed
        self._leader: dict[str, _Call] = {}  # the call of the thread that runs the loop
        self._loop_lock = _Lock()  # guards creation and closing of the loop
        self._sleeping: deque[_Call] = deque()
        self._active_calls: dict[int, _Call] = {}  # by thread
        self._thread: threading.Thread | None = None
        self._unfinished: set[asyncio.Task[Any]] = set()
        self._is_ended = False  # set by `end`, reset if the loop is needed
        self._is_stopping = False  # the background thread
        self._is_forked = False
        self._deferred_close: Callable[[], None] | None = None
        register_after_fork(self)

    # Calls

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result, or raise its error."""
        call = _Call(work)
        try:
            self._enter(call)
            # No `if` at the end of the body: since Python 3.14 an interrupt raised at
            # the jump back would bypass the `finally`.
            while not call.is_done:
                if call.callbacks:
                    self._run_callbacks(call)
                self._wait(call)
            if call.callbacks:
                self._run_callbacks(call)
        finally:
            try:
                self._leave(call)
            except BaseException:  # an interrupt during `_leave`
                self._leave(call)
                raise
        try:
            if call.interrupt is not None:
                raise call.interrupt
            if call.is_lost or call.task is None or call.task.cancelled():
                raise ConnectionClosed("another thread was interrupted", sent=True)
            result: T = call.task.result()
            return result
        finally:
            del call  # avoids a cycle of the error, its traceback and this frame

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Schedule a function on the loop, from any thread or signal handler."""
        loop = self._loop
        if loop is not None and not self._is_forked:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(function, *args)

    def close_later(
        self, aclose: Callable[[], Coroutine[Any, Any, Any]], close: Callable[[], None]
    ) -> None:
        """Start to close during a call of this thread; `close` runs after the call."""
        if threading.get_ident() in self._active_calls:
            self._deferred_close = close

        def begin() -> None:
            closing = asyncio.ensure_future(aclose())
            closing.add_done_callback(lambda _: self.end(wait=0))

        self.post(begin)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in a call, or is the background thread."""
        ident = threading.get_ident()
        thread = self._thread
        return ident in self._active_calls or (
            thread is not None and thread.ident == ident
        )

    def _enter(self, call: _Call) -> None:
        thread = self._thread
        if (
            self._is_forked
            or call.thread in self._active_calls
            or (thread is not None and thread.ident == call.thread)
        ):
            raise LocalProtocolError(
                "this client belongs to the parent process; create a new client after "
                "a fork"
                if self._is_forked
                else (
                    "this thread is in a call of this client: code on its event loop "
                    "or in a signal handler can close the client, but not call it"
                )
            )
        with self._loop_lock:
            if self._loop is None:
                self._loop = _make_loop(self)
            call.loop = self._loop
            self._active_calls[call.thread] = call
            if self.wants_thread and not self._is_ended:
                self._start_thread()
            ending = self._ending
        if ending is not None and not is_on_loop(ending):
            self._is_closed.wait(CLOSE_TIMEOUT_S)

    def _leave(self, call: _Call) -> None:
        """Undo the steps that a call has taken; idempotent."""
        if not call.is_submitted:
            call.work.close()  # avoids the warning "was never awaited"
        if self._active_calls.get(call.thread) is not call:
            return
        if not call.is_done:
            self.post(call.cancel)
        self._release_loop(call)
        if call in self._sleeping:
            self._sleeping.remove(call)
        del self._active_calls[call.thread]
        close, self._deferred_close = self._deferred_close, None
        if close is not None:
            close()
        if self._is_ended:
            self._close_unless_needed()

    def _wait(self, call: _Call) -> None:
        """Run the loop until this call is woken, or sleep until then."""
        if self._claim_loop(call):
            self._run_loop(call)
            return
        if not call.is_submitted:
            call.is_submitted = True
            try:
                call.loop.call_soon_threadsafe(call.start)
            except RuntimeError:  # the loop is closed
                call.is_lost = True
                return
        self._sleeping.append(call)
        if self._claim_loop(call):  # the loop became free before this call was listed
            self._sleeping.remove(call)
            self._run_loop(call)
            return
        try:
            call.wakeup.get()
        except BaseException as error:  # noqa: BLE001 - raised when the call has ended
            self._interrupt(call, error)
        self._sleeping.remove(call)

    def _claim_loop(self, call: _Call) -> bool:
        """Claim the loop for a call; return whether no other call has claimed it."""
        # Atomic, so that an interrupt cannot lose the leader.
        return self._leader.setdefault("leader", call) is call

    def _release_loop(self, call: _Call) -> None:
        """Release the loop; wake the calls that are done, and one to run the loop."""
        call.is_running_loop = False
        if self._leader.get("leader") is call:
            del self._leader["leader"]
            for other in list(self._sleeping):  # an atomic copy
                other.wakeup.put(None)
                if not other.is_done:
                    return

    def _run_loop(self, call: _Call) -> None:
        """Run the loop until this call is woken, and pass the loop on."""
        loop = call.loop
        try:
            if call.is_done or call.callbacks:  # by the thread that ran the loop before
                return
            if is_on_loop():  # the user's loop: no other loop can run in this thread
                self.wants_thread = True
                with self._loop_lock:
                    self._start_thread()
                return
            call.is_running_loop = True
            if not call.is_submitted:
                call.is_submitted = True
                call.start()
            loop.run_forever()
            if self._unfinished:
                self._finish_tasks(call)
        except BaseException as error:  # noqa: BLE001 - raised by the call
            call.interrupt = error
            call.is_running_loop = False
            self._abandon_loop(loop, error)
        finally:
            self._release_loop(call)

    def run_until_done(self, task: asyncio.Task[Any]) -> None:
        """Make the last thread run the loop until a task is done."""
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)

    def _finish_tasks(self, call: _Call) -> None:
        """Run the tasks of `run_until_done`, unless another call will run the loop."""
        if not call.is_done or not all(other.is_done for other in self._sleeping):
            return
        loop = call.loop
        rest = loop.create_task(
            asyncio.wait(tuple(self._unfinished), timeout=TASK_END_TIMEOUT_S)
        )
        rest.add_done_callback(lambda _: loop.stop())
        loop.run_forever()

    def caller_post(self) -> Callable[..., None] | None:
        """Return the `post` method of the current task's call; ``None``: no call."""
        task = asyncio.current_task()
        calls = (
            call for call in tuple(self._active_calls.values()) if call.task is task
        )
        return next((call.post for call in calls), None)

    def _run_callbacks(self, call: _Call) -> None:
        """Call the queued functions in this thread, outside of the call."""
        while call.callbacks:
            function, args = call.callbacks.popleft()
            if call.interrupt is not None:
                continue  # the call is ending
            del self._active_calls[call.thread]  # the function may call the client
            try:
                outcome = function(*args)
                if iscoroutine(outcome):  # a function that calls an async one
                    self.run(outcome)
            except Exception:
                logger.exception("callback %r raised", function)
            except BaseException as error:  # noqa: BLE001 - raised when the call has ended
                self._interrupt(call, error)
            finally:
                self._active_calls[call.thread] = call

    # Interrupts

    def on_signal(self, error: BaseException) -> None:
        """Handle an exception that a signal handler raised in the selector."""
        call = self._leader.get("leader")
        if call is None or not call.is_running_loop:
            raise error
        self._interrupt(call, error)

    def _interrupt(self, call: _Call, error: BaseException) -> None:
        """Cancel a call; the second time abandon all connections instead."""
        if call.interrupt is None:
            self.post(call.cancel)
        else:
            self.abandon_all()
            call.is_lost = True
            call.wake()
        call.interrupt = error

    def _abandon_loop(
        self, loop: asyncio.AbstractEventLoop, error: BaseException | None = None
    ) -> None:
        """Abandon all connections and calls of a loop in an inconsistent state."""
        if isinstance(loop, _Loop):
            loop.is_abandoned = True
        self.abandon_all()
        with self._loop_lock:
            if self._loop is loop:
                self._detach_loop(loop)
        loop.set_exception_handler(lambda *_: None)  # the calls raise the errors
        try:
            self._end_loop(loop)
        finally:
            for call in tuple(self._active_calls.values()):
                if call.loop is loop:
                    call.is_lost = not call.is_done or call.is_ended_by(error)
                    call.wakeup.put(None)

    # The background thread

    def _start_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            assert self._loop is not None
            self._is_stopping = False  # not earlier: `end` joins a stopping thread
            thread = threading.Thread(
                target=self._serve, args=(self._loop,), name="mcpwire-sync", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # the interpreter is exiting
                thread.start()
                self._thread = thread
                _background_runners.add(self)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until the runner drops it or stops the thread."""
        background_call = _Call(None)
        self._sleeping.appendleft(background_call)  # ahead of all calls
        while not self._claim_loop(background_call):
            background_call.wakeup.get()
        self._sleeping.remove(background_call)
        try:
            while self._loop is loop and not self._is_stopping:
                loop.run_forever()
        except BaseException:
            logger.exception("a function on the loop of a blocking client raised")
            self._abandon_loop(loop)
        finally:
            with self._loop_lock:
                self._thread = None
            self._release_loop(background_call)
        if self._is_ended:
            self._close_unless_needed()

    # The end

    def end(self, *, wait: float | None = None) -> None:
        """Close the loop once it is not needed; wait up to `wait` s for its thread."""
        thread = self._thread
        self._is_ended = True
        self._close_unless_needed()
        if thread is None or thread is threading.current_thread():
            return
        if self._is_stopping:
            thread.join(wait)

    def _close_unless_needed(self) -> None:
        """Close the loop, unless a call or a new connection needs it."""
        with self._loop_lock:
            loop = self._loop
            if loop is None or self._active_calls or self._is_forked:
                return
            if self.is_needed():
                self._is_ended = False
                if self.wants_thread:
                    self._start_thread()
                return
            if self._thread is not None:
                self._is_stopping = True
                self.post(loop.stop)
                return
            self._detach_loop(loop)
        self._end_loop(loop)

    def _detach_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Detach a loop; the next call waits until it is closed, and makes another."""
        self._is_closed.clear()
        self._loop, self._ending = None, loop

    def _end_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            _end_loop(loop)
        finally:
            self._is_closed.set()
            if self._ending is loop:
                self._ending = None

    def after_fork(self) -> None:
        """Refuse all calls in a forked process: the connections are the parent's."""
        self._loop_lock = _Lock()  # another thread may have held the lock
        self._ending = None  # or may have been closing a loop
        if self._loop is not None:
            _parent_loops.append(self._loop)
            self._is_forked = True
        else:
            self._active_calls.clear()


def _make_loop(runner: Runner) -> asyncio.AbstractEventLoop:
    """Make a loop; on Windows a proactor loop, which can start processes."""
    loop: asyncio.AbstractEventLoop
    if sys.platform == "win32":
        loop = asyncio.ProactorEventLoop()
    else:
        loop = _Loop(_Selector(runner.on_signal))
    set_blocking_runner(loop, runner)
    return loop


def _end_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks of a loop, wait for their end, and close the loop."""
    if loop.is_closed():  # finalized by the garbage collector before its client
        return
    if is_on_loop():
        _call_in_thread(_end_loop, loop)
        return
    try:
        # A pending stop request would end the next run, so consume it.
        loop.call_soon(loop.stop)
        loop.run_forever()
        for _ in range(2):  # a task that ends may start one, such as a last message
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=TASK_END_TIMEOUT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        _call_in_thread(loop.close)  # an interrupted `close` would leak a descriptor


def _call_in_thread(function: Callable[..., None], *args: Any) -> None:
    """Call a function in a new thread, where no interrupt is raised."""
    done: SimpleQueue[None] = SimpleQueue()

    def call() -> None:
        try:
            function(*args)
        finally:
            done.put(None)

    try:
        if sys.is_finalizing() or not _try_start_thread(call):
            call()
        done.get()
    except BaseException:  # an interrupt, while it starts or waits for the thread
        with contextlib.suppress(Empty):
            done.get(timeout=TASK_END_TIMEOUT_S)
        raise


def _try_start_thread(function: Callable[[], None]) -> bool:
    """Start a thread; return ``False`` if the exiting interpreter cannot."""
    try:
        threading.Thread(target=function, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _end_threads() -> None:
    """Stop background threads at exit while they can still close their loops."""
    for runner in tuple(_background_runners):
        runner.is_needed = bool
        runner.end(wait=EXIT_TIMEOUT_S)  # a function on the loop may block it forever


atexit.register(_end_threads)
