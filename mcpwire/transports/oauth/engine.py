"""An engine whose requests carry a token, whichever engine moves their bytes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcpwire.transports.oauth.patience import DeadlineClock
from mcpwire.transports.oauth.session import Filtered, check_wanted, is_unattended

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcpwire.errors import MCPError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http.engine import Engine, Fed
    from mcpwire.transports.oauth.authorizer import Authorizer
    from mcpwire.transports.oauth.session import Attempt, Credential

__all__ = ["AuthEngine"]


class AuthEngine:
    """See `Engine`; an exchange may take several requests, and a login.

    Attributes:
        patience: Whose clocks stand still while a user is asked.
        rearm: Told when a deadline that stood still runs again.
    """

    def __init__(self, engine: Engine, authorizer: Authorizer) -> None:
        self.target = engine.target
        self.rearm: Callable[[float], object] = _ignore
        self._engine = engine
        self._authorizer = authorizer
        self.patience = authorizer.patience
        self._session = authorizer.session
        self._fed: dict[Any, Filtered] = {}
        self._waiting: dict[Any, asyncio.Task[Any]] = {}
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

    def allow(self, target: str) -> None:
        """Let the token go to another path of the server: its HTTP+SSE endpoint."""
        self._session.allow(target)

    async def exchange(
        self, request: Request, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Send a request and feed its reply; see `Engine.exchange`.

        Raises:
            AuthError: The server wants a token that is not to be had.
        """
        session = self._session
        attempt: Attempt | None = None
        is_last = request.start.startswith(b"DELETE ")
        credential = session.current
        if not session.is_ready:
            work = self._authorizer.first(asks_nobody=is_unattended(request))
            credential = await self._within(reply, deadline, work)
        while True:
            equipped = session.equip(request, credential)
            filtered = Filtered(reply, session, credential, attempt, is_last=is_last)
            self._fed[reply] = filtered
            try:
                await self._engine.exchange(equipped, filtered, deadline)
            finally:
                del self._fed[reply]
            if filtered.error is not None:
                raise filtered.error
            wanted = filtered.wanted
            if wanted is None:
                return
            if is_unattended(request):
                wanted = wanted._replace(asks_nobody=True)
            credential = await self._within(
                reply, deadline, self._authorizer.obtain(wanted)
            )
            attempt = filtered.attempt
            assert attempt is not None, "wanted without a denial"
            attempt.note(credential.how)

    async def _within(
        self,
        reply: Fed,
        deadline: Deadline | None,
        work: Coroutine[Any, Any, Credential | None],
    ) -> Any:
        """Wait for a token; an abort reaches it, and no time passes for a user."""
        check_wanted(reply)
        loop = asyncio.get_running_loop()
        patience = self.patience
        clock = DeadlineClock(deadline, loop.time, self.rearm)
        task = self._waiting[reply] = loop.create_task(work, name="mcpwire-oauth-wait")
        try:
            with patience.applied(clock):
                credential = await task
        except asyncio.CancelledError:
            error = self._aborted.get(reply)
            ours = asyncio.current_task()
            if error is None or (ours is not None and ours.cancelling()):
                raise
            raise error from None
        finally:
            task.cancel()
            del self._waiting[reply]
            self._aborted.pop(reply, None)
        # It may have been aborted in the turn in which the token came.
        check_wanted(reply)
        return credential

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""
        task = self._waiting.get(reply)
        if task is not None:
            self._aborted[reply] = error
            return task.cancel()
        filtered = self._fed.get(reply)
        return filtered is not None and self._engine.abort(filtered, error)

    async def aclose(self) -> None:
        """Close every connection; bounded in time."""
        try:
            await self._stop()
        finally:
            await self._engine.aclose()

    async def _stop(self) -> None:
        from mcpwire.errors import ConnectionClosed

        for reply in list(self._waiting):
            self.abort(
                reply,
                ConnectionClosed(
                    f"{self.target}: closed by this side",
                    target=self.target,
                    sent=False,
                ),
            )
        if self._waiting:
            await asyncio.wait(self._waiting.values())
        await self._authorizer.settle()

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""
        self._engine.abandon()

    def forked(self) -> None:
        """Let go of what belongs to the parent process."""
        forked = getattr(self._engine, "forked", self._engine.abandon)
        forked()


def _ignore(at: float) -> None:
    del at
