"""Base of the HTTP channels: the user's headers, tokens, redirects and aborts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError, MCPError, RemoteProtocolError
from mcpwire.protocol.http_reply import MAX_REDIRECTS, resolve_redirect
from mcpwire.transports.base import is_cancelled_here
from mcpwire.transports.http.credentials import (
    describe_request,
    describe_response,
    redirect_request,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine

    from mcpwire.protocol.http_reply import Reply, Request
    from mcpwire.transports.base import Timeouts, Trace
    from mcpwire.transports.http.engine import Engine
    from mcpwire.transports.http.h1 import ResponseSink
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import Authorizer
    from mcpwire.wire.urls import Url

    Fields = tuple[tuple[str, str], ...]

MAX_ERROR_BODY_S: Final = 0.2
"""Maximum seconds for the body of an error: it only explains the error."""


class Sender:
    """Base of a channel that sends its requests through an HTTP engine."""

    _error_body_s = MAX_ERROR_BODY_S
    _loop: asyncio.AbstractEventLoop
    _trace: Trace | None
    _timeouts: Timeouts

    def __init__(
        self, target: Http, engine: Engine, authorizer: Authorizer | None
    ) -> None:
        self._http = target
        self.engine = engine
        self._authorizer = authorizer
        self.is_traced = False
        # The sinks that engines feed in place of replies; see `Authorizer.exchange`.
        self.sinks: dict[Reply, ResponseSink] = {}
        self._pauses: dict[Reply, asyncio.Timeout] = {}
        self._exchange = (
            self._follow_redirects if target.follow_redirects else self._send_once
        )

    def _send_once(self, reply: Reply, request: Request) -> Coroutine[Any, Any, None]:
        if self._trace is not None:
            self._trace_request(request)
        if reply.aborted is not None:
            raise reply.aborted
        if self._authorizer is not None:
            rearm = self._timeouts.arm
            return self._authorizer.exchange(self, request, reply, rearm)
        return self.engine.exchange(request, reply)

    async def _close_engine(self) -> None:
        try:
            if self._authorizer is not None:
                await self._authorizer.settle()
        finally:
            await self.engine.aclose()

    async def _follow_redirects(self, reply: Reply, request: Request) -> None:
        for _ in range(MAX_REDIRECTS + 1):
            await self._send_once(reply, request)
            redirect_url = reply.redirect
            if redirect_url is None:
                return
            request = redirect_request(self._http, request, redirect_url.target)
            reply.url = redirect_url
            reply.restart()
        raise RemoteProtocolError(f"{reply.what}: more than {MAX_REDIRECTS} redirects")

    def redirect(self, reply: Reply) -> Url | str:
        """Return the target of a redirect, or a clause why it is not followed."""
        return resolve_redirect(
            reply.url or self._http.parsed,
            reply.status,
            field(reply, b"location"),
            allowed=self._http.follow_redirects,
        )

    async def _user_fields(self, reply: Reply) -> Fields:
        """Return the user's fields of one request, without the static ones."""
        fields: Fields = ()
        user_headers: Any = self._http.headers
        if callable(user_headers):
            value = user_headers()
            if hasattr(value, "__await__"):
                value = await self._await_headers(reply, value)
            fields = self._http.check(value)
        headers = reply.headers
        return fields if not headers else (*fields, *self._http.check(headers))

    # Aborts

    def _abort(self, reply: Reply, error: MCPError) -> bool:
        if reply.aborted is not None:
            return False
        reply.aborted = error
        return self._abort_exchange(reply, error) or self._end_pause(reply)

    def _abort_exchange(self, reply: Reply, error: MCPError) -> bool:
        return self.engine.abort(self.sinks.get(reply, reply), error)

    def _end_pause(self, reply: Reply) -> bool:
        """End the pause of an aborted call; return whether it had one."""
        waiting = self._pauses.get(reply)
        if waiting is None or waiting.expired():
            return False
        with contextlib.suppress(RuntimeError):  # no loop is running
            waiting.reschedule(0)
        return True

    @contextlib.asynccontextmanager
    async def abort_scope(self, reply: Reply) -> AsyncIterator[None]:
        """Yield; raise the error of an abort, also while the block waits."""
        if reply.aborted is not None:
            raise reply.aborted
        try:
            async with asyncio.timeout(None) as self._pauses[reply]:
                yield
        except TimeoutError:
            if reply.aborted is None:
                raise
        finally:
            del self._pauses[reply]
        if reply.aborted is not None:  # in the same iteration of the loop
            raise reply.aborted

    async def _await_headers(self, reply: Reply, value: Awaitable[Any]) -> Any:
        """Await the headers of the user's asynchronous function."""
        async with self.abort_scope(reply):
            try:
                return await value
            except asyncio.CancelledError:
                if is_cancelled_here():
                    raise
        raise LocalProtocolError(
            f"{reply.what}: the function for the headers was cancelled"
        )

    # Bodies of errors

    def on_error_body(self, reply: Reply) -> None:
        """Limit the time for the rest of an error's body."""
        seconds = self._error_body_s
        reply.timer = self._loop.call_later(seconds, self.end_error_body, reply)

    def end_error_body(self, reply: Reply) -> None:
        """End the exchange with the received part of the body."""
        if not reply.is_over:
            reply.end_early()
            assert reply.error is not None
            self._abort_exchange(reply, reply.error)

    # Tracing

    def _trace_request(self, request: Request) -> None:
        if self._trace is not None:
            self._trace("request", describe_request(request, self._http))

    def trace_head(self, reply: Reply) -> None:
        """Trace the head of a response."""
        if self._trace is not None:
            self._trace("response", describe_response(reply.status, reply.fields))


def field(reply: Reply, name: bytes) -> str | None:
    """Return a field of a response as text."""
    value = reply.fields.get(name)
    return None if value is None else value.decode("latin-1")
