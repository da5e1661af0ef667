"""The paths of the application: the endpoint, and those that anybody may look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.server.http.exchange import HttpProblem

if TYPE_CHECKING:
    from mcpwire.server.auth.resource import ResourceServer
    from mcpwire.server.http.exchange import Exchange
    from mcpwire.server.http.life import Life

__all__ = ["Places"]


class Places:
    """Knows the paths, and answers those that show nothing of anybody.

    Args:
        endpoint: The path of the endpoint.
        health: The path that shows that the server lives.
        ready: The path that shows that it takes requests.
        auth: Says at which paths, from the root of the host, it describes itself.
        life: Knows whether requests are taken.

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
    ) -> None:
        for name, path in (("path", endpoint), ("health", health), ("ready", ready)):
            if path is not None and not path.startswith("/"):
                raise ValueError(f"{name} must begin with a slash, got {path!r}")
        endpoint = endpoint.rstrip("/")
        self._endpoints = frozenset({endpoint, f"{endpoint}/"})
        self._health = health
        self._ready = ready
        self._documents = frozenset(() if auth is None else auth.metadata_paths())
        self._auth = auth
        self._life = life

    async def answer(self, exchange: Exchange) -> bool:
        """Answer what anybody may look at, whoever asks; tell whether it was that."""
        path = _below_mount(exchange)
        if path in self._endpoints:
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

    def check(self, exchange: Exchange) -> None:
        """Check that a request is for the endpoint.

        Raises:
            HttpProblem: There is nothing there.
        """
        path = _below_mount(exchange)
        if path in self._endpoints:
            return
        if path in {"", "/"} and exchange.scope.get("root_path"):
            return
        raise HttpProblem(404, "there is nothing at this path")


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
