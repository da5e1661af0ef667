"""What an HTTP channel needs of asyncio: a clock, tasks, and pauses that end early."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpwire.errors import LocalProtocolError, MCPError
from mcpwire.protocol.http_reply import LAST_WORDS
from mcpwire.transports.timeouts import CallClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from mcpwire.limits import Limits
    from mcpwire.protocol.http_reply import Reply

__all__ = ["Opening", "Shell"]

logger = logging.getLogger("mcpwire")


class Opening:
    """That the server's own stream was asked for; settled with the first verdict.

    That is the head of an answer, whatever it says, or the failure to get one.
    """

    __slots__ = ("_tells", "is_settled", "until")

    def __init__(self, until: float) -> None:
        self._tells: list[Callable[[], object]] = []
        self.is_settled = False
        self.until = until

    def settle(self) -> None:
        """Tell all who wait that it is known."""
        if not self.is_settled:
            self.is_settled = True
            for tell in tuple(self._tells):
                tell()
            self._tells.clear()

    def wait(self, tell: Callable[[], object]) -> bool:
        """Have `tell` called when it is known; return whether that is to come."""
        if not self.is_settled:
            self._tells.append(tell)
        return not self.is_settled


class _BesideCalls(asyncio.Task[Any]):
    """A task that a program may leave behind with its loop: nothing is lost with it."""

    def __del__(self) -> None:
        """Do not complain that it is pending, as `Task` does: the client does."""


class Shell:
    """The asyncio side of one channel.

    Attributes:
        clock: Ends calls whose deadline has passed.
        has_waiter: Whether somebody waits for the last call's end.
    """

    def __init__(
        self,
        waiting: Mapping[int, Any],
        expire: Callable[[int, Any, float], None],
        limits: Limits,
    ) -> None:
        self._waiting = waiting
        self._loop = asyncio.get_running_loop()
        self._is_forked = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pauses: dict[Reply, asyncio.Future[None]] = {}
        self._quiet: asyncio.Future[None] | None = None
        self.has_waiter = False
        self.time = self._loop.time
        self.clock = CallClock(self._loop, waiting, expire, limits)

    def follow(self, engine: Any) -> None:
        """Hear of it when an engine lets a deadline run again that stood still."""
        if hasattr(engine, "rearm"):
            engine.rearm = self._rearm

    def _rearm(self, at: float) -> None:
        if at < self.clock.at:
            self.clock.arm(at)

    def is_here(self) -> bool:
        """Tell whether calls may be made from here."""
        return asyncio.get_running_loop() is self._loop and not self._is_forked

    def refusal(self) -> MCPError | None:
        """Say why no call may be made from here, if none may."""
        if self._is_forked:
            return LocalProtocolError(
                "this connection belongs to the process that this one was forked from; "
                "connect a client of your own"
            )
        if asyncio.get_running_loop() is not self._loop:
            return LocalProtocolError(
                "this connection belongs to another event loop; "
                "use it where it was opened"
            )
        return None

    def forked(self) -> None:
        """Refuse every use from now on."""
        self._is_forked = True

    # Work beside the calls...

    def spawn(
        self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any
    ) -> asyncio.Task[Any]:
        """Run something beside the calls; it ends by itself, or with the channel."""
        name = f"mcpwire-http-{work.__name__}"
        task = _BesideCalls(work(*args), loop=self._loop, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # An `MCPError` came from closing the channel under it.
        if error is not None and not isinstance(error, MCPError):
            logger.error("%s failed", task.get_name(), exc_info=error)

    async def settle(self, until: float) -> None:
        """Wait for the end of what was spawned, and last words, until then at most."""
        tasks: set[asyncio.Task[Any] | asyncio.Future[None]] = {*self._tasks}
        tasks.discard(asyncio.current_task())
        if any(reply.what in LAST_WORDS for reply in self._waiting.values()):
            tasks.add(self._quiet_soon())
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, until - self.time()))

    async def stop(self) -> None:
        """End what was spawned."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def after(
        self, seconds: float, work: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Have something done later, unless it is cancelled before."""
        return self._loop.call_later(seconds, work, *args)

    # Waiting...

    async def pause(self, reply: Reply, seconds: float) -> None:
        """Let so many seconds pass between two requests of a call.

        Raises:
            MCPError: What `abort` was given.
        """
        if reply.aborted is not None:
            raise reply.aborted
        waiting = self._pauses[reply] = self._loop.create_future()
        timer = self._loop.call_later(seconds, _wake, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            del self._pauses[reply]

    def abort(self, reply: Reply, error: MCPError) -> bool:
        """End the pause of a call with an error; return whether there was one."""
        waiting = self._pauses.get(reply)
        if waiting is None or waiting.done() or self._loop.is_closed():
            return False
        waiting.set_exception(error)
        return True

    def quiet(self) -> None:
        """Note that no call is open any more."""
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    async def until_quiet(self) -> None:
        """Wait until no call is open any more."""
        await self._quiet_soon()

    def _quiet_soon(self) -> asyncio.Future[None]:
        if self._quiet is None or self._quiet.done():
            self._quiet = self._loop.create_future()
        self.has_waiter = True
        return self._quiet

    async def settled(self, reply: Reply, value: Any) -> Any:
        """Return a value of the user's that may have to be awaited first.

        Raises:
            MCPError: What `abort` was given meanwhile.
            LocalProtocolError: Somebody else has cancelled it.
        """
        if not hasattr(value, "__await__"):
            return value
        waiting = self._pauses[reply] = self._loop.create_future()
        work = asyncio.ensure_future(value)
        work.add_done_callback(partial(_seen, waiting))
        try:
            await waiting
        finally:
            work.cancel()
            del self._pauses[reply]
        # It may have come in the same turn of the loop.
        if reply.aborted is not None:
            raise reply.aborted
        if work.cancelled():
            raise LocalProtocolError(
                f"{reply.what}: what gives the headers was cancelled"
            )
        return work.result()


def _seen(waiting: asyncio.Future[None], work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()  # though nobody may wait for it any more
    _wake(waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
