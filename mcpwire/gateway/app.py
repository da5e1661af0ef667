"""`Gateway`: one MCP endpoint in front of many servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from mcpwire._version import __version__
from mcpwire.errors import InvalidRequest
from mcpwire.gateway.bridge import Parking, make_client, task_capabilities
from mcpwire.gateway.plan import Changes, Plan, Planned, Static
from mcpwire.gateway.pool import UpstreamPool
from mcpwire.gateway.selection import pick_headers
from mcpwire.gateway.serving.serving import Serving
from mcpwire.gateway.settings import Settings
from mcpwire.gateway.upstream import Upstream
from mcpwire.limits import Limits
from mcpwire.server.middleware import Middleware
from mcpwire.server.telling.listens import Listens
from mcpwire.tools.rules import Rules
from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Literal, Self

    from mcpwire.gateway.dispatcher import GatewayDispatcher
    from mcpwire.gateway.plan import Source
    from mcpwire.gateway.tracing import ExchangeTrace, RecordFn
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.server.app import Server
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.request import Facts
    from mcpwire.tools.names import NamePolicy
    from mcpwire.tools.transforms import ToolTransform
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.versions import Revision

__all__ = ["GATEWAY_LIMITS", "Gateway"]

F = TypeVar("F", bound="Callable[..., Any]")

GATEWAY_LIMITS: Final[Limits] = Limits(inbound=1_024)
"""The bounds of a gateway that is given none, for its clients and its servers."""

LOCAL: Final = "local"
"""The name of the gateway's own server among the others."""


class Gateway(Settings, Serving):
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
        server_names: What ``{server}`` is in them: ``"ours"``, or ``"theirs"``, what
            each server says it is called, with its version and then a number where
            several say the same. What they say is the servers' choice: one can take
            the name of another, and with it the trust in that.
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
        max_upstream_sets: How many sets of connections are open at once. At the bound
            the client with the most loses a set, an idle one first, with the session
            that has it.
        idle: How long a shared set is kept that nobody uses, in seconds.
        auth: Who may ask over HTTP.
        limits: Bounds on what one client, or one server, may cost.
        page_size: How many items one page of a list has; ``None``: all of them.
        revisions: What it speaks to clients; all of them by default.
        instructions: How it wants to be used; ``None``: what its servers say.
        ask_timeout: How long a client may take to answer a question, in seconds.
        state_keys: Secrets that sign the ids of tasks and the states of calls that
            clients keep, at least 16 random bytes each, the newest first. Every process
            in front of the same clients needs the same; without any, a random one is
            made, which ends with the process.
        trace: Called with a record of each exchange, on both sides; see
            `mcpwire.gateway.tracing`. What it raises is counted in `status` and
            changes nothing else.

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
        as_tools = {"resources": resources_as_tools, "prompts": prompts_as_tools}
        self._describe(name, version, instructions, revisions, page_size)
        self._protect(auth, limits, ask_timeout, deny_urls, state_keys)
        self._connect_by(on_error, timeout, connect_timeout, concurrency)
        self._share_by(share, max_upstream_sets, idle)
        self._offer(
            names, server_names, Rules(allow=allow, deny=deny), transforms, as_tools
        )
        self._pass_on(forward_headers, delegate, sessions)
        self._local = () if local is None else (_local(local),)
        if isinstance(self.source, Static):
            self._check_names(self.source.servers)
        self._begin()
        self.trace: ExchangeTrace | None = None
        if trace is not None:
            from mcpwire.gateway.tracing import ExchangeTrace

            self.trace = ExchangeTrace(trace)
            self.around.add(None, self.trace.around)

    def _begin(self) -> None:
        """Have nothing yet of what there is while it serves."""
        self.parking = Parking(timeout=self.ask_timeout or 0.0, keys=self.state_keys)
        self.around = Middleware()
        self.opened: set[Upstreams] = set()
        self.pool = UpstreamPool(
            maximum=self.max_upstream_sets, idle=self.idle, close=self.close_later
        )
        self._dispatchers: dict[str | None, GatewayDispatcher] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._holders = 0
        self.listens = Listens(self.limits.listens)

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<Gateway {self.info.name!r}, {self.source!r}>"

    # What sessions and requests need of it...

    def completed(self, plan: Plan) -> Plan:
        """Return a source's plan with the gateway's own server.

        Raises:
            InvalidRequest: Another one has its name.
        """
        try:
            return plan.beside(self._local)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    def _check_names(self, servers: Iterable[Planned]) -> None:
        """Refuse a server that has the name of the gateway's own.

        Raises:
            ValueError: One has.
        """
        Plan(servers=(*servers, *self._local))

    def _check_servers(self, servers: tuple[Planned, ...]) -> None:
        self._check_urls(servers)
        self._check_names(servers)

    def make_upstream(self, upstreams: Upstreams, planned: Planned) -> Upstream:
        """Return one server of a set, not connected yet.

        Raises:
            InvalidRequest: Its URL is on the deny list.
        """
        if self.denies(planned):
            raise InvalidRequest(f"the URL of the server {planned.name!r} is denied")
        options = {
            "timeout": self.timeout,
            "connect_timeout": self.connect_timeout,
            "limits": self.limits,
            "mode": _mode_for(upstreams.downstream.revision),
            **planned.options,
        }
        if self.trace is not None:
            from mcpwire.gateway.tracing import ConnectionTrace

            session, also = upstreams.downstream.session, options.get("trace")
            options["trace"] = ConnectionTrace(self.trace, planned.name, session, also)
        client = make_client(upstreams, planned.name, planned.target, **options)
        return Upstream(
            planned, client, timeout=options["timeout"], limits=options["limits"]
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
        own = task_capabilities(upstreams)
        if any(upstreams.offering(kind) for kind in self.as_tools):
            own["tools"] = {}
        return own

    async def replace(self, servers: Mapping[str, Any]) -> Changes:
        """Have other servers, also where sessions are open.

        Servers that are as they were keep their connections; those that are new are
        connected to, and what goes wrong there is in `status`. Clients hear that the
        lists are others.

        Args:
            servers: As `source`: targets, or members, by name.

        Returns:
            What is another now.

        Raises:
            TypeError: The source is not the same for everybody.
            ValueError: A target is none, or denied; nothing has changed then.
        """
        if not isinstance(self.source, Static):
            raise TypeError(f"{self.source!r} does not have the same servers for all")
        changes = self.source.replace(servers, self._check_servers)
        if changes:
            plan = self.completed(self.source.plan())
            sets = (*self.opened, *self.pool.shared)
            await asyncio.gather(
                *(each.replace(plan.only(each.plan.one)) for each in sets)
            )
        return changes

    # The end of sets...

    def close_later(self, upstreams: Upstreams) -> asyncio.Task[None]:
        """Close a set in a task of its own, which is returned."""
        self.opened.discard(upstreams)
        self.pool.discard(upstreams)
        upstreams.is_closed = True
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
        self.pool.close()
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
        sets = [*self.opened, *self.pool.shared]
        traced = {} if self.trace is None else {"trace_errors": self.trace.errors}
        return {
            "name": self.info.name,
            "version": self.info.version,
            "sessions": len(self.opened),
            "shared": len(self.pool.shared),
            "sets": [each.status() for each in sets],
            **traced,
        }


def _mode_for(revision: Revision) -> str:
    """Return which era servers are spoken to for a client of a revision.

    Servers that ask by requests of their own refuse to at 2026-07-28.
    """
    return "prefer-session" if revision.era is Era.SESSION else "auto"


def _local(server: Server) -> Planned:
    """Return the gateway's own server as one of the servers."""
    return Planned(name=LOCAL, target=server, is_bare=True)
