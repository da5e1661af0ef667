"""Runs the asyncio client for blocking callers: the thread that waits runs the loop.

Each blocking object has one event loop and, as a rule, no thread behind it::

    first caller ──► runs the loop until its call is done ──► passes the loop on
    other caller ──► hands its coroutine over, sleeps ──► is done, or runs the loop

A background thread runs the loop instead where that was asked for, and where a calling
thread runs an event loop of its own. An interrupt (Ctrl-C) arrives in the selector
almost always. There it is one more event: it cancels the call of its thread. One that
arrives in the middle of a callback may have lost a step of the loop, so everything on
that loop is ended, and the next call gets a new one.
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
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.errors import ConnectionClosed, LocalProtocolError
from mcpwire.transports.base import let_go_after_fork, runs_here
from mcpwire.transports.handlers import set_callers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Runner"]

T = TypeVar("T")

END_S: Final = 1.0
"""How long what still runs on a loop may take to end when the loop is given up."""

CLOSED_S: Final = 5.0
"""How long a call waits for another thread to close the loop before its own."""

EXIT_S: Final = 5.0
"""How long the exit of the interpreter waits for a background thread."""

logger = logging.getLogger("mcpwire")

_in_background: weakref.WeakSet[Runner] = weakref.WeakSet()

_of_parent: Final[list[asyncio.AbstractEventLoop]] = []
"""Loops that a forked process must not close."""

# Polls: an epoll instance would be shared with forked processes.
if TYPE_CHECKING or hasattr(selectors, "PollSelector"):
    _Poll = selectors.PollSelector
else:
    _Poll = selectors.SelectSelector  # Windows


class _Selector(_Poll):
    """A selector to which an exception of a signal handler is one more event."""

    def __init__(self, on_signal: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._on_signal = on_signal

    def select(self, timeout: float | None = None) -> Any:
        """Wait for events; return none where a signal handler raised."""
        try:
            return super().select(timeout)
        except BaseException as error:  # noqa: BLE001 - raised by the call it ends
            self._on_signal(error)
            return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that can be ended after an interrupt left it marked as running.

    Attributes:
        is_given_up: Whether the thread that ran it has left it.
    """

    is_given_up = False

    def is_running(self) -> bool:
        """Whether a thread runs it."""
        return super().is_running() and not self.is_given_up


class _Lock:
    """A re-entrant lock that no interrupt leaves locked.

    A built-in one stays locked, from Python 3.14 on, where an interrupt is raised
    between its `__enter__` and the block. A method that unlocks is no help: one may be
    raised as it begins.
    """

    __slots__ = ("__exit__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.__exit__ = self._lock.__exit__

    def __enter__(self) -> None:
        try:
            self._lock.acquire()
        except BaseException:  # an interrupt, as it waited or once it had the lock
            with contextlib.suppress(RuntimeError):
                self._lock.release()
            raise


class _Call:
    """A coroutine that a thread waits for.

    Attributes:
        items: Functions, with their arguments, that the thread is to call.
        interrupt: What a signal handler raised in the thread.
        is_lost: Whether the loop was given up before the call was done.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self, work: Any) -> None:
        self.work = work
        self.thread = threading.get_ident()
        self.task: asyncio.Task[Any] | None = None
        self.items: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self.bell: SimpleQueue[None] = SimpleQueue()  # wakes the thread
        self.interrupt: BaseException | None = None
        self.is_submitted = False
        self.is_leading = False  # whether the thread runs the loop
        self.is_lost = False

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.is_lost or (self.task is not None and self.task.done())

    def ended_by(self, error: BaseException | None) -> bool:
        """Tell whether an interrupt arrived in the middle of the call's task."""
        task = self.task
        if error is None or task is None or not task.done() or task.cancelled():
            return False
        return task.exception() is error

    def start(self) -> None:
        """Begin; called on the loop, or by the thread that is about to run it."""
        self.task = self.loop.create_task(self.work)
        self.task.add_done_callback(self.wake)

    def wake(self, _: object = None) -> None:
        """Have the thread look at the call, whether it sleeps or runs the loop."""
        self.bell.put(None)
        if self.is_leading:
            self.loop.stop()

    def post(self, function: Callable[..., Any], *args: Any) -> None:
        """Have the thread call a function; called on the loop."""
        self.items.append((function, args))
        self.wake()

    def cancel(self) -> None:
        """End the call; called on the loop."""
        if self.task is not None:
            self.task.cancel()


class Runner:
    """One event loop, run by whichever thread waits for a call on it.

    Attributes:
        wants_thread: Whether a thread of its own runs the loop from the next call on.
        abandon_all: Lets go of every connection on the loop, at once, from any thread.
        is_needed: Tells whether a connection is on the loop, also between calls.
    """

    def __init__(self, *, wants_thread: bool = False) -> None:
        self.abandon_all: Callable[[], bool] = bool
        self.is_needed: Callable[[], bool] = bool
        self.wants_thread = wants_thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.AbstractEventLoop | None = None  # one being closed
        self._is_closed = threading.Event()  # set when that is done
        self._leader: dict[
            str, _Call
        ] = {}  # the caller of the thread that runs the loop
        self._changing = _Lock()  # guards making and closing the loop
        self._asleep: deque[_Call] = deque()
        self._inside: dict[int, _Call] = {}  # by thread
        self._thread: threading.Thread | None = None
        self._unsent: set[asyncio.Task[Any]] = set()
        self._is_ended = False  # until something needs the loop again
        self._is_stopping = False  # the background thread
        self._is_forked = False
        self._close: Callable[[], None] | None = None
        let_go_after_fork(self)

    # Calls...

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result, or raise its error."""
        call = _Call(work)
        try:
            self._enter(call)
            # No `if` ends the loop: from Python 3.14 on an interrupt that is raised as
            # it goes round would pass the `finally`.
            while not call.is_done:
                if call.items:
                    self._call_back(call)
                self._wait(call)
            if call.items:
                self._call_back(call)
        finally:
            try:
                self._leave(call)
            except BaseException:  # an interrupt in the middle of it
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
            del call  # an error holds this frame, and must not be held by it

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Have a function called on the loop, without waiting; works anywhere."""
        loop = self._loop
        if loop is not None and not self._is_forked:
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(function, *args)

    def close_later(
        self, aclose: Callable[[], Coroutine[Any, Any, Any]], close: Callable[[], None]
    ) -> None:
        """Begin a closing from within a call; the thread finishes it after that."""
        if threading.get_ident() in self._inside:
            self._close = close

        def begin() -> None:
            closing = asyncio.ensure_future(aclose())
            closing.add_done_callback(lambda _: self.end(wait=0))

        self.post(begin)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in a call, or runs the loop."""
        ident = threading.get_ident()
        thread = self._thread
        return ident in self._inside or (thread is not None and thread.ident == ident)

    def _enter(self, call: _Call) -> None:
        thread = self._thread
        if (
            self._is_forked
            or call.thread in self._inside
            or (thread is not None and thread.ident == call.thread)
        ):
            raise LocalProtocolError(
                "this client belongs to the process that this one was forked from; "
                "make one of its own here"
                if self._is_forked
                else "this thread is in a call of this client: what runs meanwhile, on "
                "its event loop or in a signal handler, can close it but not call it"
            )
        with self._changing:
            if self._loop is None:
                self._loop = _make_loop(self)
            call.loop = self._loop
            self._inside[call.thread] = call
            if self.wants_thread and not self._is_ended:
                self._start_thread()
            ending = self._ending
        if ending is not None and not runs_here(ending):
            self._is_closed.wait(CLOSED_S)

    def _leave(self, call: _Call) -> None:
        """Undo what a call has done, however far it came; does nothing twice."""
        if not call.is_submitted:
            call.work.close()  # refused; else Python warns that nobody awaited it
        if self._inside.get(call.thread) is not call:
            return
        if not call.is_done:
            self.post(call.cancel)
        self._stop_leading(call)
        if call in self._asleep:
            self._asleep.remove(call)
        del self._inside[call.thread]
        close, self._close = self._close, None
        if close is not None:
            close()
        if self._is_ended:
            self._end_or_go_on()

    def _wait(self, call: _Call) -> None:
        """Run the loop until this call is woken, or sleep until then."""
        if self._may_lead(call):
            self._lead(call)
            return
        if not call.is_submitted:
            call.is_submitted = True
            try:
                call.loop.call_soon_threadsafe(call.start)
            except RuntimeError:  # the loop was given up
                call.is_lost = True
                return
        self._asleep.append(call)
        if self._may_lead(call):  # the loop was passed on before this call slept
            self._asleep.remove(call)
            self._lead(call)
            return
        try:
            call.bell.get()
        except BaseException as error:  # noqa: BLE001 - raised when the call has ended
            self._interrupt(call, error)
        self._asleep.remove(call)

    def _may_lead(self, call: _Call) -> bool:
        """Become the one that runs the loop, if there is none."""
        # One step, whatever interrupts this thread: the leader is never unknown.
        return self._leader.setdefault("leader", call) is call

    def _stop_leading(self, call: _Call) -> None:
        """Wake those that are done, and one to run the loop, where this call did."""
        call.is_leading = False
        if self._leader.get("leader") is call:
            del self._leader["leader"]
            for other in list(self._asleep):  # a copy made in one step
                other.bell.put(None)
                if not other.is_done:
                    return

    def _lead(self, call: _Call) -> None:
        """Run the loop until this call is woken, and pass it on."""
        loop = call.loop
        try:
            if call.is_done or call.items:  # by the thread that ran the loop before
                return
            if runs_here():  # a loop of the user's: no other can run in this thread
                self.wants_thread = True
                with self._changing:
                    self._start_thread()
                return
            call.is_leading = True
            if not call.is_submitted:
                call.is_submitted = True
                call.start()
            loop.run_forever()
            if self._unsent:
                self._send_rest(call)
        except BaseException as error:  # noqa: BLE001 - raised by the call
            call.interrupt = error
            call.is_leading = False
            self._give_up(loop, error)
        finally:
            self._stop_leading(call)

    def stay_for(self, task: asyncio.Task[Any]) -> None:
        """Let no thread stop the loop as the last one before that task is done."""
        self._unsent.add(task)
        task.add_done_callback(self._unsent.discard)

    def _send_rest(self, call: _Call) -> None:
        """Send what no call waits for, such as an answer, unless a thread goes on."""
        if not call.is_done or not all(other.is_done for other in self._asleep):
            return
        loop = call.loop
        rest = loop.create_task(asyncio.wait(tuple(self._unsent), timeout=END_S))
        rest.add_done_callback(lambda _: loop.stop())
        loop.run_forever()

    def of_caller(self) -> Callable[..., None] | None:
        """Return what has functions called by the thread that waits for this task."""
        task = asyncio.current_task()
        calls = (call for call in tuple(self._inside.values()) if call.task is task)
        return next((call.post for call in calls), None)

    def _call_back(self, call: _Call) -> None:
        """Call the functions that wait for that, outside of the call."""
        while call.items:
            function, args = call.items.popleft()
            if call.interrupt is not None:
                continue  # its call is ending
            del self._inside[call.thread]  # it may call the client
            try:
                function(*args)
            except Exception:
                logger.exception("callback %r raised", function)
            except BaseException as error:  # noqa: BLE001 - raised when the call has ended
                self._interrupt(call, error)
            finally:
                self._inside[call.thread] = call

    # Interrupts...

    def on_signal(self, error: BaseException) -> None:
        """Take what a signal handler raised while the loop waited for events."""
        call = self._leader.get("leader")
        if call is None or not call.is_leading:
            raise error
        self._interrupt(call, error)

    def _interrupt(self, call: _Call, error: BaseException) -> None:
        """Cancel a call; the second time let go of everything instead."""
        if call.interrupt is None:
            self.post(call.cancel)
        else:
            self.abandon_all()
            call.is_lost = True
            call.wake()
        call.interrupt = error

    def _give_up(
        self, loop: asyncio.AbstractEventLoop, error: BaseException | None = None
    ) -> None:
        """End everything on a loop that may have lost a step."""
        if isinstance(loop, _Loop):
            loop.is_given_up = True
        self.abandon_all()
        with self._changing:
            if self._loop is loop:
                self._let_go(loop)
        loop.set_exception_handler(lambda *_: None)  # what failed is told by its calls
        try:
            self._end_loop(loop)
        finally:
            for call in tuple(self._inside.values()):
                if call.loop is loop:
                    call.is_lost = not call.is_done or call.ended_by(error)
                    call.bell.put(None)

    # The thread...

    def _start_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            assert self._loop is not None
            self._is_stopping = False  # not before: `end` waits for one that is over
            thread = threading.Thread(
                target=self._serve, args=(self._loop,), name="mcpwire-sync", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # the interpreter is exiting
                thread.start()
                self._thread = thread
                _in_background.add(self)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until it is closed or given up."""
        place = _Call(None)
        self._asleep.appendleft(place)  # before every call
        while not self._may_lead(place):
            place.bell.get()
        self._asleep.remove(place)
        try:
            while self._loop is loop and not self._is_stopping:
                loop.run_forever()
        except BaseException:
            logger.exception("a function on the loop of a blocking client raised")
            self._give_up(loop)
        finally:
            with self._changing:
                self._thread = None
            self._stop_leading(place)
        if self._is_ended:
            self._end_or_go_on()

    # The end...

    def end(self, *, wait: float | None = None) -> None:
        """Close the loop when nothing needs it; wait so long for its thread."""
        thread = self._thread
        self._is_ended = True
        self._end_or_go_on()
        if thread is None or thread is threading.current_thread():
            return
        if self._is_stopping:
            thread.join(wait)

    def _end_or_go_on(self) -> None:
        """Close the loop after a closing; unless another thread has connected again."""
        with self._changing:
            loop = self._loop
            if loop is None or self._inside or self._is_forked:
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
            self._let_go(loop)
        self._end_loop(loop)

    def _let_go(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the next call wait until this loop is closed, and make another."""
        self._is_closed.clear()
        self._loop, self._ending = None, loop

    def _end_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            _end_loop(loop)
        finally:
            self._is_closed.set()
            if self._ending is loop:
                self._ending = None

    def forked(self) -> None:
        """Refuse every use: the connections belong to the process forked from."""
        self._changing = _Lock()  # another thread may have held that
        self._ending = None  # or may have been closing this
        if self._loop is not None:
            _of_parent.append(self._loop)
            self._is_forked = True
        else:
            self._inside.clear()


def _make_loop(runner: Runner) -> asyncio.AbstractEventLoop:
    """Make a loop; on Windows one that can start processes."""
    loop: asyncio.AbstractEventLoop
    if sys.platform == "win32":
        loop = asyncio.ProactorEventLoop()
    else:
        loop = _Loop(_Selector(runner.on_signal))
    set_callers(loop, runner)
    return loop


def _end_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what runs on a loop, wait for its end, and close the loop."""
    if loop.is_closed():  # the garbage collector has met it before its client
        return
    if runs_here():
        _call_apart(_end_loop, loop)
        return
    try:
        # A stop that was asked for as the loop stopped would end the next run.
        loop.call_soon(loop.stop)
        loop.run_forever()
        for _ in range(2):  # what ends may begin something, such as a last message
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=END_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        _call_apart(loop.close)  # interrupted, it would leave a descriptor open


def _call_apart(function: Callable[..., None], *args: Any) -> None:
    """Call a function in a thread of its own, where no interrupt arrives."""
    if sys.is_finalizing():  # it would not run any more
        function(*args)
        return
    done: SimpleQueue[None] = SimpleQueue()

    def call() -> None:
        try:
            function(*args)
        finally:
            done.put(None)

    try:
        threading.Thread(target=call, daemon=True).start()
    except RuntimeError:  # the interpreter is exiting
        function(*args)
        return
    try:
        done.get()
    except BaseException:
        with contextlib.suppress(Empty):
            done.get(timeout=END_S)
        raise


def _end_threads() -> None:
    """Stop background threads while they can still close their loops."""
    for runner in tuple(_in_background):
        runner.is_needed = bool
        runner.end(wait=EXIT_S)  # a function on its loop may block it for ever


atexit.register(_end_threads)
