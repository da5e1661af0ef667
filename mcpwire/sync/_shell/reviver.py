"""Opens a lost connection again: once for all who wait, and no more often than it may.

When to try again is decided in `mcpwire.protocol.recovery`. Whoever needs the
connection first opens it, in its own thread and within its own deadline; when that
runs out, the next of those who wait goes on with it.
"""

from __future__ import annotations

import copy
import threading
from random import random
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from mcpwire.errors import (
    ConnectionClosed,
    LocalProtocolError,
    MCPError,
    NegotiationError,
    RequestTimeout,
    TransportError,
)
from mcpwire.protocol.recovery.restarts import Restarts
from mcpwire.sync._shell.handshake import OutOfTime

if TYPE_CHECKING:
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.sync._shell.connection import Connection
    from mcpwire.sync._targets import OpenChannel

__all__ = ["Reviver"]

SLICE_S: Final = 0.05
"""How soon a call whose clock stands still looks again."""


class Reviver:
    """Brings one `Connection` back."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._recovery = connection.settings.recovery
        self._restarts = Restarts(self._recovery)
        self._state = threading.Condition()
        self._thread = 0  # whose turn it is
        self._closings = 0
        self._failure: MCPError | None = None
        self._gave_up_at: float | None = None

    # What the connection tells...

    def reset(self) -> None:
        """Begin anew: somebody wants it open now, whatever was before."""
        with self._state:
            self._restarts.reset()
            self._gave_up_at = None

    def opened(self, channel: OpenChannel) -> None:
        """It is open."""
        with self._state:
            channel.stats.before_open = channel.requests_sent
            self._restarts.opened(monotonic())

    def lost(self, channel: OpenChannel) -> None:
        """It is gone."""
        with self._state:
            # What a server says unasked does not prove that it works.
            counted = channel.stats
            if channel.requests_sent - counted.unanswered > counted.before_open:
                self._restarts.answered()
            self._restarts.lost(monotonic())

    def close(self) -> None:
        """Stop trying: it was closed by us."""
        with self._state:
            self._restarts.reset()
            self._gave_up_at = None
            self._closings += 1
            self._state.notify_all()

    # Bringing it back...

    def revive(self, method: str, deadline: Deadline | None) -> None:
        """Wait until it is open again, within the deadline of a call.

        No time passes for the call while a user logs in.
        """
        patience = self._connection.patience
        if patience is None or deadline is None:
            self._revive_by(method, deadline)
            return
        from mcpwire.transports.oauth.patience import DeadlineClock

        with patience.applied(DeadlineClock(deadline, monotonic)):
            self._revive_by(method, deadline)

    def _revive_by(self, method: str, deadline: Deadline | None) -> None:
        while True:
            now = monotonic()
            left = None if deadline is None else deadline.remaining(now)
            until = None if left is None else now + left
            try:
                self._revive_once(until)
            except OutOfTime:
                assert deadline is not None
                if not deadline.expired(monotonic()):  # its clock stood still
                    sleep(SLICE_S)
                    continue
                assert deadline.timeout is not None
                raise RequestTimeout(
                    method=method,
                    timeout=deadline.timeout,
                    elapsed=deadline.elapsed(monotonic()),
                    detail="the connection was lost and is being opened again",
                ) from None
            return

    def _revive_once(self, until: float | None) -> None:
        self._take_turn(until)
        try:
            self._revive(until)
        finally:
            with self._state:
                self._thread = 0
                self._state.notify_all()

    def _take_turn(self, until: float | None) -> None:
        with self._state:
            while self._thread != 0:
                if self._thread == threading.get_ident():  # in a signal handler
                    raise LocalProtocolError(
                        "the connection is being opened again in this very thread"
                    )
                self._wait(until)
            self._thread = threading.get_ident()

    def _wait(self, until: float | None) -> None:
        left = None if until is None else until - monotonic()
        if left is not None and left <= 0:
            raise OutOfTime
        self._state.wait(left)

    def _revive(self, until: float | None) -> None:
        connection = self._connection
        closings = self._closings
        self._check_pause()
        while not connection.is_open:
            self._pause(until, closings)
            try:
                connection.open(until)
            except (NegotiationError, RequestTimeout, TransportError) as error:
                if self._closings != closings:
                    raise
                with self._state:
                    self._failure = error
                    self._restarts.failed(monotonic())

    def _pause(self, until: float | None, closings: int) -> None:
        """Wait as long as `Restarts` wants before the next attempt."""
        with self._state:
            now = monotonic()
            delay = self._restarts.delay(now, random())  # noqa: S311 - jitter
            if delay is None:
                self._gave_up_at = now
                raise self._last_failure()
            end = now + delay
            while self._closings == closings and monotonic() < end:
                if until is None or end < until:
                    self._state.wait(end - monotonic())
                else:
                    self._wait(until)
            if self._closings != closings:
                raise ConnectionClosed(
                    "closed while it was being opened again", sent=False
                )

    def _check_pause(self) -> None:
        """Refuse while too little time has passed since all attempts failed."""
        if self._gave_up_at is None:
            return
        if monotonic() - self._gave_up_at < self._recovery.backoff_max:
            raise self._last_failure()
        self.reset()

    def _last_failure(self) -> MCPError:
        # Raised in more than one thread: each gets one of its own.
        failure = self._failure
        return (
            self._connection.not_connected() if failure is None else copy.copy(failure)
        )
