"""A blocking engine whose requests carry a token.

`mcpwire.transports.oauth.engine` is the one for asyncio.

The two differ in how they wait, and in nothing else.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.errors import ConnectionClosed
from mcpwire.transports.http.opening import open_engine
from mcpwire.transports.oauth.patience import DeadlineClock
from mcpwire.transports.oauth.session import Filtered, check_wanted, is_unattended

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request
    from mcpwire.sync._http.seam import Engine
    from mcpwire.sync._oauth.authorizer import BlockingAuthorizer
    from mcpwire.transports.http.engine import Engine as AsyncEngine
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.patience import Patience
    from mcpwire.transports.oauth.session import Attempt

__all__ = ["BlockingAuthEngine", "open_with_tokens"]


class BlockingAuthEngine:
    """See `Engine`; an exchange may take several requests, and a login."""

    def __init__(self, engine: Engine, authorizer: BlockingAuthorizer) -> None:
        self.target = engine.target
        self._engine = engine
        self._authorizer = authorizer
        self._session = authorizer.session
        self._fed: dict[Any, Filtered] = {}
        self._waiting: set[Any] = set()
        self._aborted: dict[Any, MCPError] = {}

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} over {self._engine!r}>"

    @property
    def connections(self) -> int:
        """How many connections were opened so far."""
        return self._engine.connections

    @property
    def bytes_sent(self) -> int:
        """How many bytes were handed to the operating system so far."""
        return self._engine.bytes_sent

    def exchange(self, request: Request, reply: Fed, deadline: Deadline | None) -> None:
        """Send a request and feed its reply; see `Engine.exchange`.

        Raises:
            AuthError: The server wants a token that is not to be had.
        """
        session = self._session
        authorizer = self._authorizer
        attempt: Attempt | None = None
        is_last = request.start.startswith(b"DELETE ")
        credential = session.current
        if not session.is_ready:
            work = partial(authorizer.first, asks_nobody=is_unattended(request))
            credential = self._within(reply, deadline, work)
        while True:
            equipped = session.equip(request, credential)
            filtered = Filtered(reply, session, credential, attempt, is_last=is_last)
            self._fed[reply] = filtered
            try:
                self._engine.exchange(equipped, filtered, deadline)
            finally:
                self._fed.pop(reply, None)
            if filtered.error is not None:
                raise filtered.error
            wanted = filtered.wanted
            if wanted is None:
                return
            if is_unattended(request):
                wanted = wanted._replace(asks_nobody=True)
            credential = self._within(
                reply, deadline, partial(authorizer.obtain, wanted)
            )
            attempt = filtered.attempt
            assert attempt is not None, "wanted without a denial"
            attempt.note(credential.how)

    def _within(
        self,
        reply: Fed,
        deadline: Deadline | None,
        work: Callable[[Callable[[], None]], Any],
    ) -> Any:
        """Wait for a token; an abort reaches it, and no time passes for a user."""
        clock = DeadlineClock(deadline, monotonic)

        def check() -> None:
            check_wanted(reply)
            error = self._aborted.get(reply)
            if error is not None:
                raise error
            now = monotonic()
            if deadline is not None and deadline.expired(now):
                raise reply.out_of_time(now)

        self._waiting.add(reply)
        try:
            with self._authorizer.patience.applied(clock):
                return work(check)
        finally:
            self._waiting.discard(reply)
            self._aborted.pop(reply, None)

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""
        if reply in self._waiting:
            self._aborted[reply] = error
            return True
        filtered = self._fed.get(reply)
        return filtered is not None and self._engine.abort(filtered, error)

    def close(self) -> None:
        """Close every connection; bounded in time."""
        error = ConnectionClosed(
            f"{self.target}: closed by this side", target=self.target, sent=False
        )
        for reply in list(self._waiting):
            self.abort(reply, error)
        try:
            self._authorizer.settle()
        finally:
            self._engine.close()

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""
        self._engine.abandon()

    def forked(self) -> None:
        """Let go of what belongs to the parent process; its sockets stay open there."""
        forked = getattr(self._engine, "forked", self._engine.abandon)
        forked()


def open_with_tokens(
    target: Http, limits: Limits, *, patience: Patience
) -> AsyncEngine:
    """Return an engine for the loop that HTTP+SSE has of its own."""
    from mcpwire.transports.oauth.threaded import LoopAuthorizer

    assert target.grant is not None
    authorizer = LoopAuthorizer(target.grant, target, limits, patience)
    return open_engine(target, limits, authorizer)
