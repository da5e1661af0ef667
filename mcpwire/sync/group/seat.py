"""One server of a blocking group while it is there: its client and its state.

::

    idle ──connect──► connecting ──► ready ──lost──► lost ──next call──► ready
                          └─► failed, needs_auth

A seat that has left the group is closed and stays so; a server of the same name has
another seat. Nothing here is held while anything waits for a server.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from mcpwire.errors import ConnectionClosed
from mcpwire.group.logs import warn
from mcpwire.protocol.many.reports import ServerStatus
from mcpwire.sync._shell.handshake import OutOfTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.group.member import Member
    from mcpwire.protocol.many.reports import ServerState
    from mcpwire.sync.client import Client

__all__ = ["Owner", "Seat"]


class Owner(Protocol):
    """The group, as its seats see it."""

    def heard(
        self, server: str, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Take a notification."""

    def turned(self, server: str) -> None:
        """Take note that a server came back: what was listed may be wrong now."""


class Seat:
    """One server's place in a group; used from any thread.

    Attributes:
        name: The server's name in the group.
        member: What it was given as.
        client: Its client, connected or not.
        is_lazy: Whether it is there before it is connected.
        is_closed: Whether it has left the group.
        has_lived: Whether it was connected, and not closed since.
        seconds: How long the last connecting took.
    """

    def __init__(
        self,
        owner: Owner,
        name: str,
        member: Member,
        make: Callable[[], Client],
        *,
        is_lazy: bool,
        listens: bool,
    ) -> None:
        self.name = name
        self.member = member
        self.client = make()
        self.is_lazy = is_lazy
        self.is_closed = False
        self.is_pinned = False  # as the other group's has; nothing is closed when idle
        self.has_lived = False
        self.seconds = 0.0
        self.before: Seat | None = None  # what this one replaces, closed first
        self._owner = owner
        self._state: ServerState = "idle"
        self._since = monotonic()
        self._error: Exception | None = None
        self._restarts = 0
        self._calls = 0
        self._in_flight = 0
        self._connecting = 0
        self._taken = 0
        # A signal handler may close the group in the middle of any step.
        self._guard = threading.RLock()
        self._undo = self.client.observe(self) if listens else bool

    # What it is...

    @property
    def state(self) -> ServerState:
        """What it is just now, as far as somebody has looked."""
        self.changed()
        return self._state

    @property
    def problem(self) -> Exception | None:
        """Why it is not ready, where something went wrong."""
        self.changed()
        return self._error

    @property
    def is_there(self) -> bool:
        """Whether it counts as one of the group: it is, or was, connected, or lazy."""
        return self.has_lived or self.is_lazy

    @property
    def is_connecting(self) -> bool:
        """Whether it is being connected for somebody who waits."""
        return self._connecting > 0

    @property
    def needs_opening(self) -> bool:
        """Whether somebody has to connect it before the client can be used."""
        return not self.has_lived

    def status(self) -> ServerStatus:
        """Return all of it at once."""
        self.changed()
        with self._guard:
            return ServerStatus(
                server=self.name,
                state=self._state,
                since=self._since,
                error=self._error,
                restarts=self._restarts,
                calls=self._calls,
                in_flight=self._in_flight,
            )

    def _turn(self, state: ServerState, error: Exception | None = None) -> None:
        if state != self._state:
            self._since = monotonic()
        self._state = state
        self._error = error

    # Connecting...

    def connect(self, until: float | None = None) -> None:
        """Connect it in this thread, or wait for the thread that is doing that.

        `until` is a time of `monotonic`. Raises what `Client.connect` does,
        `ConnectionClosed` where it left the group meanwhile, and `OutOfTime` when that
        time has come.
        """
        with self._guard:
            self._connecting += 1
            before, self.before = self.before, None
        started = monotonic()
        try:
            if before is not None:
                before.close_quietly()
            self._open(until)
        except Exception as error:
            if self.is_closed:
                raise self._gone() from error
            with self._guard:
                if type(error) is OutOfTime:  # of the call that needed it
                    self._turn("idle")
                else:
                    self._turn(_state_after(error), error)
            raise
        except BaseException:
            with self._guard:
                self._turn("idle")
            raise
        finally:
            with self._guard:
                self._connecting -= 1
            self.seconds = monotonic() - started
        self._opened()

    def _open(self, until: float | None) -> None:
        if self.is_closed:
            raise self._gone()
        if not self.client.is_connected:
            with self._guard:
                self._turn("connecting")
        if until is None:
            self.client.connect()
        else:
            # The same within the time of one call.
            self.client._connection.open(until)  # noqa: SLF001 - our own client

    def _opened(self) -> None:
        with self._guard:
            if not self.is_closed:
                self.has_lived = True
                self._taken += 1
                self._turn("ready")
                return
        self.client.close()
        raise self._gone()

    def _gone(self) -> ConnectionClosed:
        return ConnectionClosed(
            f"the server {self.name!r} was disconnected while connecting", sent=False
        )

    def interrupt(self) -> None:
        """End a connecting that only one thread waits for."""
        if self._connecting == 1 and not self.client.is_connected:
            self.client.close()

    def give_back(self) -> bool:
        """Take one successful `connect` back; return whether nobody else wants it."""
        with self._guard:
            self._taken -= 1
            return self._taken <= 0 and not self._connecting

    # What the client tells (`Observer`)...

    def heard(self, method: str, params: dict[str, Any] | None, size: int) -> None:
        """Take a notification."""
        if not self.is_closed:
            self._owner.heard(self.name, method, params, size)

    def changed(self) -> None:
        """Look at the connection: it is lost, open again, or closed."""
        with self._guard:
            if self.is_closed or self._connecting or not self.has_lived:
                return
            before = self._state
            is_open = self.client.is_connected
            error = None if is_open else self.client.lost
            if is_open:
                self._restarts += before == "lost"
                self._turn("ready")
            elif error is None:
                if self.client.is_connected or self.client.lost is not None:
                    return  # it turned between two looks, and will tell
                # Whoever has the client closed it.
                self.has_lived = False
                self._taken = 0
                self._turn("idle")
            elif before == "ready":
                self._turn("lost", error)
            turn = before, self._state
        if turn == ("lost", "ready"):
            self._owner.turned(self.name)
        elif turn == ("ready", "lost") and error is not None:
            warn("the connection", self.name, error)

    # Calls...

    def begin(self) -> None:
        """Count a call that begins."""
        with self._guard:
            self._calls += 1
            self._in_flight += 1

    def end(self) -> None:
        """Count a call that ended."""
        with self._guard:
            self._in_flight -= 1

    # The end...

    def leave(self) -> None:
        """Take note that it is no longer in the group; at once."""
        self.is_closed = True
        self._undo()

    def close(self) -> None:
        """Close it, whatever is under way; bounded in time.

        Raises what the client raises.
        """
        self.leave()
        with self._guard:
            before, self.before = self.before, None
        try:
            if before is not None:
                before.close_quietly()
            self.client.close()
        finally:
            with self._guard:
                self.has_lived = False
                self._turn("idle")

    def abandon(self) -> None:
        """Let go of it at once, and wait for nothing."""
        self.client._connection.abandon()  # noqa: SLF001 - our own client

    def close_quietly(self) -> None:
        """Close it; what goes wrong is logged."""
        try:
            self.close()
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            warn("closing", self.name, error)


def _state_after(error: Exception) -> ServerState:
    from mcpwire.auth.errors import AuthRequired

    return "needs_auth" if isinstance(error, AuthRequired) else "failed"
