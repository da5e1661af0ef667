"""Functions around the requests of a server, put together when it is declared.

::

    @server.middleware("tools/call")
    async def timed(params, request, call_next):
        begin = time.perf_counter()
        try:
            return await call_next(params, request)
        finally:
            logger.info("%s: %.3f s", params["name"], time.perf_counter() - begin)

What a handler raises passes through them; results are plain dicts, before the members
that every result of an era has are added. A server without any pays nothing.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcpwire.server.handlers import Handler
    from mcpwire.server.request import RequestContext

    Json = dict[str, Any]
    CallNext = Callable[[Json, RequestContext], Awaitable[Json]]
    AroundRequest = Callable[[Json, RequestContext, CallNext], Awaitable[Json]]
    """Takes the params, the request and the way on; returns the result."""

__all__ = ["Middleware"]


class Middleware:
    """The functions around one server's requests, the first outermost."""

    def __init__(self) -> None:
        self._chain: list[tuple[str | None, AroundRequest]] = []

    def add(self, method: str | None, around: AroundRequest) -> None:
        """Add one; without a method it is around every request."""
        self._chain.append((method, around))

    def wrap(self, methods: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers with what is around them."""
        return {method: self._wrap(method, h) for method, h in methods.items()}

    def _wrap(self, method: str, handler: Handler) -> Handler:
        for wanted, around in reversed(self._chain):
            if wanted is None or wanted == method:
                handler = _Around(around, handler)
        return handler


class _Around:
    def __init__(self, around: AroundRequest, handler: Handler) -> None:
        self._around = around
        self._handler = handler

    async def __call__(self, params: Json, request: RequestContext) -> Json:
        return await self._around(params, request, self._next)

    async def _next(self, params: Json, request: RequestContext) -> Json:
        outcome = self._handler(params, request)
        return await outcome if inspect.isawaitable(outcome) else outcome
