"""HTTP server that a client must not contact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mcpwire.check.clients.http import HttpEndpoint
from mcpwire.check.peer import Transcript

if TYPE_CHECKING:
    from mcpwire.check.clients.http import HttpRequest


class Canary:
    """HTTP server on a port of its own; it records and refuses all requests.

    Attributes:
        requests: Method and path of each request.
        origin: The URL without a path.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._endpoint = HttpEndpoint(self._refuse, Transcript())

    async def __aenter__(self) -> Self:
        await self._endpoint.open()
        self.origin = self._endpoint.origin
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._endpoint.close()

    async def _refuse(self, request: HttpRequest) -> None:
        self.requests.append(f"{request.method} {request.path}")
        await request.respond(404)
