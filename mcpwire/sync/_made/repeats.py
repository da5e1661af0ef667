# Made by `python tests/sync/generate.py --write`: change the source instead,
# mcpwire/transports/client/asking/repeats.py
"""What is done with a request that its transport failed: sent again, where that may be.

The rules stand in `mcpwire.protocol`; here they are carried out, within the deadline of
the public call.
"""

from __future__ import annotations

from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    HeaderMismatch,
    MCPError,
    RPCError,
    SessionExpired,
    TransportError,
)
from mcpwire.protocol.recovery.restarts import may_repeat
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.results.cache import ResponseCache
    from mcpwire.protocol.steps import Steps
    from mcpwire.sync._shell.connection import Connection

__all__ = ["Repeats", "positional"]

LONGEST_PAUSE_S: Final = 3600.0
"""What a server may ask of a call without a deadline to wait for."""


class Repeats:
    """The part of `Requests` that sends a request more than once."""

    _cache: ResponseCache | None
    _connection: Connection
    _limits: Limits

    def begin(
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        *options: Any,
    ) -> dict[str, Any]:
        """Prepare one request and return what performs it."""
        raise NotImplementedError

    def _begin_later(
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        *options: Any,
    ) -> dict[str, Any]:
        raise NotImplementedError

    def drive(
        self,
        method: str,
        steps: Steps[Any],
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> Any:
        """Perform an operation of the protocol's, step by step, within one deadline."""
        raise NotImplementedError

    def perform(
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Perform one request, again where its transport failed and that is safe."""
        try:
            return self.begin(method, params, deadline, *positional(options))
        except (TransportError, RPCError) as error:
            return self.perform_again(error, method, params, deadline, options)

    def perform_again(
        self,
        error: TransportError | RPCError,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Perform a request again, if what ended the first attempt allows it.

        Raises:
            MCPError: As any request; what it failed with, where it may not be.
        """
        try:
            return self._go_on(error, method, params, deadline, options)
        except HeaderMismatch as refused:
            if method != "tools/call":
                raise
            return self.refresh_headers(refused, params, deadline, options)

    def _perform_safely(
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        try:
            return self.begin(method, params, deadline, *positional(options))
        except (TransportError, RPCError) as error:
            return self._go_on(error, method, params, deadline, options)

    def _go_on(
        self,
        error: TransportError | RPCError,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Perform a request again that failed, where its transport failed it."""
        failure = _failure(error)
        if failure is None:
            raise error
        return self.begin_again(failure, method, params, deadline, options)

    def begin_again(
        self,
        error: TransportError,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Perform a request again that the transport failed, if that may be.

        Raises:
            TransportError: It may have run already, it was tried often enough, or
                nothing is opened again.
        """
        attempt, is_renewed = 1, False
        channel: Any = None  # of the last attempt
        while self._may_begin_again(error):
            if isinstance(error, SessionExpired):
                allows = not is_renewed or self._allows_session_after(channel, attempt)
                seconds = 0.0 if allows else None
                is_renewed = True
            else:
                seconds = self._pause_before(error, method, attempt, options)
            if seconds is None or not self._fits(seconds, deadline):
                break
            attempt += 1
            if seconds:
                self._connection.sleep(seconds)
                if not self._connection.is_wanted:  # closed meanwhile
                    break
            try:
                self._connection.revive(method, deadline)
                self.check_cursor(options)
                channel = self._connection.channel
                return self._begin_later(method, params, deadline, *positional(options))
            except (TransportError, RPCError) as raised:
                another = _failure(raised)
                if another is None:
                    raise
                # That it may have run once stays true whatever comes of a repetition.
                if _may_have_run(another) or not _may_have_run(error):
                    error = another
        raise self._last_word(error)

    def _allows_session_after(self, channel: Any, attempt: int) -> bool:
        """Tell whether yet another session is opened for one request.

        What a new session answers so that has answered nothing else is the server's
        last word. One that has was forgotten, as the first one was: nothing ran.
        """
        if channel is None or attempt > self._connection.settings.recovery.attempts:
            return False
        counted = channel.stats
        has_served: bool = (
            channel.requests_sent - counted.unanswered > counted.before_open
        )
        return has_served

    def _last_word(self, error: TransportError) -> MCPError:
        """Return what the server said, where it speaks no other era after all."""
        said = getattr(error, "said", None)
        if isinstance(said, RPCError):
            return said
        said = error.__cause__
        is_stateless = self._connection.profile.era is Era.STATELESS
        if isinstance(error, SessionExpired) and is_stateless:
            return said if isinstance(said, MCPError) else error
        return error

    def check_cursor(self, options: Mapping[str, Any]) -> None:
        """Refuse to ask a session for a page of another one's list.

        Raises:
            CursorGoneError: The session that gave the cursor is gone.
        """
        serial = options.get("serial", self._connection.serial)
        if (
            serial != self._connection.serial
            and self._connection.profile.era is Era.SESSION
        ):
            from mcpwire.protocol.paging import CursorGoneError

            raise CursorGoneError("the session that gave the cursor is gone")

    def _may_begin_again(self, error: TransportError) -> bool:
        connection = self._connection
        if not connection.is_wanted:
            return False
        recovery = connection.settings.recovery
        if isinstance(error, SessionExpired):
            return recovery.reinitialize
        # Where opening it again has failed, that was tried often enough.
        is_reopening = recovery.restart and not isinstance(error, ConnectError)
        return connection.is_open or is_reopening

    def _pause_before(
        self,
        error: TransportError,
        method: str,
        attempt: int,
        options: Mapping[str, Any],
    ) -> float | None:
        """Return the seconds to wait before another attempt; ``None``: none."""
        recovery = self._connection.settings.recovery
        idempotent = options.get("idempotent")
        if isinstance(error, ConnectionClosed) and not self._connection.is_open:
            # Whoever opens it again takes the time that it needs.
            may = may_repeat(method, error, idempotent=idempotent)
            return 0.0 if may and attempt <= recovery.attempts else None
        from random import random

        from mcpwire.protocol.http.repeat import after_failure

        return after_failure(
            error,
            method,
            idempotent=idempotent,
            attempt=attempt,
            recovery=recovery,
            chance=random(),  # noqa: S311 - jitter
            now_wall=wall_time(),
        )

    def _fits(self, seconds: float, deadline: Deadline | None) -> bool:
        """Tell whether so long a pause leaves time for anything."""
        left = deadline.remaining(self._connection.time()) if deadline else None
        return seconds < (LONGEST_PAUSE_S if left is None else left)

    def refresh_headers(
        self,
        error: HeaderMismatch,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Call a tool once more whose mirrored headers the server refuses.

        2026-07-28 basic/transports/streamable-http, "Client Behavior": the tools are
        listed anew, for the headers follow from a tool's schema.

        Raises:
            MCPError: As any request; `HeaderMismatch` where that was not it.
        """
        profile = self._connection.profile
        if error.status is None or "tools/list" in profile.refused:
            raise error
        if self._cache is not None:
            self._cache.drop_list("tools/list")
        from mcpwire.protocol.paging import pages

        steps = pages("tools/list", {}, limit=self._limits.pages)
        self.drive("tools/list", steps, deadline, {})
        return self._perform_safely("tools/call", params, deadline, options)


def _failure(error: TransportError | RPCError) -> TransportError | None:
    """Return how the transport failed; ``None``: the server has answered."""
    if isinstance(error, TransportError):
        return error
    if error.status is None:  # an answer like any other
        return None
    from mcpwire.protocol.http.repeat import declined

    return declined(error)


def _may_have_run(error: TransportError) -> bool:
    return isinstance(error, ConnectionClosed) and error.sent


def positional(options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the options of a call in the order that `begin` takes them."""
    return (
        options.get("meta"),
        options.get("on_progress"),
        options.get("headers"),
        options.get("handle"),
    )
