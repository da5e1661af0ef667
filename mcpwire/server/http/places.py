"""The paths of the application: the endpoints, and those that anybody may look at."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from mcpwire.server.http.exchange import HttpProblem

if TYPE_CHECKING:
    from mcpwire.server.auth.resource_server import ResourceServer
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

    HEALTH = auto()
    """What shows that the server lives."""

    READY = auto()
    """What shows that it takes requests."""

    DOCUMENT = auto()
    """What the resource server says of itself (RFC 9728)."""


_FOR_EVERYBODY: Final = frozenset({Place.HEALTH, Place.READY, Place.DOCUMENT})


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
        self._endpoint = endpoint or "/"
        self._places: dict[str | None, Place] = {
            health: Place.HEALTH,
            ready: Place.READY,
            endpoint: Place.ENDPOINT,
            f"{endpoint}/": Place.ENDPOINT,
        }
        if has_legacy:
            self._places[f"{endpoint}/sse"] = Place.LEGACY_STREAM
            self._places[f"{endpoint}/messages"] = Place.LEGACY_MESSAGES
        self._documents = frozenset(() if auth is None else auth.metadata_paths())
        self._auth = auth
        self._life = life

    def find(self, exchange: Exchange) -> Place | None:
        """Return what is at the path of a request; ``None``: nothing."""
        path = _below_mount(exchange)
        place = self._places.get(path)
        if place is None and exchange.scope["path"] in self._documents:
            return Place.DOCUMENT
        if place is None and path in {"", "/"} and exchange.scope.get("root_path"):
            return Place.ENDPOINT
        return place

    def missing(self, exchange: Exchange) -> HttpProblem:
        """Return what is said where nothing is: who mistook the path learns the one."""
        root = exchange.scope.get("root_path") or ""
        return HttpProblem(
            404,
            f"there is nothing at this path; the endpoint is {root}{self._endpoint}",
        )

    async def show(self, place: Place | None, exchange: Exchange) -> bool:
        """Answer with what anybody may look at; tell whether the place is of that kind.

        Raises:
            HttpProblem: It is not looked at, but something else is done.
        """
        if place not in _FOR_EVERYBODY:
            return False
        status = 200
        if place is Place.HEALTH:
            document: dict[str, Any] = {"status": "alive"}
        elif place is Place.READY:
            is_ready = not self._life.is_draining
            document = {"status": "ready" if is_ready else "draining"}
            status = 200 if is_ready else 503
        else:
            assert self._auth is not None  # whose document it is
            # RFC 9728, 3.1; clients in browsers read it from other origins.
            exchange.extra.append((b"access-control-allow-origin", b"*"))
            document = self._auth.metadata()
        if exchange.verb not in {"GET", "HEAD"}:
            raise HttpProblem(
                405, "only GET is answered here", (("allow", "GET, HEAD"),)
            )
        await exchange.reply(status, document)
        return True


def _below_mount(exchange: Exchange) -> str:
    """Return the path without that of the mount, which some servers leave in it."""
    path = exchange.path
    root: str = exchange.scope.get("root_path", "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
        return path[len(root) :]
    return path
