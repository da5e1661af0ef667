"""One server of a group: its client, its state, its reconnection.

::

    idle ──connect──► connecting ──► ready ──lost──► lost ──next call──► ready
     ▲                    │            ▲               │ with a Backoff
     │ idle too long      │            └─ connected ─ restarting ─► failed
     └────────────────────┼─► failed, needs_auth                   needs_auth
                          ▼ cancelled: idle

There are no locks. A managed server that left the group is closed for good: code that
continues after an ``await`` checks `is_closed`, and a server added under the same name
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

CLOSE_S: Final = 10.0
"""Seconds that closing may take in addition to the time for a child process to exit. No
client should need as long; a close that does is abandoned."""


class ManagedServer:
    """A server in a group: its client, its state, its reconnection."""

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
        self.is_lazy = is_lazy  # counts as in the group before it is connected
        self.is_new = False  # was not configured before this `connect`
        self.close_timeout = close_timeout
        self.is_closed = False  # has left the group
        self.is_pinned = False  # a user holds the client: not closed when idle
        self.is_logging = False  # `set_log_level` was called: not closed when idle
        self.has_lived = False  # was connected, and not closed since
        self.seconds = 0.0  # duration of the last attempt to connect
        # The closing of the replaced server.
        self.before: asyncio.Task[Any] | None = None
        self._group = group
        self.state: ServerState = "idle"
        self._since = monotonic()
        self.problem: Exception | None = None  # the reason that it is not ready
        self._restarts = 0
        self._calls = 0
        self._answered = False  # whether a call succeeded since it was connected
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

    # State

    @property
    def is_there(self) -> bool:
        """Whether it counts as in the group: lazy, or connected and not closed."""
        return self.has_lived or self.is_lazy

    @property
    def is_connecting(self) -> bool:
        """Whether a caller waits for it to be connected."""
        return self._connecting is not None

    @property
    def needs_opening(self) -> bool:
        """Whether it must be connected before the client can be used."""
        return not self.has_lived

    def status(self) -> ServerStatus:
        """Return the current status."""
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

    # Connecting

    async def connect(self) -> None:
        """Connect, or join an attempt that is under way.

        Cancelling the last caller cancels the attempt. Raises the errors of
        `Client.connect`, and `ConnectionClosed` if the server has left the group.
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
            if not task.done():  # an eager task may be
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
        """Whether it was connected, but every caller was cancelled before."""
        return self.has_lived and not self._taken and not self._waiters

    def give_back(self) -> bool:
        """Revoke one successful `connect`; return whether no other caller uses it."""
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
        """Record that it is connected; may be called more than once."""
        if self.state == "ready" and self.has_lived:
            return
        came_back = self.has_lived
        self._restarts += came_back
        self.has_lived = True
        self._answered = False
        self._set_state("ready")
        if self._attempts is not None:
            self._attempts.opened(monotonic())
        if not self._is_trying:  # else the reconnecting task ends by itself
            self._stop_restarting()
        self._use()
        self._group.source.tell(self.name)

    # Events of the client (`client.inbound.Observer`)

    def heard(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        """Pass a notification to the group, with the server's name."""
        self._group.heard(self.name, method, params, size)

    def changed(self) -> None:
        """Update the state: the connection was lost, opened again, or closed."""
        if self.client.is_connected:
            self._opened()
        elif self.has_lived:
            lost = self.client.lost
            if lost is None:  # a user closed the client
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
        """Reconnect with growing delays until connected or out of attempts."""
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

    # Calls

    def begin(self) -> None:
        """Count the begin of a call."""
        self._calls += 1
        self._in_flight += 1

    def end(self, *, answered: bool) -> None:
        """Count the end of a call."""
        self._in_flight -= 1
        self._answered = self._answered or answered
        self._use()

    def _use(self) -> None:
        """Record a use, and start the idle timer unless it runs."""
        self._used_at = monotonic()
        idle = self._group.idle
        if self.is_lazy and idle is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(idle, self._look)

    def _look(self) -> None:
        """Close the connection if it was idle for long enough, else wait again."""
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
        """Whether calls are pending, a user holds the client or awaits its events."""
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
        except Exception as error:  # noqa: BLE001 - it counts as closed anyway
            warn("closing", self.name, error)
        finally:
            self._closing_idle = None

    # Closing

    def forget_loop(self) -> None:
        """Discard the tasks of a closed event loop, as the client does with its own."""
        self._connecting = self._restarting = self._closing_idle = self.before = None
        self._timer = None
        self._waiters = self._taken = self._in_flight = 0
        self.has_lived = False
        self._set_state("idle")

    def leave(self) -> None:
        """Record that it has left the group; does not wait."""
        self.is_closed = True
        self._undo()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Leave the group, cancel its tasks and close the client; bounded in time."""
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
        """Close; errors are logged."""
        try:
            await self.close()
        except Exception as error:  # noqa: BLE001 - no caller to raise it to
            warn("closing", self.name, error)


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn


def _state_after(error: Exception) -> ServerState:
    from mcpwire.auth.errors import AuthRequired

    return "needs_auth" if isinstance(error, AuthRequired) else "failed"


def is_worth_repeating(error: Exception) -> bool:
    """Return whether another attempt may succeed.

    False if a user must log in first, or the program must be corrected.
    """
    if isinstance(error, AuthError):
        from mcpwire.auth.errors import AuthTemporarilyUnavailable

        return isinstance(error, AuthTemporarilyUnavailable)
    return not isinstance(error, (LocalProtocolError, ValueError, TypeError))
