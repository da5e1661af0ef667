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
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.retry import RestartBackoff
from mcpwire.transports.base import is_cancelled_here, wait_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.client import Client
    from mcpwire.group.group import Group
    from mcpwire.group.member import Member
    from mcpwire.group.reports import ServerState

CLOSE_TIMEOUT_S: Final = 10.0
"""Seconds that closing may take in addition to the time for a child process to exit. No
client should need as long; a close that does is abandoned."""


class ManagedServer:
    """A server in a group: its client, its state, its reconnection."""

    def __init__(
        self,
        group: Group,
        name: str,
        member: Member,
        make_client: Callable[[], Client],
        *,
        is_lazy: bool,
        close_timeout: float = CLOSE_TIMEOUT_S,
    ) -> None:
        self.name = name
        self.member = member
        self.client = make_client()
        self.is_lazy = is_lazy  # counts as in the group before it is connected
        self.is_new = False  # was not configured before this `connect`
        self.close_timeout = close_timeout
        self.is_closed = False  # has left the group
        self.is_pinned = False  # a user holds the client: not closed when idle
        self.is_logging = False  # `set_log_level` was called: not closed when idle
        self.has_connected = False  # was connected, and not closed since
        self.seconds = 0.0  # duration of the last attempt to connect
        # The closing of the replaced server.
        self.closing_replaced: asyncio.Task[Any] | None = None
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
        self._claims = 0
        self._connecting: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._is_reconnecting = False
        self._closing_idle: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        backoff = group.backoff
        self._attempts: RestartBackoff | None = None
        if backoff is not None:
            self._attempts = RestartBackoff(
                backoff.attempts, backoff.maximum, backoff.pause
            )
        self._stop_observing = self.client.observe(self)

    # State

    @property
    def is_in_group(self) -> bool:
        """Whether it counts as in the group: lazy, or connected and not closed."""
        return self.has_connected or self.is_lazy

    @property
    def is_connecting(self) -> bool:
        """Whether a caller waits for it to be connected."""
        return self._connecting is not None

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
            raise self._disconnected_error()
        task = self._connecting
        if task is None or task.cancelling():
            loop = asyncio.get_running_loop()
            task = loop.create_task(
                self._connect(task), name=f"mcpwire-group-connect-{self.name}"
            )
            task.add_done_callback(retrieve_exception)
            if not task.done():  # an eager task may be
                self._connecting = task
        self._waiters += 1
        try:
            await wait_shared(task)
        except asyncio.CancelledError:
            if task.cancelled() and not is_cancelled_here():
                raise self._disconnected_error() from None
            if self._waiters == 1 and not task.done():
                task.cancel()
                await asyncio.wait([task])
            raise
        else:
            self._claims += 1
        finally:
            self._waiters -= 1

    def _disconnected_error(self) -> ConnectionClosed:
        return ConnectionClosed(
            f"the server {self.name!r} was disconnected while connecting", sent=False
        )

    @property
    def is_unclaimed(self) -> bool:
        """Whether it was connected, but every caller was cancelled before."""
        return self.has_connected and not self._claims and not self._waiters

    def release(self) -> bool:
        """Revoke one successful `connect`; return whether no other caller uses it."""
        self._claims -= 1
        return self._claims <= 0 and not self._waiters

    async def _connect(self, cancelled: asyncio.Task[None] | None) -> None:
        try:
            for task in (cancelled, self._closing_idle, self.closing_replaced):
                if task is not None:
                    await asyncio.wait([task])
            self.closing_replaced = None
            self._stop_restarting()
            if not self.client.is_connected:
                self._set_state("connecting")
            started = monotonic()
            try:
                await self.client.connect()
            finally:
                self.seconds = monotonic() - started
        except asyncio.CancelledError:
            lost = self.client.lost if self.has_connected else None
            self._set_state("idle" if lost is None else "lost", lost)
            raise
        except Exception as error:
            self._set_state(_state_after(error), error)
            raise
        else:
            self._record_connected()
        finally:
            if self._connecting is asyncio.current_task():
                self._connecting = None

    def _record_connected(self) -> None:
        """Record that it is connected; may be called more than once."""
        if self.state == "ready" and self.has_connected:
            return
        is_reconnect = self.has_connected
        self._restarts += is_reconnect
        self.has_connected = True
        self._answered = False
        self._set_state("ready")
        if self._attempts is not None:
            self._attempts.record_open(monotonic())
        if not self._is_reconnecting:  # else the reconnecting task ends by itself
            self._stop_restarting()
        self._record_use()
        self._group.notify_tool_sets(self.name)

    # Events of the client (`client.inbound.Observer`)

    def notification_received(
        self, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Pass a notification to the group, with the server's name."""
        self._group.deliver(self.name, method, params, size)

    def connection_changed(self) -> None:
        """Update the state: the connection was lost, opened again, or closed."""
        if self.client.is_connected:
            self._record_connected()
        elif self.has_connected:
            lost = self.client.lost
            if lost is None:  # a user closed the client
                self._set_idle()
                self._group.notify_tool_sets(self.name)
            elif self.state == "ready":
                self._handle_lost(lost)

    def _set_idle(self) -> None:
        self.has_connected = False
        self._claims = 0
        self._stop_restarting()
        self._set_state("idle")

    def _handle_lost(self, error: Exception) -> None:
        self._set_state("lost", error)
        warn("the connection", self.name, error)
        if self._attempts is not None:
            self._attempts.record_loss(monotonic(), answered=self._answered)
            self._restarting = asyncio.get_running_loop().create_task(
                self._restart(self._attempts, error),
                name=f"mcpwire-group-restart-{self.name}",
            )

    async def _restart(self, attempts: RestartBackoff, error: Exception) -> None:
        """Reconnect with growing delays until connected or out of attempts."""
        while True:
            delay = attempts.delay(monotonic(), random())  # noqa: S311 - jitter
            if delay is None:
                self._set_state("failed", error)
                warn("coming back, for the last time,", self.name, error)
                return
            self._set_state("restarting", error)
            await asyncio.sleep(delay)
            try:
                async with self._group.slots:
                    self._is_reconnecting = True
                    await self.client.connect()
            except Exception as failure:  # noqa: BLE001 - headers' function may raise any
                error = failure
                attempts.record_failure(monotonic())
                warn("coming back", self.name, error)
                if not is_worth_repeating(error):
                    self._set_state(_state_after(error), error)
                    return
            else:
                return
            finally:
                self._is_reconnecting = False

    def _stop_restarting(self) -> None:
        task, self._restarting = self._restarting, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    # Calls

    def begin(self) -> None:
        """Count the start of a call."""
        self._calls += 1
        self._in_flight += 1

    def end(self, *, answered: bool) -> None:
        """Count the end of a call."""
        self._in_flight -= 1
        self._answered = self._answered or answered
        self._record_use()

    def _record_use(self) -> None:
        """Record a use, and start the idle timer unless it runs."""
        self._used_at = monotonic()
        idle = self._group.idle
        if self.is_lazy and idle is not None and self._timer is None:
            self._start_idle_timer(idle)

    def _start_idle_timer(self, delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close the connection if it was idle for long enough, else wait again."""
        self._timer = None
        idle = self._group.idle
        if self.is_closed or not self.has_connected or idle is None:
            return
        remaining = self._used_at + idle - monotonic()
        if self._is_in_use or remaining > 0:
            self._start_idle_timer(remaining if remaining > 0 else idle)
            return
        self._set_idle()
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
        self._connecting = self._restarting = None
        self._closing_idle = self.closing_replaced = None
        self._timer = None
        self._waiters = self._claims = self._in_flight = 0
        self.has_connected = False
        self._set_state("idle")

    def leave(self) -> None:
        """Record that it has left the group; does not wait."""
        self.is_closed = True
        self._stop_observing()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Leave the group, cancel its tasks and close the client; bounded in time."""
        self.leave()
        pending = [
            task
            for task in (self._connecting, self._restarting, self._closing_idle)
            if task is not None and not task.done()
        ]
        for task in pending:
            task.cancel()
        deadline = Deadline(monotonic(), self.close_timeout)
        try:
            async with asyncio.timeout(self.close_timeout) as scope:
                if pending:
                    await asyncio.wait(pending)
                await self.client.aclose()
        except TimeoutError as error:
            if isinstance(error, RequestTimeout) or not scope.expired():
                raise
            raise deadline.error("close", monotonic()) from None
        finally:
            self.has_connected = False
            self._set_state("idle")

    async def close_quietly(self) -> None:
        """Close; errors are logged."""
        try:
            await self.close()
        except Exception as error:  # noqa: BLE001 - no caller to raise it to
            warn("closing", self.name, error)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task, so that asyncio does not warn."""
    if not task.cancelled():
        task.exception()


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
