"""One server of a group while it is there: its client, its state, its coming back.

::

    idle ──connect──► connecting ──► ready ──lost──► lost ──next call──► ready
     ▲                    │            ▲               │ with a Backoff
     │ idle for too long  │            └── opened ─ restarting ──► failed
     └────────────────────┼─► failed, needs_auth                   needs_auth
                          ▼ cancelled: idle

Nothing is locked. A managed server that left the group is closed and stays so: code
that continues after an ``await`` looks at `is_closed`, and a server of the same name
gets a new object.
"""

from __future__ import annotations

import asyncio
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    AuthError,
    ConnectionClosed,
    LocalProtocolError,
    RequestTimeout,
)
from mcpwire.group.reports import ServerStatus, warn
from mcpwire.protocol.retry import Restarts
from mcpwire.transports.base import wait_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.client import Client
    from mcpwire.group.group import Group
    from mcpwire.group.member import Member
    from mcpwire.group.reports import ServerState

__all__ = ["CLOSE_S", "ManagedServer"]

CLOSE_S: Final = 10.0
"""How long closing may take beyond what a child is given to exit. No client takes as
long; what does is left to itself."""


class ManagedServer:
    """One server of a group: its client, its state, its restarts."""

    def __init__(
        self,
        group: Group,
        name: str,
        member: Member,
        make: Callable[[], Client],
        *,
        is_lazy: bool,
        close_timeout: float = CLOSE_S,
    ) -> None:
        self.name = name
        self.member = member
        self.client = make()
        self.is_lazy = is_lazy  # it is there before it is connected
        self.is_new = False  # the group did not know it before it was connected
        self.close_timeout = close_timeout
        self.is_closed = False  # it has left the group
        self.is_pinned = False  # somebody has the client itself: not closed when idle
        self.is_logging = False  # it was asked for log messages: likewise
        self.has_lived = False  # it was connected, and not closed since
        self.seconds = 0.0  # of the last connecting
        # The closing of the one that this one replaces.
        self.before: asyncio.Task[Any] | None = None
        self._group = group
        self.state: ServerState = "idle"
        self._since = monotonic()
        self.problem: Exception | None = None  # why it is not ready
        self._restarts = 0
        self._calls = 0
        self._answered = False  # a call, since it was opened
        self._in_flight = 0
        self._used_at = 0.0
        self._waiters = 0
        self._taken = 0
        self._connecting: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._is_trying = False
        self._closing_idle: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        backoff = group.backoff
        self._attempts: Restarts | None = None
        if backoff is not None:
            self._attempts = Restarts(backoff.attempts, backoff.maximum, backoff.pause)
        self._undo = self.client.observe(self)

    # What it is...

    @property
    def is_there(self) -> bool:
        """Whether it counts as one of the group: it is, or was, connected, or lazy."""
        return self.has_lived or self.is_lazy

    @property
    def is_connecting(self) -> bool:
        """Whether a caller waits for it to be connected."""
        return self._connecting is not None

    @property
    def needs_opening(self) -> bool:
        """Whether somebody has to connect it before the client can be used."""
        return not self.has_lived

    def status(self) -> ServerStatus:
        """Return all of it at once."""
        return ServerStatus(
            server=self.name,
            state=self.state,
            since=self._since,
            error=self.problem,
            restarts=self._restarts,
            calls=self._calls,
            in_flight=self._in_flight,
        )

    def _set_state(self, state: ServerState, error: Exception | None = None) -> None:
        if state != self.state:
            self._since = monotonic()
        self.state = state
        self.problem = error

    # Connecting...

    async def connect(self) -> None:
        """Connect it, or wait for the connecting that is under way.

        Cancelling the last caller undoes it. Raises what `Client.connect` does, and
        `ConnectionClosed` where it left the group meanwhile.
        """
        if self.is_closed:
            raise self._gone()
        task = self._connecting
        if task is None or task.cancelling():
            loop = asyncio.get_running_loop()
            task = loop.create_task(
                self._connect(task), name=f"mcpwire-group-connect-{self.name}"
            )
            task.add_done_callback(_look_at)
            if not task.done():  # an eager one may be
                self._connecting = task
        self._waiters += 1
        try:
            await wait_shared(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise self._gone() from None
            if self._waiters == 1 and not task.done():
                task.cancel()
                await asyncio.wait([task])
            raise
        else:
            self._taken += 1
        finally:
            self._waiters -= 1

    def _gone(self) -> ConnectionClosed:
        return ConnectionClosed(
            f"the server {self.name!r} was disconnected while connecting", sent=False
        )

    @property
    def is_unclaimed(self) -> bool:
        """Whether it was connected, and every caller has gone meanwhile."""
        return self.has_lived and not self._taken and not self._waiters

    def give_back(self) -> bool:
        """Take one successful `connect` back; return whether nobody else wants it."""
        self._taken -= 1
        return self._taken <= 0 and not self._waiters

    async def _connect(self, ending: asyncio.Task[None] | None) -> None:
        try:
            for task in (ending, self._closing_idle, self.before):
                if task is not None:
                    await asyncio.wait([task])
            self.before = None
            self._stop_restarting()
            if not self.client.is_connected:
                self._set_state("connecting")
            started = monotonic()
            try:
                await self.client.connect()
            finally:
                self.seconds = monotonic() - started
        except asyncio.CancelledError:
            lost = self.client.lost if self.has_lived else None
            self._set_state("idle" if lost is None else "lost", lost)
            raise
        except Exception as error:
            self._set_state(_state_after(error), error)
            raise
        else:
            self._opened()
        finally:
            if self._connecting is asyncio.current_task():
                self._connecting = None

    def _opened(self) -> None:
        """Record that it is connected; several may tell."""
        if self.state == "ready" and self.has_lived:
            return
        came_back = self.has_lived
        self._restarts += came_back
        self.has_lived = True
        self._answered = False
        self._set_state("ready")
        if self._attempts is not None:
            self._attempts.opened(monotonic())
        if not self._is_trying:  # else that task ends by itself
            self._stop_restarting()
        self._use()
        self._group.source.tell(self.name)

    # What the client tells (`client.inbound.Observer`)...

    def heard(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        """Hand a notification on, with where it is from."""
        self._group.heard(self.name, method, params, size)

    def changed(self) -> None:
        """Look at the connection: it is lost, open again, or closed."""
        if self.client.is_connected:
            self._opened()
        elif self.has_lived:
            lost = self.client.lost
            if lost is None:  # the owner of the client closed it
                self.has_lived = False
                self._taken = 0
                self._stop_restarting()
                self._set_state("idle")
                self._group.source.tell(self.name)
            elif self.state == "ready":
                self._lost(lost)

    def _lost(self, error: Exception) -> None:
        self._set_state("lost", error)
        warn("the connection", self.name, error)
        if self._attempts is not None:
            self._attempts.lost(monotonic(), answered=self._answered)
            self._restarting = asyncio.get_running_loop().create_task(
                self._restart(self._attempts, error),
                name=f"mcpwire-group-restart-{self.name}",
            )

    async def _restart(self, attempts: Restarts, error: Exception) -> None:
        """Open it again and again, ever more slowly, until it stands."""
        while True:
            pause = attempts.delay(monotonic(), random())  # noqa: S311 - jitter
            if pause is None:
                self._set_state("failed", error)
                warn("coming back, for the last time,", self.name, error)
                return
            self._set_state("restarting", error)
            await asyncio.sleep(pause)
            try:
                async with self._group.slots:
                    self._is_trying = True
                    await self.client.connect()
            except Exception as failure:  # noqa: BLE001 - headers' function may raise any
                error = failure
                attempts.failed(monotonic())
                warn("coming back", self.name, error)
                if not is_worth_repeating(error):
                    self._set_state(_state_after(error), error)
                    return
            else:
                return
            finally:
                self._is_trying = False

    def _stop_restarting(self) -> None:
        task, self._restarting = self._restarting, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    # Calls...

    def begin(self) -> None:
        """Count a call that begins."""
        self._calls += 1
        self._in_flight += 1

    def end(self, *, answered: bool) -> None:
        """Count a call that ended."""
        self._in_flight -= 1
        self._answered = self._answered or answered
        self._use()

    def _use(self) -> None:
        """Put off the closing for idleness."""
        self._used_at = monotonic()
        idle = self._group.idle
        if self.is_lazy and idle is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(idle, self._look)

    def _look(self) -> None:
        """Close the connection where nobody has used it for long enough."""
        self._timer = None
        idle = self._group.idle
        if self.is_closed or not self.has_lived or idle is None:
            return
        left = self._used_at + idle - monotonic()
        if self._is_in_use or left > 0:
            seconds = left if left > 0 else idle
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)
            return
        self.has_lived = False
        self._taken = 0
        self._stop_restarting()
        self._set_state("idle")
        self._closing_idle = asyncio.get_running_loop().create_task(
            self._close_idle(), name=f"mcpwire-group-rest-{self.name}"
        )

    @property
    def _is_in_use(self) -> bool:
        """Whether somebody calls it, has it, or waits for what it tells."""
        return bool(
            self.is_pinned
            or self._in_flight
            or self.is_connecting
            or self.is_logging
            or self.client.subscribed
        )

    async def _close_idle(self) -> None:
        try:
            await self.client.aclose()
        except Exception as error:  # noqa: BLE001 - it is closed all the same
            warn("closing", self.name, error)
        finally:
            self._closing_idle = None

    # The end...

    def forget_loop(self) -> None:
        """Let go of what belongs to a loop that has ended; the client does so, too."""
        self._connecting = self._restarting = self._closing_idle = self.before = None
        self._timer = None
        self._waiters = self._taken = self._in_flight = 0
        self.has_lived = False
        self._set_state("idle")

    def leave(self) -> None:
        """Record that it has left the group; at once."""
        self.is_closed = True
        self._undo()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Close it, whatever is under way; bounded in time."""
        self.leave()
        ending = [
            task
            for task in (self._connecting, self._restarting, self._closing_idle)
            if task is not None and not task.done()
        ]
        for task in ending:
            task.cancel()
        started = monotonic()
        try:
            async with asyncio.timeout(self.close_timeout) as scope:
                if ending:
                    await asyncio.wait(ending)
                await self.client.aclose()
        except TimeoutError as error:
            if isinstance(error, RequestTimeout) or not scope.expired():
                raise
            raise RequestTimeout(
                method="close",
                timeout=self.close_timeout,
                elapsed=monotonic() - started,
            ) from None
        finally:
            self.has_lived = False
            self._set_state("idle")

    async def close_quietly(self) -> None:
        """Close it; what goes wrong is logged."""
        try:
            await self.close()
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            warn("closing", self.name, error)


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # seen, even where every caller was cancelled


def _state_after(error: Exception) -> ServerState:
    from mcpwire.auth.errors import AuthRequired

    return "needs_auth" if isinstance(error, AuthRequired) else "failed"


def is_worth_repeating(error: Exception) -> bool:
    """Tell whether another attempt may go well.

    Not where somebody has to log in, or to correct the program, first.
    """
    if isinstance(error, AuthError):
        from mcpwire.auth.errors import AuthTemporarilyUnavailable

        return isinstance(error, AuthTemporarilyUnavailable)
    return not isinstance(error, (LocalProtocolError, ValueError, TypeError))
