"""The paths of the application: the endpoints, and those that anybody may look at."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from mcpwire.server.http.exchange import HttpProblem

if TYPE_CHECKING:
    from mcpwire.server.auth.resource import ResourceServer
    from mcpwire.server.http.exchange import Exchange
    from mcpwire.server.http.life import Life

__all__ = ["Place", "Places"]


class Place(Enum):
    """What is at a path."""

    ENDPOINT = auto()
    """The one of Streamable HTTP."""

    LEGACY_STREAM = auto()
    """Where clients of 2024-11-05 open a connection."""

    LEGACY_MESSAGES = auto()
    """Where they send what they have to say."""


class Places:
    """Knows the paths, and answers those that show nothing of anybody.

    Args:
        endpoint: The path of the endpoint.
        health: The path that shows that the server lives.
        ready: The path that shows that it takes requests.
        auth: Says at which paths, from the root of the host, it describes itself.
        life: Knows whether requests are taken.
        has_legacy: Whether there are the endpoints of 2024-11-05.

    Raises:
        ValueError: A path is none.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        health: str | None,
        ready: str | None,
        auth: ResourceServer | None,
        life: Life,
        has_legacy: bool = False,
    ) -> None:
        for name, path in (("path", endpoint), ("health", health), ("ready", ready)):
            if path is not None and not path.startswith("/"):
                raise ValueError(f"{name} must begin with a slash, got {path!r}")
        endpoint = endpoint.rstrip("/")
        self._places = {endpoint: Place.ENDPOINT, f"{endpoint}/": Place.ENDPOINT}
        if has_legacy:
            self._places[f"{endpoint}/sse"] = Place.LEGACY_STREAM
            self._places[f"{endpoint}/messages"] = Place.LEGACY_MESSAGES
        self._health = health
        self._ready = ready
        self._documents = frozenset(() if auth is None else auth.metadata_paths())
        self._auth = auth
        self._life = life

    async def answer(self, exchange: Exchange) -> bool:
        """Answer what anybody may look at, whoever asks; tell whether it was that."""
        path = _below_mount(exchange)
        if path in self._places:
            return False
        if path == self._health:
            await _show(exchange, {"status": "alive"})
        elif path == self._ready:
            is_ready = not self._life.is_draining
            status = {"status": "ready" if is_ready else "draining"}
            await _show(exchange, status, 200 if is_ready else 503)
        elif exchange.scope["path"] in self._documents and self._auth is not None:
            # RFC 9728, 3.1; browsers' clients read it from other origins.
            exchange.extra.append((b"access-control-allow-origin", b"*"))
            await _show(exchange, self._auth.metadata())
        else:
            return False
        return True

    def find(self, exchange: Exchange) -> Place:
        """Return what is at the path of a request.

        Raises:
            HttpProblem: There is nothing.
        """
        path = _below_mount(exchange)
        place = self._places.get(path)
        if place is None and path in {"", "/"} and exchange.scope.get("root_path"):
            place = Place.ENDPOINT
        if place is None:
            raise HttpProblem(404, "there is nothing at this path")
        return place


def _below_mount(exchange: Exchange) -> str:
    """Return the path without that of the mount, which some servers leave in it."""
    path = exchange.path
    root: str = exchange.scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
        return path[len(root) :]
    return path


async def _show(
    exchange: Exchange, document: dict[str, Any], status: int = 200
) -> None:
    if exchange.verb not in {"GET", "HEAD"}:
        raise HttpProblem(405, "only GET is answered here", (("allow", "GET, HEAD"),))
    await exchange.reply(status, document)
