"""`Gateway`: one MCP endpoint in front of many servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from mcpwire._version import __version__
from mcpwire.errors import InternalError, InvalidRequest
from mcpwire.gateway.bridge import Parking, make_client
from mcpwire.gateway.delegating.splicer import splicer_of
from mcpwire.gateway.plan import Planned, Static
from mcpwire.gateway.serving.serving import Serving
from mcpwire.gateway.sessions.ids import HandleIds
from mcpwire.gateway.sets import Sets
from mcpwire.gateway.upstream import Upstream
from mcpwire.limits import Limits, check_timeout
from mcpwire.protocol.many.denying import UrlDenyList
from mcpwire.protocol.many.gateway.selection import check_forwarded, pick_headers
from mcpwire.protocol.many.names import NamePolicy
from mcpwire.protocol.many.policy.rules import Rules
from mcpwire.protocol.many.policy.transforms import ToolTransform
from mcpwire.server.features.paging import check_page_size
from mcpwire.server.middleware import Middleware
from mcpwire.types.lifecycle import Implementation
from mcpwire.versions import REVISIONS, read_revisions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Literal, Self

    from mcpwire.gateway.dispatcher import GatewayDispatcher
    from mcpwire.gateway.plan import Plan, Source
    from mcpwire.gateway.sessions.ids import SessionIds
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.app import Server
    from mcpwire.server.auth.resource import ResourceServer
    from mcpwire.server.request import Facts
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.versions import Revision

__all__ = ["GATEWAY_LIMITS", "Gateway"]

F = TypeVar("F", bound="Callable[..., Any]")

GATEWAY_LIMITS: Final[Limits] = Limits(inbound=1_024)
"""The bounds of a gateway that is given none, for its clients and its servers."""

LOCAL: Final = "local"
"""The name of the gateway's own server among the others."""


class Gateway(Serving):
    """One MCP server made of many, of five revisions on both sides.

    ::

        gateway = mcpwire.Gateway({"time": "uvx mcp-server-time", "files": other})
        gateway.run(http="127.0.0.1:8000")

    Args:
        source: The servers: targets by name, as `mcpwire.Group` takes them, or a
            `Static` or another `Source` that says which ones there are for who asks.
        name: Who it says it is.
        version: Which one.
        names: How tools and prompts are called.
        on_error: What comes of a server that cannot be connected to: ``"skip"`` goes on
            without it, ``"raise"`` refuses the session.
        timeout: How long a server may take to answer, in seconds; ``None``: no limit.
        connect_timeout: How long it may take to connect, in seconds.
        concurrency: How many servers of one set are connected to at once.
        allow: Patterns of the tools that are offered; empty: all of them.
        deny: Patterns of the tools that are not; they win.
        transforms: A `ToolTransform` by the pattern of the tools that it changes.
        resources_as_tools: Whether resources can be had by tools, too.
        prompts_as_tools: Whether prompts can.
        forward_headers: Names of the header fields that go along to the servers.
        deny_urls: Hosts and URLs of servers that are never connected to.
        delegate: What adds to the results of tools.
        local: A `Server` whose tools, prompts and resources are the gateway's own; they
            keep their names.
        sessions: What makes session ids; by default random ones.
        share: ``"session"``: each session has connections of its own. ``"identity"``:
            those share them that ask for the same as the same principal.
        max_upstream_sets: How many sets of connections there may be.
        idle: How long a shared set is kept that nobody uses, in seconds.
        auth: Who may ask over HTTP.
        limits: Bounds on what one client, or one server, may cost.
        page_size: How many items one page of a list has; ``None``: all of them.
        revisions: What it speaks to clients; all of them by default.
        instructions: How it wants to be used; ``None``: what its servers say.
        ask_timeout: How long a client may take to answer a question, in seconds.

    Raises:
        TypeError: An option is of another kind; names it.
        ValueError: An option is wrong; names it.
    """

    def __init__(
        self,
        source: Mapping[str, Any] | Source,
        *,
        name: str = "mcpwire-gateway",
        version: str = __version__,
        names: NamePolicy | None = None,
        on_error: Literal["skip", "raise"] = "skip",
        timeout: float | None = 300.0,
        connect_timeout: float | None = 60.0,
        concurrency: int = 8,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        transforms: Mapping[str, Any] | None = None,
        resources_as_tools: bool = False,
        prompts_as_tools: bool = False,
        forward_headers: Iterable[str] = (),
        deny_urls: Iterable[str] = (),
        delegate: Any = None,
        local: Server | None = None,
        sessions: Any = None,
        share: Literal["session", "identity"] = "session",
        max_upstream_sets: int = 1_000,
        idle: float = 300.0,
        auth: ResourceServer | None = None,
        limits: Limits = GATEWAY_LIMITS,
        page_size: int | None = None,
        revisions: Iterable[Revision | str] = REVISIONS,
        instructions: str | None = None,
        ask_timeout: float = 600.0,
    ) -> None:
        self.source: Source = source if hasattr(source, "plan") else Static(source)
        self.info = Implementation(name, version)
        self.names = NamePolicy.proxy() if names is None else names
        self.on_error = _one_of("on_error", on_error, ("skip", "raise"))
        self.timeout = check_timeout(timeout)
        self.connect_timeout = check_timeout(connect_timeout, "connect_timeout")
        self.concurrency = _count("concurrency", concurrency)
        self.rules = Rules(allow=tuple(allow), deny=tuple(deny))
        self.transforms = _transforms(transforms or {})
        as_tools = {"resources": resources_as_tools, "prompts": prompts_as_tools}
        self.as_tools = frozenset(kind for kind, wanted in as_tools.items() if wanted)
        private = getattr(self.source, "private_headers", ())
        self.forward_headers = check_forwarded(forward_headers, private)
        if hasattr(self.source, "withheld"):
            self.source.withheld = frozenset(self.forward_headers)
        self.deny_urls = UrlDenyList(deny_urls)
        self.delegate = splicer_of(delegate)
        self.sessions: SessionIds = HandleIds() if sessions is None else sessions
        self.share = _one_of("share", share, ("session", "identity"))
        self._maximum = _count("max_upstream_sets", max_upstream_sets)
        self.auth = auth
        self.limits = limits
        self.page_size = check_page_size(page_size)
        self.revisions = read_revisions(revisions)
        self.instructions = instructions
        self.ask_timeout = check_timeout(ask_timeout, "ask_timeout")
        self.parking = Parking(timeout=ask_timeout)
        self.around = Middleware()
        self.opened: set[Upstreams] = set()
        self.sets = Sets(
            maximum=self._maximum,
            idle=check_timeout(idle, "idle") or 0.0,
            close=self.close_later,
        )
        self._local = () if local is None else (_local(local),)
        self._dispatchers: dict[str | None, GatewayDispatcher] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._holders = 0

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<Gateway {self.info.name!r}, {self.source!r}>"

    # What sessions and requests need of it...

    def plan(self, facts: Facts, params: Mapping[str, Any] | None) -> Plan:
        """Return the servers for who asks, the gateway's own among them.

        Raises:
            RPCError: This is the answer.
        """
        return self.completed(self.source.plan(facts, params))

    def completed(self, plan: Plan) -> Plan:
        """Return a source's plan with the gateway's own server."""
        return plan.beside(self._local)

    def make_upstream(self, upstreams: Upstreams, planned: Planned) -> Upstream:
        """Return one server of a set, not connected yet.

        Raises:
            InvalidRequest: Its URL is on the deny list.
        """
        self._check_url(planned)
        options = {
            "timeout": self.timeout,
            "connect_timeout": self.connect_timeout,
            "limits": self.limits,
            **planned.options,
        }
        client = make_client(upstreams, planned.name, planned.target, **options)
        return Upstream(
            planned, client, timeout=options["timeout"], limits=options["limits"]
        )

    def _check_url(self, planned: Planned) -> None:
        url = getattr(planned.target, "url", None)
        if url is not None and self.deny_urls.refuses(url) is not None:
            raise InvalidRequest(
                f"the server {planned.name!r} is at a URL that is denied"
            )

    def forwarded(self, facts: Facts) -> Mapping[str, str]:
        """Return the header fields of a request that go along to the servers.

        Raises:
            InvalidRequest: One cannot be sent on.
        """
        if not self.forward_headers:
            return {}
        try:
            return pick_headers(facts.headers, self.forward_headers)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    def own_capabilities(self, upstreams: Upstreams) -> dict[str, Any]:
        """Return what the gateway can do beside what its servers can."""
        if any(upstreams.offering(kind) for kind in self.as_tools):
            return {"tools": {}}
        return {}

    def check_room(self) -> None:
        """Refuse another set where there are too many.

        Raises:
            InternalError: There are.
        """
        if len(self.opened) >= self._maximum:
            raise InternalError("too many sessions are open already")

    # The end of sets...

    def close_later(self, upstreams: Upstreams) -> asyncio.Task[None]:
        """Close a set in a task of its own, which is returned."""
        self.opened.discard(upstreams)
        task = asyncio.get_running_loop().create_task(
            upstreams.aclose(), name="mcpwire-gateway-close"
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def hold(self) -> None:
        """Keep shared connections open as long as somebody serves; see `release`."""
        self._holders += 1

    async def release(self) -> None:
        """Take one `hold` back; with the last one all connections are closed."""
        self._holders -= 1
        if self._holders == 0:
            await self.aclose()

    async def aclose(self) -> None:
        """Close all connections to servers; bounded as closing a client is.

        Works twice, and the gateway can be used again afterwards.
        """
        self.sets.close()
        for upstreams in list(self.opened):
            self.close_later(upstreams)
        if self._closing:
            await asyncio.wait(list(self._closing))

    async def __aenter__(self) -> Self:
        self.hold()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._holders -= 1
        await self.aclose()

    # Around requests...

    @overload
    def middleware(self, around: F, /) -> F: ...

    @overload
    def middleware(self, method: str, /) -> Callable[[F], F]: ...

    def middleware(self, around: Any, /) -> Any:
        """Put a function around every request, or around those of one method.

        As `Server.middleware`: it takes the params, the request and the way on.
        """
        if isinstance(around, str):
            return lambda function: self._add_middleware(around, function)
        return self._add_middleware(None, around)

    def _add_middleware(self, method: str | None, around: Any) -> Any:
        self.around.add(method, around)
        for dispatcher in self._dispatchers.values():
            dispatcher.redeclare()
        return around

    # Serving...

    @property
    def dispatcher(self) -> GatewayDispatcher:
        """What transports serve: all servers as one."""
        return self.dispatcher_for(None)

    def dispatcher_for(self, name: str | None) -> GatewayDispatcher:
        """Return what serves one of the servers, with its names as they are."""
        found = self._dispatchers.get(name)
        if found is None:
            from mcpwire.gateway.dispatcher import GatewayDispatcher

            found = self._dispatchers[name] = GatewayDispatcher(self, only=name)
        return found

    def dispatchers(self) -> list[GatewayDispatcher]:
        """Return those that there are so far."""
        return list(self._dispatchers.values())

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Serve one client in this process; `Client(gateway)` does."""
        near = self.dispatcher.open_in_memory(client, limits)
        finished = near.after_close
        assert finished is not None
        self.hold()

        async def closed() -> None:
            try:
                await finished()
            finally:
                await self.release()

        near.after_close = closed
        return near

    def status(self) -> dict[str, Any]:
        """Return what can be said of the gateway and its servers, as JSON.

        Neither ids of sessions nor other secrets are in it.
        """
        sets = [*self.opened, *self.sets.all()]
        return {
            "name": self.info.name,
            "version": self.info.version,
            "sessions": len(self.opened),
            "shared": len(self.sets),
            "sets": [each.status() for each in sets],
        }


def _local(server: Server) -> Planned:
    """Return the gateway's own server as one of the servers."""
    return Planned(name=LOCAL, target=server, is_bare=True)


def _transforms(given: Mapping[str, Any]) -> dict[str, ToolTransform]:
    for pattern, transform in given.items():
        if not isinstance(transform, ToolTransform):
            raise TypeError(
                f"transforms[{pattern!r}] must be a ToolTransform, got {transform!r}"
            )
    return dict(given)


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def _count(name: str, value: int) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be an integer above 0, got {value!r}")
    return value
