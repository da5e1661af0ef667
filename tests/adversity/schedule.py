"""Cancels an operation at each of its steps.

A step is where a task of the operation is about to run, where it has
suspended, and where bytes of the peer have been received. Steps are counted, not
timed: the n-th is the same however slow the machine is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import leaks

from mcpwire.transports.duplex import Duplex

SETTLE_S = 10.0
"""Upper bound for the end of a thread that was asked to end."""

LATER_ITERATIONS = (0, 1, 2)
"""How many loop iterations after a step the cancellation comes."""


class Watched(Coroutine):
    """A coroutine that reports before and after each of its steps."""

    def __init__(self, inner: Coroutine, moment: Callable[[], None]) -> None:
        self._inner = inner
        self._moment = moment

    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        self._moment()
        suspended_on = step(*args)
        self._moment()
        return suspended_on

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._inner.throw, *error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Any:
        raise AssertionError("only a task drives it")


class Schedule:
    """One run of an operation, cancelled at its n-th step.

    Attributes:
        fired: Whether there was such a step.
    """

    def __init__(self, moment: int, turns: int, monkeypatch: Any) -> None:
        self._left = moment
        self._named = f"moment {moment}, {turns} turns later"
        self._turns = turns
        self._patches = monkeypatch
        self._victim: asyncio.Task[Any] | None = None
        self.fired = False

    def _moment(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self._strike(self._turns)

    def _strike(self, turns: int) -> None:
        # A task that cancels itself in its last step ends cancelled although all it
        # awaited has returned: no callee could know.
        if turns or asyncio.current_task() is self._victim:
            asyncio.get_running_loop().call_soon(self._strike, max(turns - 1, 0))
        elif self._victim is not None:
            self._victim.cancel()

    def _make_task(self, loop: Any, inner: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(Watched(inner, self._moment), loop=loop, **options)

    def __repr__(self) -> str:
        return f"<cancelled at {self._named}, fired: {self.fired}>"

    async def run(self, operation: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        """Return the operation's task when it has ended, one way or the other."""

        async def operate() -> Any:
            return await operation()

        loop = asyncio.get_running_loop()
        receive = Duplex.receive

        def receive_and_tell(channel: Duplex, data: bytes) -> None:
            receive(channel, data)
            self._moment()

        with self._patches.context() as patch:
            patch.setattr(Duplex, "receive", receive_and_tell)
            loop.set_task_factory(self._make_task)
            try:
                self._victim = loop.create_task(operate())
                await asyncio.wait([self._victim])
            finally:
                loop.set_task_factory(None)
        return self._victim


class Remains:
    """The tasks, children and descriptors that existed before."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._watch = leaks.ResourceSnapshot()

    def assert_none(self) -> None:
        """Fail at once if a new resource exists.

        A thread that was asked to end may need a moment.
        """
        threads = ("thread ", "daemon thread ")
        left = [x for x in self._watch.find_leaks() if not x.startswith(threads)]
        assert not left, left
        assert not (left := self._watch.settle(SETTLE_S)), left
        assert asyncio.all_tasks() == self._tasks


async def cancel_everywhere(
    once: Callable[[Schedule], Awaitable[None]],
    monkeypatch: Any,
    later: tuple[int, ...] = LATER_ITERATIONS,
) -> int:
    """Run `once` with a cancellation at each step; return the number of steps.

    `once` sets up, lets the schedule run the operation, and checks.
    """
    fewest = 10_000
    for turns in later:
        moment = 0
        while True:
            moment += 1
            schedule = Schedule(moment, turns, monkeypatch)
            await once(schedule)
            if not schedule.fired:
                break
        fewest = min(fewest, moment - 1)
    return fewest
