"""An event loop with a virtual clock: tests of timeouts and back-off take no real time.

The clock stands still while code runs. When no callback is ready::

    a task awaits `advance`       ──► the clock moves to the next timer, up to the goal
    auto_advance, no real work    ──► the clock jumps to the next timer at once
    auto_advance, real work       ──► the clock runs as a real clock until I/O is ready
    else                          ──► the clock stands still, and the loop waits for I/O

Real work is a descriptor that the loop watches (a pipe, a socket), a child process, or
a function in the loop's executor: it takes real time, so a jumping clock would end it
by timeouts.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import selectors
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from concurrent.futures import Executor

    _Events = list[tuple[selectors.SelectorKey, int]]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_S: Final = 1_000.0
"""Initial time of a clock: not zero, which code may take for "no time"."""

PATIENCE_S: Final = 10.0
"""Limit, in real time, of a wait for I/O without any event."""

SLICE_S: Final = 0.02
"""Longest wait in real time before the loop checks again for real work."""

WAITING_THREADS: Final = ("asyncio-waitpid-", "waitpid-", "mcpwire-wait")
"""Names of threads that wait for children: asyncio's, and ours without a pidfd."""


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock; see the module's text.

    Use it as a loop factory::

        with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
            runner.run(main())

    Args:
        auto_advance: Whether the clock advances by itself when no callback is ready;
            otherwise only `advance` and `jump` move it.
        start: The initial value of `time`, in seconds.
        patience: Real seconds to wait for I/O while the clock cannot advance; then the
            loop raises `RuntimeError`, since the test would hang.
    """

    def __init__(
        self,
        *,
        auto_advance: bool = True,
        start: float = START_S,
        patience: float = PATIENCE_S,
    ) -> None:
        self.auto_advance = auto_advance
        self._now = start
        self._patience = patience
        self._goal = start
        self._goal_reached: asyncio.Future[None] | None = None
        self._real_work = 0
        self._last_real_time = monotonic()
        self._threads = set(threading.enumerate())  # threads that do not use this loop
        selector = _ClockSelector(self._select)
        self._watched: Mapping[Any, Any] = selector.get_map()
        super().__init__(selector)
        self._own_descriptors = len(self._watched)

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    async def advance(self, seconds: float) -> None:
        """Advance the clock by some seconds; each timer due in them fires at its time.

        It returns when the clock has reached the goal and no callback is ready.

        Raises:
            ValueError: `seconds` is negative or not a number.
            RuntimeError: Another task is already advancing the clock.
        """
        _check_seconds(seconds)
        if self._goal_reached is not None:
            raise RuntimeError("the clock is being advanced already")
        self._goal = self._now + seconds
        self._goal_reached = self.create_future()
        try:
            await self._goal_reached
        finally:
            self._goal_reached = None

    def jump(self, seconds: float) -> None:
        """Advance the clock at once, as after a machine's sleep: timers fire late.

        Raises:
            ValueError: `seconds` is negative or not a number.
        """
        _check_seconds(seconds)
        self._now += seconds

    @contextlib.contextmanager
    def real_time(self) -> Iterator[None]:
        """Run the clock in real time during the block, for work hidden from the loop.

        Such work is in threads other than those of the loop's executor.
        """
        self._real_work += 1
        try:
            yield
        finally:
            self._real_work -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; the clock runs in real time until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._real_work += 1
        future.add_done_callback(self._on_work_done)
        return future

    async def shutdown_default_executor(self, *args: Any, **options: Any) -> None:
        """Wait in real time for the executor's threads."""
        with self.real_time():
            await super().shutdown_default_executor(*args, **options)

    def _on_work_done(self, _: Any) -> None:
        self._real_work -= 1

    @property
    def _is_real(self) -> bool:
        """Whether the clock runs in real time."""
        return self.auto_advance and (
            len(self._watched) > self._own_descriptors
            or self._real_work > 0
            or any(t.name.startswith(WAITING_THREADS) for t in threading.enumerate())
        )

    def _select(
        self, select_io: Callable[[float], _Events], timeout: float | None
    ) -> _Events:
        """Wait for I/O or the next timer, which is due in `timeout` virtual seconds."""
        # Checked before the selector: a thread that has ended has already woken us.
        is_real = self._is_real
        self._follow_real_time(is_real=is_real)
        events = select_io(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if self._goal_reached is not None:
            return self._advance_toward_goal(self._goal_reached, timeout)
        if not self.auto_advance:
            return self._wait_for_io(select_io, "and the clock stands: use `advance`")
        if timeout is None:
            return self._wait_for_io(select_io, "and no timer is set")
        if not is_real:
            self._now += timeout
            return events
        # In slices, because real work such as a thread may end without a wake-up.
        events = select_io(min(timeout, SLICE_S))
        self._follow_real_time(is_real=is_real)
        return events

    def _follow_real_time(self, *, is_real: bool) -> None:
        """Advance by the real time since the last call, if the clock is a real one."""
        now = monotonic()
        if is_real:
            self._now += now - self._last_real_time
        self._last_real_time = now

    def _advance_toward_goal(
        self, goal_reached: asyncio.Future[None], timeout: float | None
    ) -> _Events:
        """Advance to the next timer or to the goal, whichever is first."""
        left = self._goal - self._now
        if left <= 0:
            if not goal_reached.done():
                goal_reached.set_result(None)
        elif timeout is None or timeout >= left:
            self._now = self._goal
        else:
            self._now += timeout
        return []

    def _wait_for_io(
        self, select_io: Callable[[float], _Events], reason: str
    ) -> _Events:
        """Wait for I/O; raise `RuntimeError` after `patience`."""
        is_watching = len(self._watched) > self._own_descriptors
        is_alone = not is_watching and self._threads.issuperset(threading.enumerate())
        # A thread that has ended since the last wait woke the loop before its end.
        events = select_io(0 if is_alone else self._patience)
        if is_alone and not events:
            raise RuntimeError(f"nothing can ever happen: no task is ready {reason}")
        if not events:
            raise RuntimeError(
                f"nothing happened for {self._patience:g} s of real time: "
                f"no task is ready {reason}"
            )
        return events


class _ClockSelector(selectors.DefaultSelector):
    """The system's selector with a function that decides how long to wait."""

    def __init__(
        self, select: Callable[[Callable[[float], _Events], float | None], _Events]
    ) -> None:
        super().__init__()
        self._decide = select

    def select(self, timeout: float | None = None) -> _Events:
        """Return the ready events."""
        return self._decide(super().select, timeout)


def _check_seconds(seconds: float) -> None:
    if not seconds >= 0:  # written so that it refuses NaN, too
        raise ValueError(f"time goes forward only, got {seconds!r} s")


def run(main: Coroutine[Any, Any, T], **options: Any) -> T:
    """Run a coroutine on a new `VirtualClockLoop`, as `asyncio.run` does.

    ::

        run(main())             # timers take no real time
        run(main(), auto_advance=False)

    Raises:
        RuntimeError: No event is possible any more: the tasks wait for each other.
    """
    loop_factory = functools.partial(VirtualClockLoop, **options)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main)
