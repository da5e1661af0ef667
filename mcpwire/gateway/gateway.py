"""`Gateway`: one MCP endpoint in front of many servers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import attrs

from mcpwire._package import __version__
from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.errors import InvalidRequest
from mcpwire.gateway.delegates import make_splicer
from mcpwire.gateway.downstream import SuspensionLimits
from mcpwire.gateway.forwarding import check_header_names, pick_headers
from mcpwire.gateway.plan import Changes, Plan, Planned, Static
from mcpwire.gateway.sessions import HandleIds
from mcpwire.gateway.upstreams import UpstreamPool
from mcpwire.limits import Limits, check_choice, check_count, check_timeout
from mcpwire.protocol.request_state import check_key
from mcpwire.server.components import check_page_size
from mcpwire.server.notifications import OpenSubscriptions
from mcpwire.tools.names import NamePolicy
from mcpwire.tools.results import extra_capabilities
from mcpwire.tools.rules import Rules
from mcpwire.tools.transforms import check_transforms
from mcpwire.types.lifecycle import Implementation
from mcpwire.versions import REVISIONS, parse_revisions

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import (
        AsyncIterator,
        Callable,
        Hashable,
        Iterable,
        Mapping,
        Sequence,
    )
    from typing import Literal, Self

    from mcpwire.config import Configuration
    from mcpwire.gateway.dispatcher import GatewayDispatcher
    from mcpwire.gateway.plan import Source
    from mcpwire.gateway.serving import Mounts
    from mcpwire.gateway.sessions import SessionIds
    from mcpwire.gateway.tracing import ExchangeTrace, RecordFn
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.dispatcher import AroundRequest
    from mcpwire.server.request import RequestInfo
    from mcpwire.server.server import Server
    from mcpwire.tools.transforms import ToolTransform
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.custom import Messages, ReceiveFn, SendFn, Stream
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.versions import Revision

F = TypeVar("F", bound="Callable[..., Any]")

GATEWAY_LIMITS: Final[Limits] = Limits(inbound=1_024)
"""Default limits of a gateway, for its clients and its servers."""

SERVER_NAMES: Final = ("ours", "theirs")

LOCAL_NAME: Final = "local"
"""The name of the gateway's own server."""


class Gateway:
    """One MCP server that combines many, for all five protocol versions on both sides.

    ::

        gateway = mcpwire.Gateway({"time": "uvx mcp-server-time", "files": other})
        gateway.run(http="127.0.0.1:8000")

    Args:
        source: The servers: targets by name, as `mcpwire.Group` takes them, or a
            `Static`, or another `Source` that selects them for each client.
        name: The gateway's name for clients and servers.
        version: The gateway's version.
        names: The policy for the names of tools and prompts.
        server_names: The value of ``{server}`` in names: ``"ours"``, the name in
            `source`, or ``"theirs"``, the name that the server declares, with its
            version and then a number where several declare the same. With ``"theirs"``
            a server can take the name of another one, and the user's trust in it.
        on_error: The effect of a server that cannot be connected to: ``"skip"``
            continues without it, ``"raise"`` refuses the session.
        timeout: Time limit of a server's response, in seconds; ``None``: no limit.
        connect_timeout: Time limit for connecting to a server, in seconds.
        concurrency: How many servers of one set are connected to in parallel.
        allow: Patterns of the tools that are offered; empty: all of them.
        deny: Patterns of the tools that are not offered; they override `allow`.
        transforms: A `ToolTransform` by the pattern of the tools that it changes.
        resources_as_tools: Whether to add tools that list and read resources.
        prompts_as_tools: Whether to add tools that list and get prompts.
        forward_headers: Names of header fields to forward from clients to servers.
        deny_urls: Hosts and URLs of servers that are never connected to.
        delegate: A `ContentDelegate` or `Splicer` that adds content to tool results.
        local: A `Server` of the gateway itself; its tools, prompts and resources keep
            their names.
        sessions: The `SessionIds` that makes session ids; by default `HandleIds`.
        share: ``"session"``: each session has connections of its own. ``"identity"``:
            sessions of one principal share them if servers, protocol version,
            capabilities and forwarded header fields are equal.
        max_upstream_sets: Maximum of sets of connections open at once. At the limit
            the client with the most loses a set, an idle one first, and the session
            that has it.
        idle: Seconds without use until a shared set is closed.
        auth: The protection of the HTTP endpoint.
        limits: Limits on the resources that one client, or one server, can use.
        page_size: How many items one page of a list has; ``None``: all of them.
        revisions: The protocol versions for clients; by default all.
        instructions: The instructions for clients; ``None``: those of the servers.
        ask_timeout: Time limit of a client's answer to a request, in seconds.
        state_keys: Secrets that sign the ids of tasks and the states of calls that
            clients keep, at least 16 random bytes each, the newest first. All processes
            that serve the same clients need the same keys. By default a random key is
            made, which is lost with the process.
        trace: Called with a record of each exchange, on both sides; see
            `mcpwire.gateway.tracing`. Its exceptions are counted in `status` and
            otherwise ignored.

    Raises:
        TypeError: An option has the wrong type; names it.
        ValueError: An option is invalid; names it.

    Attributes:
        watched: The files of the gateway's configuration, if any.
    """

    watched: WatchedFiles | None = None

    def __init__(
        self,
        source: Mapping[str, Any] | Source,
        *,
        name: str = "mcpwire-gateway",
        version: str = __version__,
        names: NamePolicy | None = None,
        server_names: Literal["ours", "theirs"] = "ours",
        on_error: Literal["skip", "raise"] = "skip",
        timeout: float | None = 300.0,
        connect_timeout: float | None = 60.0,
        concurrency: int = 8,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        transforms: Mapping[str, ToolTransform] | None = None,
        resources_as_tools: bool = False,
        prompts_as_tools: bool = False,
        forward_headers: Iterable[str] = (),
        deny_urls: Iterable[str] = (),
        delegate: Any = None,
        local: Server | None = None,
        sessions: Any = None,
        share: Literal["session", "identity"] = "session",
        max_upstream_sets: int = 64,
        idle: float = 300.0,
        auth: ResourceServer | None = None,
        limits: Limits = GATEWAY_LIMITS,
        page_size: int | None = None,
        revisions: Iterable[Revision | str] = REVISIONS,
        instructions: str | None = None,
        ask_timeout: float = 600.0,
        state_keys: Iterable[bytes] = (),
        trace: RecordFn | None = None,
    ) -> None:
        self.source = source if hasattr(source, "plan") else Static(source)
        self._describe(name, version, instructions, revisions, page_size)
        self.auth = auth
        self.limits = limits
        self.state_keys = tuple(map(check_key, state_keys)) or (token_bytes(32),)
        self.ask_timeout = check_timeout(ask_timeout, "ask_timeout")
        self.on_error = check_choice(on_error, "on_error", ("skip", "raise"))
        self.timeout = check_timeout(timeout)
        self.connect_timeout = check_timeout(connect_timeout, "connect_timeout")
        self.concurrency = check_count(concurrency, "concurrency")
        self.share = check_choice(share, "share", ("session", "identity"))
        self.names = NamePolicy.proxy() if names is None else names
        self.server_names = check_choice(server_names, "server_names", SERVER_NAMES)
        self.rules = Rules(allow=allow, deny=deny)
        self.transforms = check_transforms(transforms or {})
        self.tool_capabilities = extra_capabilities(
            resources=resources_as_tools, prompts=prompts_as_tools
        )
        self._set_forwarding(forward_headers, delegate, sessions)
        self.deny_urls = UrlDenyList(deny_urls)
        # The gateway's own server is planned like all others.
        local_server = Planned(name=LOCAL_NAME, target=local, keeps_names=True)
        self._local = () if local is None else (local_server,)
        if isinstance(self.source, Static):
            self._check_servers(self.source.servers)
        self._set_state(max_upstream_sets, idle, trace)

    def _describe(
        self,
        name: str,
        version: str,
        instructions: str | None,
        revisions: Iterable[Revision | str],
        page_size: int | None,
    ) -> None:
        self.info = Implementation(name, version)
        self.instructions = instructions
        self.revisions = parse_revisions(revisions)
        self.page_size = check_page_size(page_size)

    def _set_forwarding(
        self, forward_headers: Iterable[str], delegate: Any, sessions: Any
    ) -> None:
        private = getattr(self.source, "private_headers", ())
        self.forward_headers = check_header_names(forward_headers, private)
        if hasattr(self.source, "withheld"):
            self.source.withheld = frozenset(self.forward_headers)
        self.delegate = make_splicer(delegate, withheld=private)
        self.sessions: SessionIds = HandleIds() if sessions is None else sessions

    def _set_state(
        self, max_upstream_sets: int, idle: float, trace: RecordFn | None
    ) -> None:
        """Create the state of a gateway that serves."""
        maximum = check_count(max_upstream_sets, "max_upstream_sets")
        seconds = check_timeout(idle, "idle")
        if seconds is None:
            raise ValueError("idle must be a number of seconds, got None")
        self.suspension = SuspensionLimits(
            timeout=self.ask_timeout or 0.0, keys=self.state_keys
        )
        self.around: list[tuple[str | None, AroundRequest]] = []
        self.pool = UpstreamPool(maximum=maximum, idle=seconds)
        # Server, or server and list method -> the error of the last attempt to connect
        # or to list, if that took long.
        self.unresponsive: dict[Hashable, str] = {}
        self._dispatchers: dict[str | None, GatewayDispatcher] = {}
        self._users = 0
        self.listens = OpenSubscriptions(self.limits.listens)
        self.trace: ExchangeTrace | None = None
        if trace is not None:
            from mcpwire.gateway.tracing import ExchangeTrace

            self.trace = ExchangeTrace(trace)
            self.around.append((None, self.trace.around))

    def __repr__(self) -> str:
        return f"<Gateway {self.info.name!r}, {self.source!r}>"

    # Plans and header fields

    def complete_plan(self, plan: Plan, server: str | None) -> Plan:
        """Return a source's plan with the gateway's own server, or one server of it.

        Raises:
            InvalidRequest: A server has the name of the gateway's own.
        """
        try:
            return plan.with_servers(self._local).only(server)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    def _check_servers(self, servers: tuple[Planned, ...]) -> None:
        """Raise `ValueError` if a server is denied, or named like the gateway's own."""
        for planned in servers:
            if self.denies(planned):
                raise ValueError(f"the URL of the server {planned.name!r} is denied")
        Plan(servers=(*servers, *self._local))

    def denies(self, planned: Planned) -> bool:
        """Return whether the URL of a server is on the deny list."""
        url = getattr(planned.target, "url", None)
        return url is not None and self.deny_urls.refuses(url) is not None

    def headers_to_forward(self, info: RequestInfo) -> Mapping[str, str]:
        """Return the header fields of a request to forward to the servers."""
        if not self.forward_headers:
            return {}
        return pick_headers(info.headers, self.forward_headers)

    async def replace(self, servers: Mapping[str, Any]) -> Changes:
        """Replace the servers, also those of open sessions.

        Unchanged servers keep their connections. New ones are connected to; `status`
        reports their errors. Clients are notified that the lists changed.

        Args:
            servers: As `source`: targets, or members, by name.

        Returns:
            The names of the added, removed and changed servers.

        Raises:
            TypeError: The source is not a `Static`.
            ValueError: A target is invalid or denied; nothing is changed.
        """
        if not isinstance(self.source, Static):
            raise TypeError(f"{self.source!r} does not have the same servers for all")
        changes = self.source.replace(servers, self._check_servers)
        if changes:
            plan = self.source.plan()
            sets = (*self.pool.session_sets, *self.pool.shared)
            await asyncio.gather(
                *(
                    upstreams.replace(
                        self.complete_plan(plan, upstreams.plan.only_server)
                    )
                    for upstreams in sets
                )
            )
        return changes

    # Closing

    def acquire(self) -> None:
        """Keep shared connections open while the gateway is in use, until `release`."""
        self._users += 1

    async def release(self) -> None:
        """Undo one `acquire`; with the last one, close all connections."""
        self._users -= 1
        if self._users == 0:
            await self.aclose()

    async def aclose(self) -> None:
        """Close all connections to servers, within the time limits of closing a client.

        It can be called twice, and the gateway can be used again afterwards.
        """
        await self.pool.aclose()

    async def __aenter__(self) -> Self:
        self.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        await self.aclose()

    # Middleware

    @overload
    def middleware(self, around: F, /) -> F: ...

    @overload
    def middleware(self, method: str, /) -> Callable[[F], F]: ...

    def middleware(self, around: Any, /) -> Any:
        """Add middleware for all requests, or for those of one method.

        As in `Server.middleware`, it gets the params, the request and `call_next`.
        """
        if isinstance(around, str):
            return lambda function: self._add_middleware(around, function)
        return self._add_middleware(None, around)

    def _add_middleware(self, method: str | None, around: Any) -> Any:
        self.around.append((method, around))
        for dispatcher in self._dispatchers.values():
            dispatcher.redeclare()
        return around

    # Dispatchers

    @property
    def dispatcher(self) -> GatewayDispatcher:
        """The dispatcher of all servers, for transports."""
        return self.dispatcher_for(None)

    def dispatcher_for(self, name: str | None) -> GatewayDispatcher:
        """Return the dispatcher of one server, which keeps its names, or of all."""
        dispatcher = self._dispatchers.get(name)
        if dispatcher is None:
            from mcpwire.gateway.dispatcher import GatewayDispatcher

            dispatcher = self._dispatchers[name] = GatewayDispatcher(self, only=name)
        return dispatcher

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Serve one client in this process, as `Client(gateway)` does."""
        channel = self.dispatcher.open_in_memory(client, limits)
        after_close = channel.after_close
        assert after_close is not None
        self.acquire()

        async def close() -> None:
            try:
                await after_close()
            finally:
                await self.release()

        channel.after_close = close
        return channel

    def status(self) -> dict[str, Any]:
        """Return the state of the gateway and its servers, as JSON.

        It contains no session ids and no other secrets.
        """
        sets = [*self.pool.session_sets, *self.pool.shared]
        trace_status = {} if self.trace is None else {"trace_errors": self.trace.errors}
        return {
            "name": self.info.name,
            "version": self.info.version,
            "sessions": len(self.pool.session_sets),
            "shared": len(self.pool.shared),
            "sets": [upstreams.status() for upstreams in sets],
            **trace_status,
        }

    @classmethod
    def from_config(
        cls,
        source: Any,
        *,
        layers: Iterable[Any] = (),
        environment: Mapping[str, str] | None = None,
        only: Iterable[str] | None = None,
        deny_urls: Iterable[str] = (),
        **options: Any,
    ) -> Self:
        """Return a gateway for the servers of a configuration, as `Group.from_config`.

        Args:
            source: The path of a configuration file, or its content.
            layers: Further sources, each of which overrides the ones before.
            environment: The variables to expand; ``None``: those of this process.
            only: The names of the servers to use; ``None``: all.
            deny_urls: Hosts and URLs of servers that are never connected to.
            options: Options of the gateway.

        Raises:
            ConfigError: The configuration is invalid; names file, entry and field.
            UnknownServer: `only` names a server that is not configured.
            ValueError: An option is invalid.
        """
        from mcpwire.config import load

        denied, layer_list = tuple(deny_urls), tuple(layers)
        selected = None if only is None else tuple(only)

        def read() -> Configuration:
            return load(
                source, layer_list, environment, only=selected, deny_urls=denied
            )

        configuration = read()
        gateway = cls(configuration.members(), deny_urls=denied, **options)
        if configuration.files:
            gateway.watched = WatchedFiles(
                files=configuration.files, load=lambda: dict(read().members())
            )
        return gateway

    async def reload(self, source: Any, **options: Any) -> Changes:
        """Replace the servers by those of a configuration, also in open sessions.

        Unchanged servers keep their connections; clients are notified that the lists
        changed.

        Args:
            source: A `Configuration`, or a source as for `from_config`.
            options: Options of `mcpwire.config.load`, such as ``layers``.

        Returns:
            The names of the added, removed and changed servers.

        Raises:
            ConfigError: The configuration is invalid; nothing is changed.
            TypeError: The gateway's source is not a `Static`.
        """
        from mcpwire.config import load

        options.setdefault("deny_urls", self.deny_urls)
        return await self.replace(load(source, **options).members())

    def drop(self, id: str) -> bool:
        """End a session by its id; return whether it was open in this process.

        The id is withdrawn (`SessionIds.withdraw`), also for a session being opened.
        """
        self.sessions.withdraw(id)
        sessions = [
            session
            for dispatcher in self._dispatchers.values()
            for session in dispatcher.sessions_of(id)
        ]
        for session in sessions:
            if session.end is not None:
                session.end()
        return bool(sessions)

    # Transports

    def asgi(
        self,
        path: str = "/mcp",
        *,
        paths: bool = False,
        status: str | None = None,
        **options: Any,
    ) -> Mounts:
        """Return the gateway as an ASGI application.

        It runs under any ASGI server and can be mounted in any framework.

        Args:
            path: The path of the endpoint with all servers.
            paths: Whether each server also has a path of its own, ``path/NAME``, where
                its tools and prompts keep their names. Where clients choose their
                servers, NAME is one of the chosen.
            status: The path that returns `Gateway.status` to authorized clients;
                ``None``: no such path.
            options: Options of `mcpwire.server.http.app.AsgiApp`.

        Raises:
            ValueError: An option is invalid.
        """
        from mcpwire.gateway.serving import Mounts

        return Mounts(self, path, has_paths=paths, status=status, options=options)

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout until the input ends.

        Cancelling it ends it; in both cases all connections to servers are closed.
        """
        from mcpwire.server.stdio import serve_stdio

        async with self:
            await serve_stdio(self.dispatcher)

    async def serve_stream(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one client over a byte stream; fits `asyncio.start_server`.

        See `Server.serve_stream`. Shared connections to servers are
        closed after the last client, unless the gateway was entered (``async with``).
        """
        from mcpwire.transports.custom import Stream

        await self._serve(Stream((reader, writer), name="a stream"))

    async def serve_messages(
        self, send: SendFn, receive: ReceiveFn, **options: Any
    ) -> None:
        """Serve one client over single messages, such as those of a WebSocket.

        See `Server.serve_messages` for arguments and errors, and
        `serve_stream` for the closing of connections to servers.
        """
        from mcpwire.transports.custom import Messages

        await self._serve(Messages(send, receive, **options))

    async def _serve(self, channel: Stream | Messages) -> None:
        from mcpwire.server.connection import serve

        self.acquire()
        try:
            await serve(self.dispatcher, channel)
        finally:
            await self.release()

    def run(
        self, *, http: str | None = None, watch: bool = False, **options: Any
    ) -> None:
        """Serve on stdio or over HTTP, and block until the server ends.

        Args:
            http: ``"HOST:PORT"`` to serve HTTP there; port 0 takes a free one.
            watch: Whether to reload the servers when configuration files change; only
                changed servers are connected to again.
            options: Options of `asgi` and of `mcpwire.server.http.uvicorn.serve_http`.

        Raises:
            RuntimeError: An event loop is already running: await `serve_stdio` or serve
                `asgi` there.
            SystemExit: A signal ended the server; has the exit code for it.
            ValueError: `watch` is set, and the gateway has no configuration files.
        """
        if watch and self.watched is None:
            raise ValueError("watch needs a gateway that is made of files")
        lifespan = partial(_running_gateway, self, self.watched if watch else None)
        from mcpwire.server.stdio import run_server

        run_server(self, http, options, lifespan)


@attrs.frozen
class WatchedFiles:
    """The configuration files of a gateway's servers."""

    files: Sequence[str]

    load: Callable[[], Mapping[str, Any]]
    """Reads the files; returns the servers in the form of `Gateway`'s `source`."""


@asynccontextmanager
async def _running_gateway(
    gateway: Gateway, watched: WatchedFiles | None
) -> AsyncIterator[None]:
    """Keep a gateway open, and watch its files, while it is served."""
    async with gateway:
        if watched is None:
            yield
            return
        from mcpwire.gateway.serving import watch

        watcher = asyncio.get_running_loop().create_task(
            watch(gateway, watched), name="mcpwire-gateway-watch"
        )
        try:
            yield
        finally:
            watcher.cancel()
            await asyncio.wait([watcher])
