"""HTTP engine that adds tokens to requests and sends them with another engine.

It withholds a 401 or 403 while the `Authorizer` obtains another token (`auth.flow`).
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.errors import InsufficientScope
from mcpwire.errors import ConnectionClosed
from mcpwire.transports.oauth.authorizer import Attempt
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcpwire.auth.flow import TokenRequest
    from mcpwire.errors import MCPError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.h1 import ResponseSink
    from mcpwire.transports.oauth.authorizer import Authorizer, AuthSession, Credential

DENIAL_STATUSES: Final = frozenset({401, 403})

_CANCELLED: Final = encode(jsonrpc.notification("notifications/cancelled"))[:-1]


class AuthEngine:
    """An `Engine` with exchanges of several requests, and a login where needed."""

    def __init__(self, engine: Engine, authorizer: Authorizer) -> None:
        self.target = engine.target
        # Receives the new end of a deadline that was paused.
        self.rearm: Callable[[float], object] = _ignore
        self.pauser = authorizer.pauser
        self._engine = engine
        self._authorizer = authorizer
        self._session = authorizer.session
        self._filtered_replies: dict[Any, _FilteringSink] = {}
        # Exchanges that wait for a token: its task, and a future for an abort's error.
        self._waiting: dict[Any, tuple[asyncio.Future[Any], asyncio.Future[Any]]] = {}

    @property
    def bytes_sent(self) -> int:
        """Number of bytes passed to the operating system."""
        return self._engine.bytes_sent

    @property
    def bytes_received(self) -> int:
        """Number of received bytes."""
        return self._engine.bytes_received

    def allow(self, target: str) -> None:
        """Allow the token for another path of the server: its HTTP+SSE endpoint."""
        self._session.allow(target)

    async def exchange(
        self, request: Request, reply: ResponseSink, deadline: Deadline | None
    ) -> None:
        """Send a request and pass the response to its reply; see `Engine.exchange`."""
        session = self._session
        attempt: Attempt | None = None
        is_last = request.start.startswith(b"DELETE ")
        credential = session.current
        if not session.is_ready:
            unattended = _is_unattended(request)
            work = partial(self._authorizer.initial_token, is_unattended=unattended)
            credential = await self._wait_for_token(request, reply, deadline, work)
        while True:
            authorized = session.authorize(request, credential)
            filtered = _FilteringSink(
                reply, session, credential, attempt, is_last=is_last
            )
            self._filtered_replies[reply] = filtered
            try:
                await self._engine.exchange(authorized, filtered, deadline)
            finally:
                del self._filtered_replies[reply]
            if filtered.error is not None:
                raise filtered.error
            token_request = filtered.token_request
            if token_request is None:
                return
            if _is_unattended(request):
                token_request = token_request._replace(is_unattended=True)
            obtain = partial(self._authorizer.obtain, token_request)
            credential = await self._wait_for_token(request, reply, deadline, obtain)
            attempt = filtered.attempt
            assert attempt is not None, "a token request without a denial"
            attempt.sources.add(credential.source)

    async def _wait_for_token(
        self,
        request: Request,
        reply: ResponseSink,
        deadline: Deadline | None,
        work: Callable[[], Coroutine[Any, Any, Credential | None]],
    ) -> Any:
        """Wait for a token; the deadline is paused while a user logs in."""
        error: MCPError | None = getattr(reply, "aborted", None)
        if error is not None:  # between two steps of the exchange
            raise error
        loop = asyncio.get_running_loop()
        if request.is_background:
            work = partial(self._authorizer.wait_for_login, work)
        task: asyncio.Future[Any]
        task = loop.create_task(work(), name="mcpwire-oauth-wait")
        # Marks the error as retrieved, because no caller reads it after an abort.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        aborted: asyncio.Future[Any] = loop.create_future()
        self._waiting[reply] = (task, aborted)
        try:
            with self.pauser.register_deadline(deadline, self.rearm):
                await asyncio.wait([task, aborted], return_when=FIRST_COMPLETED)
        finally:
            task.cancel()
            del self._waiting[reply]
        if aborted.done():
            raise aborted.result()
        return task.result()

    def abort(self, reply: ResponseSink, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""
        if reply in self._waiting:
            _, aborted = self._waiting[reply]
            if aborted.done():
                return False
            aborted.set_result(error)
            return True
        filtered = self._filtered_replies.get(reply)
        return filtered is not None and self._engine.abort(filtered, error)

    async def aclose(self) -> None:
        """Close every connection; bounded in time."""
        try:
            tasks = [task for task, _ in self._waiting.values()]
            for reply in self._waiting:
                closed = f"{self.target}: closed by this side"
                self.abort(
                    reply, ConnectionClosed(closed, target=self.target, sent=False)
                )
            if tasks:
                await asyncio.wait(tasks)
            await self._authorizer.settle()
        finally:
            await self._engine.aclose()

    def abandon(self) -> None:
        """Close the sockets at once, without waiting, from any thread."""
        self._engine.abandon()

    def after_fork(self) -> None:
        """Close the copies of the sockets in a forked process."""
        self._engine.after_fork()


class _FilteringSink:
    """A sink that withholds a denial if another token may help; else it passes it on.

    With `is_last`, for the DELETE of a session, all responses are passed on. The engine
    passes the body directly to the reply, without a call of this class.
    """

    def __init__(
        self,
        reply: ResponseSink,
        session: AuthSession,
        credential: Credential | None,
        attempt: Attempt | None,
        *,
        is_last: bool,
    ) -> None:
        self._reply = reply
        self._session = session
        self._credential = credential
        self._is_last = is_last
        self.attempt = attempt  # None: the request has not been denied
        self.data: Callable[[bytes], None] = reply.data
        self.end: Callable[[], None] = reply.end
        self.token_request: TokenRequest | None = None  # for the token of the next try
        self.error: MCPError | None = None  # to be raised by `exchange`

    @property
    def aborted(self) -> MCPError | None:
        """The error of an abort by the caller; engines check it before they wait."""
        error: MCPError | None = getattr(self._reply, "aborted", None)
        return error

    @property
    def is_over(self) -> bool:
        """Whether the rest of the response is not needed."""
        return (
            self.token_request is not None
            or self.error is not None
            or self._reply.is_over
        )

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Process the final head; withhold it if another token may help."""
        session = self._session
        if b"dpop-nonce" in fields:
            session.store_nonce(fields)
        attempt = self.attempt
        if status in DENIAL_STATUSES and not self._is_last:
            if attempt is None:
                attempt = self.attempt = Attempt()
            try:
                self.token_request = session.handle_denial(
                    status, fields, self._credential, attempt
                )
            except InsufficientScope as error:
                # `exchange` raises it: an error raised here closes the connection.
                self.error = error
            if self.token_request is not None or self.error is not None:
                self.data = self.end = _ignore
                return
        elif attempt is not None:
            session.record_success(attempt)
        self._reply.head(status, fields)


def _is_unattended(request: Request) -> bool:
    """Return whether a request must not start a login, because no call waits for it.

    Cancelling a call that waits for a login must not start another login.
    """
    body = request.body
    return (
        request.is_background
        or request.is_unattended
        or request.start.startswith(b"DELETE ")
        or (body is not None and body.startswith(_CANCELLED))
    )


def _ignore(*_: object) -> None:
    """Ignore all arguments."""
