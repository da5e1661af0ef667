"""Fetches documents of authorization on asyncio; `plan` decides where from."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from mcpwire.errors import MCPError
from mcpwire.transports.http.httpx_engine import HttpxEngine
from mcpwire.transports.oauth.document import too_late
from mcpwire.transports.oauth.plan import Pinned, Planner, Resolve, Send

if TYPE_CHECKING:
    from mcpwire.auth.steps import Answer, Fetch
    from mcpwire.limits import Limits
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.plan import Plan

__all__ = ["Fetcher"]


class Fetcher:
    """Performs the `Fetch` steps of one operation.

    Each has a connection of its own, so that no two hosts at one address ever share
    one. Cancelling a fetch closes it.

    Args:
        target: The MCP server.
        limits: What an answer may cost.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self._planner = Planner(target, limits)
        self._limits = limits

    async def fetch(self, step: Fetch) -> Answer:
        """Return the answer to a request, whatever its status.

        Raises:
            UrlRefused: It leads where we must not go.
            AuthTemporarilyUnavailable: No answer came, or not in time.
            DiscoveryError: What came is no document, or too large; in its place
                `TokenError` and `RegistrationError` where something was posted.
        """
        try:
            async with asyncio.timeout(self._limits.oauth_timeout):
                return await self._drive(self._planner.fetch(step))
        except TimeoutError as error:
            raise too_late(step, self._limits) from error

    async def _drive(self, plan: Plan) -> Answer:
        outcome: Any = None
        error: Exception | None = None
        with contextlib.closing(plan):
            while True:
                try:
                    step = plan.send(outcome) if error is None else plan.throw(error)
                except StopIteration as done:
                    answer: Answer = done.value
                    return answer
                outcome = error = None
                try:
                    outcome = await self._perform(step)
                except (MCPError, OSError, UnicodeError) as raised:
                    error = raised

    async def _perform(self, step: Resolve | Send) -> Any:
        if isinstance(step, Resolve):
            import socket

            loop = asyncio.get_running_loop()
            return await loop.getaddrinfo(step.host, step.port, type=socket.SOCK_STREAM)
        engine = HttpxEngine(step.target, self._limits)
        engine.requests = Pinned(step, engine.library)
        if step.connect_timeout is not None:
            engine.connect_timeout = step.connect_timeout
        try:
            await engine.exchange(step.request, step.document, None)
        finally:
            try:
                await engine.aclose()
            except BaseException:
                engine.abandon()
                raise
        return None

    async def aclose(self) -> None:
        """Let go of everything; nothing is open between fetches."""
