"""ASGI application of a gateway: all servers at one path, each at its own, and status.

::

    /mcp          all servers
    /mcp/NAME     one server, with its own names; also one that the client chose
    /status       the state of the servers, as JSON, for authorized clients
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import MCPError
from mcpwire.gateway.plan import BY_PATH, Static
from mcpwire.server.http.app import AsgiApp, RequestGuard
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem
from mcpwire.server.request import IN_MEMORY
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from os import PathLike

    from mcpwire.gateway.gateway import Gateway, WatchedFiles
    from mcpwire.server.http.exchange import Receive, Scope, Send


class Mounts:
    """The ASGI applications of one gateway by path; see the module's text."""

    def __init__(
        self,
        gateway: Gateway,
        path: str,
        *,
        has_paths: bool,
        status: str | None,
        options: Mapping[str, Any],
    ) -> None:
        if status is not None and not status.startswith("/"):
            raise ValueError(f"status must begin with a slash, got {status!r}")
        self._gateway = gateway
        self._path = path.rstrip("/")
        self._status = status
        self._has_paths = has_paths
        self._options = {"ask_timeout": gateway.ask_timeout, **options}
        self._main_app = AsgiApp(gateway.dispatcher, path=path, **self._options)
        self._server_apps: dict[str, AsgiApp] = {}
        self._guard = RequestGuard(
            hosts=options.get("allowed_hosts"),
            origins=options.get("allowed_origins"),
            cors=options.get("cors") or False,
            auth=gateway.auth,
            bound=options.get("bound"),
        )
        self.limits = gateway.limits

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._gateway!r} at {self._path or '/'}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        app = self._main_app
        if scope["type"] == "http" and (self._has_paths or self._status is not None):
            path = _below_mount(scope)
            if path == self._status:
                await self._send_status(scope, receive, send)
                return
            app, scope = self._route(path, scope)
        if scope["type"] == "lifespan":
            send = self._wrap_send(send)
        await app(scope, receive, send)

    def _route(self, path: str, scope: Scope) -> tuple[AsgiApp, Scope]:
        """Return the application and scope for a path; by default, of all servers."""
        prefix = f"{self._path}/"
        name = path.removeprefix(prefix).removesuffix("/")
        if not self._has_paths or not path.startswith(prefix) or not name:
            return self._main_app, scope
        if not isinstance(self._gateway.source, Static):
            if "/" in name:
                return self._main_app, scope
            # One application for all names, because clients choose any number of them.
            parent = scope["path"].rstrip("/").removesuffix(f"/{name}")
            return self._app_for(BY_PATH, self._path), {
                **scope,
                "path": parent or "/",
                BY_PATH: name,
            }
        plan = self._gateway.source.plan(IN_MEMORY, None)
        if name not in {planned.name for planned in plan.servers}:
            return self._main_app, scope
        return self._app_for(name, prefix + name), scope

    def _app_for(self, name: str, path: str) -> AsgiApp:
        app = self._server_apps.get(name)
        if app is None:
            app = self._server_apps[name] = AsgiApp(
                self._gateway.dispatcher_for(name),
                path=path,
                **{**self._options, "health": None, "ready": None},
            )
        app.is_draining = self._main_app.is_draining
        return app

    async def _send_status(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the state of the servers to an authorized client."""
        exchange = Exchange(scope, receive, send, self.limits)
        try:
            await self._check_access(exchange)
            status = self._gateway.status()
            if not isinstance(self._gateway.source, Static):
                del status["sets"]  # other clients' choices are private
            await exchange.reply(200, status)
        except ClientGone:
            pass
        except HttpProblem as problem:
            message = failure(None, problem.error)
            await exchange.reply(problem.status, message, problem.headers)

    async def _check_access(self, exchange: Exchange) -> None:
        """Check and authorize a request for the status."""
        exchange.check_framing()
        self._guard.check_origin(exchange)
        await self._guard.authenticate(exchange)
        if exchange.verb not in {"GET", "HEAD"}:
            raise HttpProblem(
                405, "only GET is allowed here", (("allow", "GET, HEAD"),)
            )

    # Life cycle, as that of an `AsgiApp`

    def _wrap_send(self, send: Send) -> Send:
        async def send_event(event: Any) -> None:
            if event["type"] == "lifespan.shutdown.complete":
                await asyncio.gather(
                    *(app.aclose() for app in self._server_apps.values())
                )
            await send(event)

        return send_event

    @property
    def _apps(self) -> list[AsgiApp]:
        return [self._main_app, *self._server_apps.values()]

    async def start(self) -> None:
        """Start before the first request, or again after `aclose`."""
        await self._main_app.start()

    async def drain(self, timeout: float = 10.0) -> None:
        """Stop accepting requests, wait for running calls, then close open streams."""
        await asyncio.gather(*(app.drain(timeout) for app in self._apps))

    async def aclose(self) -> None:
        """Cancel all calls, and close all streams and all connections to servers."""
        await asyncio.gather(*(app.aclose() for app in self._apps))


def _below_mount(scope: Scope) -> str:
    """Return the path below the mount point, which some servers leave in the path."""
    path: str = scope["path"]
    root: str = scope.get("root_path") or ""
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
        return path[len(root) :]
    return path


logger = logging.getLogger("mcpwire")

INTERVAL_S: Final = 1.0
"""Seconds between checks of the files for changes."""


def file_states(paths: Iterable[str | PathLike[str]]) -> list[Any]:
    """Return the identity, time and size of files, to detect changes."""
    states: list[Any] = []
    for path in paths:
        try:
            stat = Path(path).stat()
        except OSError:  # an editor may be replacing the file right now
            states.append(None)
        else:
            states.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return states


async def watch(
    gateway: Gateway,
    watched: WatchedFiles,
    *,
    interval: float = INTERVAL_S,
    report: Callable[[str], object] = logger.warning,
) -> None:
    """Reload a gateway whenever one of its files changes, until cancelled."""
    states = file_states(watched.files)
    while True:
        await asyncio.sleep(interval)
        previous, states = states, file_states(watched.files)
        if states == previous:
            continue
        try:
            changes = await gateway.replace(watched.load())
        except (MCPError, OSError, ValueError) as error:
            report(f"nothing is reloaded: {error}")
            continue
        kinds = attrs.asdict(changes).items()
        texts = [f"{kind} {', '.join(names)}" for kind, names in kinds if names]
        if texts:
            report(f"reloaded: {'; '.join(texts)}")
