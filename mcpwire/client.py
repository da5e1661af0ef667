"""The asyncio client: one short method per request, typed results, nothing hidden.

A call is one `dumps`, one write, one `loads` and one future: no task, no implicit
`tools/list`, no validation unless asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypedDict

from mcpwire._version import __version__
from mcpwire.errors import LocalProtocolError
from mcpwire.limits import DEFAULT_LIMITS, Limits, check_timeout
from mcpwire.protocol.lifecycle import Identity, parse_mode
from mcpwire.protocol.methods import find
from mcpwire.transports.client.connection import Connection
from mcpwire.transports.client.requests import Requests
from mcpwire.transports.targets import opener
from mcpwire.types import UNSET, decode, decoder, encode
from mcpwire.types.lifecycle import Implementation
from mcpwire.types.tools import CallToolResult
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType
    from typing import Self, Unpack

    from mcpwire.protocol.negotiation import Negotiation
    from mcpwire.protocol.notifications import Notification
    from mcpwire.transports.client.stats import ClientStats
    from mcpwire.transports.targets import Target
    from mcpwire.types import (
        CompleteResult,
        DiscoverResult,
        GetPromptResult,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        ServerCapabilities,
        Tool,
        Unset,
        WireType,
    )

    ProgressFn = Callable[[float, float | None, str | None], Any]

__all__ = ["CallOptions", "Client"]

_decode_tool_result: Final = decoder(CallToolResult)


class CallOptions(TypedDict, total=False):
    """What every request takes beside its own parameters."""

    timeout: float | None
    """Seconds, above zero; omitted: the client's; ``None``: no limit."""

    meta: Mapping[str, Any] | None
    """Further members of the request's `_meta`."""

    on_progress: ProgressFn | None
    """Called with progress, total and message, in order; plain or async."""

    headers: Mapping[str, str] | None
    """Further HTTP headers; refused on any other transport."""


class Client:
    """A connection to one MCP server.

    Every method that sends a request takes `CallOptions`, raises what `call_tool`
    raises, and is as safe to cancel: the server is told, and the connection goes on.

    ::

        async with mcpwire.Client("npx -y @modelcontextprotocol/server-memory") as c:
            result = await c.call_tool("read_graph")

    Args:
        target: A command line (split like a shell would, run without one), a `Stdio`,
            or a server object in this process.
        timeout: The default limit of a call, in seconds; ``None``: no limit.
        connect_timeout: The limit of `connect`, in seconds.
        probe_timeout: Seconds of silence after which an older handshake is tried
            beside the probe; it decides nothing by itself.
        mode: ``"auto"``, ``"session"``, ``"stateless"``, or one revision's name.
        client_info: Who we say we are.
        limits: Bounds on what the server may cost.
        reset_timeout_on_progress: Whether progress starts a call's timeout again.
        max_timeout: What no progress extends a call beyond, in seconds; by default
            ten times its timeout. Without `reset_timeout_on_progress` it does nothing.
        on_notification: Called with each `Notification` that belongs to no call.
        trace: Called as ``trace(event, data)`` with each message and turn of events
            (see `mcpwire.transports.tracing`), a plain function; without it nothing
            is called.

    Raises:
        ValueError: An argument is out of its range; names it.
    """

    def __init__(
        self,
        target: Target,
        *,
        timeout: float | None = 30.0,
        connect_timeout: float | None = 60.0,
        probe_timeout: float = 5.0,
        mode: str = "auto",
        client_info: Implementation | None = None,
        limits: Limits = DEFAULT_LIMITS,
        reset_timeout_on_progress: bool = False,
        max_timeout: float | None = None,
        on_notification: Callable[[Notification], Any] | None = None,
        trace: Callable[[str, Any], Any] | None = None,
    ) -> None:
        info = client_info or Implementation("mcpwire", __version__)
        self._connection = Connection(
            opener(target, limits),
            Identity(encode(info), {}),
            allowed=parse_mode(mode),
            connect_timeout=check_timeout(connect_timeout, "connect_timeout"),
            probe_timeout=check_timeout(probe_timeout, "probe_timeout") or inf,
            limits=limits,
            reset_on_progress=reset_timeout_on_progress,
            on_notification=on_notification,
            trace=trace,
        )
        self._requests = Requests(
            self._connection,
            timeout=check_timeout(timeout),
            max_timeout=check_timeout(max_timeout, "max_timeout"),
            limits=limits,
        )

    # Lifetime...

    async def connect(self) -> None:
        """Connect, or wait for whoever is connecting; does nothing when connected.

        Works from any task, again after `aclose`, and again after the server died.
        Cancelling the last caller undoes what had begun.

        Raises:
            ConnectError: The server could not be reached, or ended before it agreed.
            RequestTimeout: It did not agree within `connect_timeout`.
            NegotiationError: There is no common revision.
            ConnectionClosed: `aclose` was called meanwhile.
        """
        await self._connection.connect()

    async def aclose(self) -> None:
        """Close the connection and end the server's process; bounded in time.

        Works from any task, in any order, twice. Calls still open fail with
        `ConnectionClosed`. When cancelled, the closing goes on by itself.
        """
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # Where construction failed there is no connection.
        connection = getattr(self, "_connection", None)
        if connection is not None and connection.abandon():
            warnings.warn(
                f"unclosed {self!r}: its server was killed",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<mcpwire.Client {self._connection}>"

    # What was agreed...

    @property
    def is_connected(self) -> bool:
        """Whether calls can be made now."""
        channel = self._connection.channel
        return channel is not None and channel.lost is None

    @property
    def protocol_version(self) -> str | None:
        """The agreed revision, such as ``2025-11-25``; ``None`` before."""
        agreement = self._connection.profile.agreement
        return agreement.revision.name if agreement is not None else None

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version, where it gave them.

        Raises:
            InvalidMessage: What it gave breaks the rules; calls work all the same.
        """
        agreement = self._connection.profile.agreement
        if agreement is None or agreement.server_info is None:
            return None
        return decode(Implementation, agreement.server_info)

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server declared; ``None`` before the first connection.

        Raises:
            InvalidMessage: What it declared breaks the rules; calls work all the same.
        """
        from mcpwire.types.capabilities import ServerCapabilities

        agreement = self._connection.profile.agreement
        if agreement is None:
            return None
        return decode(ServerCapabilities, agreement.capabilities)

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, where it said so."""
        agreement = self._connection.profile.agreement
        return agreement.instructions if agreement is not None else None

    @property
    def session_id(self) -> str | None:
        """The HTTP session's id; ``None`` on transports that have none."""
        return None

    @property
    def negotiation(self) -> Negotiation | None:
        """How the last handshake went, step by step, also one that failed."""
        return self._connection.negotiation

    @property
    def stats(self) -> ClientStats:
        """What this client has sent and received, connections taken together."""
        return self._connection.stats

    # Tools...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFn | None = None,
        headers: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> CallToolResult:
        """Call a tool and return its result, also one that reports failure.

        Args:
            name: The tool.
            arguments: Its arguments, as one object.
            timeout: Seconds; omitted: the client's; ``None``: no limit.
            meta: Further members of the request's `_meta`.
            on_progress: Called with progress, total and message, in order.
            headers: Further HTTP headers; refused on any other transport.
            check: Whether to raise `ToolError` when the tool reports failure.

        Raises:
            ToolError: With `check`, the tool reported failure.
            RPCError: The server refused, such as an unknown tool (`InvalidParams`).
            RequestTimeout: No answer in time; the server was told to stop.
            TransportError: The connection is gone; `ConnectionClosed.sent` says
                whether the call may have run.
            RemoteProtocolError: The answer breaks the rules.
            LocalProtocolError: The call may not be made; nothing was sent.

        Cancelling the task tells the server and returns at once.
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        profile = self._connection.profile
        if "tools/call" in profile.refused:
            raise profile.refusal("tools/call")
        requests = self._requests
        deadline = requests.deadline(timeout)
        raw = await requests.begin(
            "tools/call", params, deadline, meta, on_progress, headers
        )
        if raw.get("resultType", "complete") != "complete":
            options = {"meta": meta, "on_progress": on_progress, "headers": headers}
            raw = await requests.finish("tools/call", params, raw, deadline, options)
        result = _decode_tool_result(raw)
        return result.raise_for_error() if check else result

    async def list_tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return all tools, all pages; see `call_tool` for what is raised."""
        return await self._list("tools/list", options)

    async def list_tools_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListToolsResult:
        """Return one page of the tools and the cursor of the next."""
        page: ListToolsResult = await self._page("tools/list", cursor, options)
        return page

    def iter_tools(self, **options: Unpack[CallOptions]) -> AsyncIterator[Tool]:
        """Iterate over all tools, fetching pages as they are needed."""
        return self._iterate("tools/list", options)

    # Resources...

    async def list_resources(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Return all resources, all pages; see `call_tool` for what is raised."""
        return await self._list("resources/list", options)

    async def list_resources_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListResourcesResult:
        """Return one page of the resources and the cursor of the next."""
        page: ListResourcesResult = await self._page("resources/list", cursor, options)
        return page

    def iter_resources(self, **options: Unpack[CallOptions]) -> AsyncIterator[Resource]:
        """Iterate over all resources, fetching pages as they are needed."""
        return self._iterate("resources/list", options)

    async def list_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> list[ResourceTemplate]:
        """Return all resource templates, all pages."""
        return await self._list("resources/templates/list", options)

    async def list_resource_templates_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListResourceTemplatesResult:
        """Return one page of the resource templates and the cursor of the next."""
        page: ListResourceTemplatesResult = await self._page(
            "resources/templates/list", cursor, options
        )
        return page

    def iter_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> AsyncIterator[ResourceTemplate]:
        """Iterate over all resource templates, fetching pages as they are needed."""
        return self._iterate("resources/templates/list", options)

    async def read_resource(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> ReadResourceResult:
        """Read a resource; see `call_tool` for what is raised.

        An unknown URI is `ResourceNotFound` up to 2025-11-25, then `InvalidParams`.
        """
        from mcpwire.types import ReadResourceResult

        raw = await self._requests.request("resources/read", {"uri": uri}, options)
        return decode(ReadResourceResult, raw)

    async def read_text(self, uri: str, **options: Unpack[CallOptions]) -> str:
        """Read a resource and return its text.

        Raises:
            LocalProtocolError: It has no text, only bytes; see `read_bytes`.
        """
        result = await self.read_resource(uri, **options)
        if not result.text and any(hasattr(part, "blob") for part in result.contents):
            raise LocalProtocolError(f"{uri!r} has only bytes: use read_bytes")
        return result.text

    async def read_bytes(self, uri: str, **options: Unpack[CallOptions]) -> bytes:
        """Read a resource and return its bytes; text comes as UTF-8.

        Raises:
            InvalidMessage: Its bytes are no valid Base64.
        """
        return (await self.read_resource(uri, **options)).bytes

    # Prompts and completion...

    async def list_prompts(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Return all prompts, all pages; see `call_tool` for what is raised."""
        return await self._list("prompts/list", options)

    async def list_prompts_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListPromptsResult:
        """Return one page of the prompts and the cursor of the next."""
        page: ListPromptsResult = await self._page("prompts/list", cursor, options)
        return page

    def iter_prompts(self, **options: Unpack[CallOptions]) -> AsyncIterator[Prompt]:
        """Iterate over all prompts, fetching pages as they are needed."""
        return self._iterate("prompts/list", options)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> GetPromptResult:
        """Get a prompt, filled in; arguments are strings on the wire."""
        from mcpwire.types import GetPromptResult

        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return decode(
            GetPromptResult,
            await self._requests.request("prompts/get", params, options),
        )

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompleteResult:
        """Ask how an argument of a prompt or template could go on.

        Args:
            ref: The prompt or resource template.
            argument: The argument's name.
            value: What has been typed so far.
            context: Arguments already decided (from 2025-06-18).
            options: As every request takes.
        """
        from mcpwire.types import CompleteResult

        params: dict[str, Any] = {
            "ref": encode(ref),
            "argument": {"name": argument, "value": value},
        }
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return decode(
            CompleteResult,
            await self._requests.request("completion/complete", params, options),
        )

    # Everything else...

    async def ping(self, **options: Unpack[CallOptions]) -> float:
        """Ask the server for a sign of life; return the seconds it took.

        At 2026-07-28, which has no ping, a `server/discover` is timed.
        """
        connection = self._connection
        started = connection.time()
        method = (
            "server/discover"
            if self._connection.profile.era is Era.STATELESS
            else "ping"
        )
        await self._requests.request(method, None, options)
        return connection.time() - started

    async def discover(self, **options: Unpack[CallOptions]) -> DiscoverResult:
        """Ask the server what it supports (from 2026-07-28).

        Raises:
            LocalProtocolError: The agreed revision has no `server/discover`.
        """
        from mcpwire.types import DiscoverResult

        if self._connection.channel is None:
            raise self._connection.not_connected()
        if self._connection.profile.era is not Era.STATELESS:
            raise LocalProtocolError(
                "server/discover exists from 2026-07-28 on; this connection speaks "
                f"{self.protocol_version}"
            )
        return decode(
            DiscoverResult,
            await self._requests.request("server/discover", None, options),
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Send any request and return the raw result object.

        Only what the revision demands of every request is added (`_meta` at
        2026-07-28); no capability is asked for and no input round is run.
        """
        fields = None if params is None else dict(params)
        own = (fields or {}).get("_meta") or {}
        if not isinstance(own, Mapping):
            raise LocalProtocolError(f"params._meta must be an object, got {own!r}")
        meta = {**own, **(options.get("meta") or {})}
        return await self._requests.begin(
            method,
            fields,
            self._requests.deadline(options.get("timeout", UNSET)),
            meta or None,
            options.get("on_progress"),
            options.get("headers"),
        )

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send any notification.

        Raises:
            TransportError: The connection is gone.
            LocalProtocolError: It may not be sent; nothing was.
        """
        channel = self._connection.channel
        if channel is None:
            raise self._connection.not_connected()
        await channel.notify(method, params, headers=headers)

    # Lists, by what the method table says of each...

    async def _list(self, method: str, options: CallOptions) -> list[Any]:
        pages = await self._requests.pages(method, options)
        return [item for page in pages for item in _items(method, page)]

    async def _page(self, method: str, cursor: str | None, options: CallOptions) -> Any:
        params = {} if cursor is None else {"cursor": cursor}
        page = await self._requests.request(method, params, options)
        return decode(_page_type(method), page)

    async def _iterate(self, method: str, options: CallOptions) -> AsyncIterator[Any]:
        async for page in self._requests.walk(method, options):
            for item in _items(method, page):
                yield item


def _page_type(method: str) -> type[WireType]:
    """Return the type of one page of a list."""
    from mcpwire import types

    spec = find(method)
    assert spec is not None and spec.result is not None  # noqa: PT018 - no test
    found: type[WireType] = getattr(types, spec.result)
    return found


def _items(method: str, page: dict[str, Any]) -> list[Any]:
    """Decode one page of a list and return what it lists."""
    spec = find(method)
    assert spec is not None and spec.list_key is not None  # noqa: PT018 - no test
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in spec.list_key)
    items: list[Any] = getattr(decode(_page_type(method), page), snake)
    return items
