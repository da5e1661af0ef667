"""The asyncio client: one short method per request, and typed results.

A call is one `dumps`, one write, one `loads` and one future: no asyncio task, no
implicit `tools/list`, no validation unless requested.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypedDict, TypeVar

import attrs

from mcpwire._package import __version__
from mcpwire.client.connection import Connection, Settings
from mcpwire.client.requests import Options, PendingCall, Requests, as_object
from mcpwire.client.subscriptions import Subscriptions
from mcpwire.errors import (
    AuthError,
    InvalidMessage,
    LocalProtocolError,
    RemoteProtocolError,
    RPCError,
    TransportError,
    UrlElicitationRequired,
)
from mcpwire.limits import (
    DEFAULT_LIMITS,
    DEFAULT_RECOVERY,
    Limits,
    Recovery,
    check_choice,
    check_timeout,
)
from mcpwire.protocol.client_features import ClientFeatures
from mcpwire.protocol.methods import LEVELS, find_method
from mcpwire.protocol.negotiation import Identity, parse_mode
from mcpwire.protocol.output_validation import KnownTools
from mcpwire.protocol.retry import tool_allows_repeat
from mcpwire.protocol.subscriptions import Filter
from mcpwire.transports.targets import make_opener
from mcpwire.types import UNSET, decode, encode
from mcpwire.types.tools import CallToolResult
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from typing import Literal, NoReturn, Self, Unpack

    from mcpwire.client.connection import ClientStats
    from mcpwire.client.inbound import Observer
    from mcpwire.client.requests import ProgressFn
    from mcpwire.client.skills import LoadedSkill
    from mcpwire.client.streams import EventStream, ResourceWatch, Subscription
    from mcpwire.errors import MCPError
    from mcpwire.protocol.cache import ResponseCache
    from mcpwire.protocol.client_features import (
        Elicitation,
        FormHandler,
        Roots,
        Sampling,
        SamplingHandler,
    )
    from mcpwire.protocol.negotiation import Negotiation
    from mcpwire.protocol.subscriptions import Notification
    from mcpwire.transports.base import CallHandle
    from mcpwire.transports.targets import Target
    from mcpwire.types import (
        CompleteResult,
        ContentBlock,
        DiscoverResult,
        GetPromptResult,
        GetSkillResult,
        Implementation,
        JsonObject,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListSkillsResult,
        ListToolsResult,
        LoggingLevel,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        ServerCapabilities,
        Skill,
        Tool,
        Unset,
    )
    from mcpwire.wire.jsonrpc import RequestId

T = TypeVar("T")

logger = logging.getLogger("mcpwire")

_MCPWIRE: Final = {"name": "mcpwire", "version": __version__}


class CallOptions(TypedDict, total=False):
    """The keyword options that every request accepts."""

    timeout: float | None
    """Seconds, above zero; omitted: the client's default; ``None``: no limit."""

    meta: Mapping[str, Any] | None
    """Additional members of the request's `_meta`."""

    on_progress: ProgressFn | None
    """Called with progress, total and message, in order; plain or async."""

    headers: Mapping[str, str] | None
    """Additional HTTP headers; an error on any other transport."""

    idempotent: bool | None
    """Whether the request may be sent again after a lost connection although it may
    have run; omitted: decided by its method, or by the tool's annotations."""


def _encode_client_info(client_info: Implementation) -> dict[str, Any]:
    from mcpwire.types.lifecycle import Implementation

    if not isinstance(client_info, Implementation):
        raise TypeError(f"client_info takes an Implementation, got {client_info!r}")
    return encode(client_info)


class Client:
    """A connection to one MCP server.

    Every method that sends a request takes `CallOptions`, raises what `call_tool`
    raises, and is as safe to cancel: the server is told, and the connection goes on.

    ::

        async with mcpwire.Client("npx -y @modelcontextprotocol/server-memory") as c:
            result = await c.call_tool("read_graph")

    Args:
        target: A command line (split by shell rules, run without a shell), a `Stdio`,
            or a server object in this process.
        timeout: The default timeout of a call, in seconds; ``None``: no limit.
        connect_timeout: The timeout of `connect`, in seconds.
        probe_timeout: Seconds without a reply after which the `initialize` handshake
            is tried in parallel with the probe; it does not decide the outcome.
        mode: ``"auto"``, ``"session"``, ``"stateless"``, ``"prefer-session"`` (sessions
            if the server supports both), or the name of one revision.
        client_info: The name and version of this client.
        limits: Limits on the resources that the server can consume.
        extensions: Ids of the extensions to enable, or a mapping from ids to their
            settings; declared since 2026-07-28.
        experimental: Experimental capabilities to declare, by name, with their
            settings; declared at each revision.
        reset_timeout_on_progress: Whether a call of `on_progress` restarts the timeout.
        max_timeout: The maximum duration of a call with progress, in seconds; default:
            ten times its timeout. No effect without `reset_timeout_on_progress`.
        on_notification: Called with each `Notification` that belongs to no call.
        raise_exceptions: Whether calls to a server object in this process raise the
            unexpected exceptions of its functions, for tests: other clients receive
            only an error without details.
        trace: A plain function, called as ``trace(event, data)`` for each message and
            connection event (see `mcpwire.transports.base.Trace`).

    Raises:
        ValueError: An argument is out of range; the message names it.
    """

    # Classes that a relay replaces by its own.
    _connection_type: ClassVar[type[Connection]] = Connection
    _requests_type: ClassVar[type[Requests]] = Requests

    def _client_features(self, **given: Any) -> ClientFeatures:
        """Return the declared client features."""
        return ClientFeatures(**given)

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
        recovery: Recovery = DEFAULT_RECOVERY,
        keepalive: float | None = None,
        reset_timeout_on_progress: bool = False,
        max_timeout: float | None = None,
        sampling: SamplingHandler | Sampling | None = None,
        elicitation: FormHandler | Elicitation | None = None,
        roots: Roots | None = None,
        extensions: Mapping[str, JsonObject | None] | Iterable[str] | None = None,
        experimental: Mapping[str, JsonObject | None] | None = None,
        cache: ResponseCache | bool = False,
        on_notification: Callable[[Notification], Any] | None = None,
        raise_exceptions: bool = False,
        trace: Callable[[str, Any], Any] | None = None,
    ) -> None:
        if raise_exceptions:
            from mcpwire.transports.memory import RaisingServer

            target = RaisingServer(target)
        features = self._client_features(
            sampling=sampling,
            elicitation=elicitation,
            roots=roots,
            extensions=extensions,
            experimental=experimental,
        )
        self._has_roots = roots is not None
        self._connection = self._connection_type(
            make_opener(target, limits, recovery),
            Settings(
                identity=Identity(
                    _MCPWIRE
                    if client_info is None
                    else _encode_client_info(client_info),
                    features.capabilities,
                ),
                allowed=parse_mode(mode),
                connect_timeout=check_timeout(connect_timeout, "connect_timeout"),
                probe_timeout=check_timeout(probe_timeout, "probe_timeout") or inf,
                keepalive=check_timeout(keepalive, "keepalive"),
                reset_on_progress=reset_timeout_on_progress,
                limits=limits,
                recovery=recovery,
                features=features,
                on_notification=on_notification,
                trace=trace,
            ),
        )
        self._create_layers(timeout, max_timeout, cache)

    def _create_layers(
        self,
        timeout: float | None,
        max_timeout: float | None,
        cache: ResponseCache | bool,  # noqa: FBT001 - public option
    ) -> None:
        """Create the request, subscription and tool layers above the connection."""
        connection = self._connection
        response_cache = None
        if cache is not False:
            from mcpwire.protocol.cache import ResponseCache

            response_cache = ResponseCache() if cache is True else cache
            connection.inbound.notification_hooks.append(response_cache.invalidate)
            connection.inbound.missed_hooks.append(response_cache.clear)
        self._requests = self._requests_type(
            connection,
            timeout=check_timeout(timeout),
            max_timeout=check_timeout(max_timeout, "max_timeout"),
            cache=response_cache,
        )
        self._subscriptions = Subscriptions(connection, self._requests)
        self._known_tools = KnownTools(_warn_of_patterns)
        connection.inbound.notification_hooks.append(self._known_tools.invalidate)
        connection.inbound.missed_hooks.append(self._known_tools.forget)

    # Lifetime

    async def connect(self) -> None:
        """Connect, or wait for a running attempt; do nothing when connected.

        Works from any task, again after `aclose`, and again after the server exited.
        Cancelling the last caller undoes what had begun.

        Raises:
            ConnectError: The server is unreachable, or ended during the handshake.
            RequestTimeout: The handshake did not finish within `connect_timeout`.
            NegotiationError: Client and server have no revision in common.
            ConnectionClosed: `aclose` was called while connecting.
        """
        await self._connection.connect()

    async def aclose(self) -> None:
        """Close the connection and end the server's process; bounded in time.

        Works from any task, in any order, twice. Pending calls fail with
        `ConnectionClosed`. When cancelled, the closing goes on by itself.
        """
        await self._connection.aclose()

    def abandon(self) -> bool:
        """Discard the connection without waiting; return whether one was open.

        Callable from any thread. A child process is killed. For `mcpwire.sync`.
        """
        return self._connection.abandon()

    def needs_loop(self) -> bool:
        """Return whether the connection is open, opening, closing or to be reopened."""
        return self._connection.needs_loop

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(
        self,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        warn: Callable[..., None] = warnings.warn,
    ) -> None:
        # Where construction failed there is no connection.
        connection = getattr(self, "_connection", None)
        try:
            if connection is not None and connection.abandon():
                text = f"unclosed {self!r}: it was closed by force"
                warn(text, ResourceWarning, source=self, stacklevel=2)
        except ResourceWarning:
            raise  # where warnings are errors
        except Exception:
            # Modules may be cleared by now, and the process frees its resources.
            if not is_finalizing():
                raise

    def __copy__(self) -> NoReturn:
        """Refuse copies: deletion of a copy would close the original's connection."""
        raise TypeError(f"{type(self).__name__!r} cannot be copied")

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<mcpwire.Client {self._connection}>"

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Register an observer before the first connection; return a remove function.

        The observer receives each notification that belongs to no call, undecoded, and
        a call whenever the connection is lost, open again or closed. It opens no
        connection; the client subscribes to list changes for it. It is for layers above
        clients, such as `Group`; programs use `events` and `on_notification`.

        Raises:
            LocalProtocolError: The client has been connected already.
        """
        connection = self._connection
        if connection.serial or connection.is_entered:
            raise LocalProtocolError("a client is observed from before it connects")
        observers = connection.inbound.observers
        observers.append(observer)
        self._subscriptions.listen_to_lists()

        def undo() -> None:
            if observer in observers:
                observers.remove(observer)

        return undo

    def set_handlers(
        self,
        *,
        sampling: SamplingHandler | Sampling | Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | Unset | None = UNSET,
        roots: Roots | Unset | None = UNSET,
    ) -> None:
        """Replace the handlers of server requests at once; ``None`` removes a handler.

        Omitted handlers stay. A request in progress keeps its handler. The declared
        capabilities change with the next request at 2026-07-28, in a session with the
        next handshake: until then a server may not know that it can send such requests.

        Raises:
            ValueError: A value has the wrong type; names it, and changes no handler.
        """
        connection = self._connection
        features = connection.inbound.features
        given = {"sampling": sampling, "elicitation": elicitation, "roots": roots}
        features.replace({k: v for k, v in given.items() if v is not UNSET})
        if roots is not UNSET:
            self._has_roots = roots is not None
        connection.use_features(features)

    # State of the connection

    @property
    def lost(self) -> MCPError | None:
        """The error that ended the connection; ``None``: open, or closed by us."""
        connection = self._connection
        if connection.is_open or not connection.is_entered:
            return None
        return connection.not_connected_error()

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open for calls."""
        return self._connection.is_open

    @property
    def protocol_version(self) -> str | None:
        """The negotiated revision, such as ``2025-11-25``; ``None`` before that."""
        agreement = self._connection.profile.agreement
        return agreement.revision.name if agreement is not None else None

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version; ``None`` if it did not send them.

        Raises:
            InvalidMessage: The server sent an invalid object; calls still work.
        """
        from mcpwire.types.lifecycle import Implementation

        agreement = self._connection.profile.agreement
        if agreement is None or agreement.server_info is None:
            return None
        return decode(Implementation, agreement.server_info)

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """The server's capabilities; ``None`` before the first connection.

        Raises:
            InvalidMessage: The server sent an invalid object; calls still work.
        """
        from mcpwire.types.lifecycle import ServerCapabilities

        agreement = self._connection.profile.agreement
        if agreement is None:
            return None
        return decode(ServerCapabilities, agreement.capabilities)

    @property
    def instructions(self) -> str | None:
        """The server's instructions for its use; ``None`` if it sent none."""
        agreement = self._connection.profile.agreement
        return agreement.instructions if agreement is not None else None

    @property
    def session_id(self) -> str | None:
        """The id of the open HTTP session; ``None`` without one."""
        return self._connection.session_id

    @property
    def negotiation(self) -> Negotiation | None:
        """The steps of the last handshake, successful or failed."""
        return self._connection.negotiation

    @property
    def stats(self) -> ClientStats:
        """The traffic counters of this client, summed over all its connections."""
        return self._connection.stats

    # Tools

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
        validate: Literal["off", "warn", "error"] = "off",
        idempotent: bool | None = None,
    ) -> CallToolResult:
        """Call a tool and return its result, including a result with `is_error` set.

        Args:
            name: The tool.
            arguments: Its arguments, as one object.
            timeout: Seconds; omitted: the client's default; ``None``: no limit.
            meta: Additional members of the request's `_meta`.
            on_progress: Called with progress, total and message, in order.
            headers: Additional HTTP headers; an error on any other transport.
            check: Whether to raise `ToolError` when the tool reports failure.
            validate: Whether to validate a structured result against the tool's output
                schema, and to log or to raise violations. Needs jsonschema-rs; lists
                the tools if they have not been listed.
            idempotent: Whether the call may be repeated after a lost connection
                although it may have run; omitted: only if the tool's annotations in
                the last list declare it read-only or idempotent.

        Raises:
            ToolError: With `check`, the tool reported failure.
            RPCError: The server returned an error, such as `InvalidParams` for an
                unknown tool.
            CallCancelled: A handler of this client refused a request that the call
                depends on (since 2026-07-28, where other exceptions of a handler
                propagate unchanged; a session returns an error to the server).
            RequestTimeout: No reply in time; the call was cancelled at the server.
            TransportError: The connection is lost; `ConnectionClosed.sent` is whether
                the call may have run.
            RemoteProtocolError: The reply is invalid.
            LocalProtocolError: The call is not allowed; it was not sent.

        Cancelling the task sends a cancellation to the server and returns at once.
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = (
                arguments if type(arguments) is dict else as_object(arguments)
            )
        profile = self._connection.profile
        if "tools/call" in profile.disabled:
            raise profile.refusal("tools/call")
        if validate != "off":
            _check_validate(validate)
        requests = self._requests
        deadline = requests.deadline(timeout)
        try:
            raw = await requests.begin(
                "tools/call", params, deadline, meta, on_progress, headers
            )
        except UrlElicitationRequired as error:
            self._connection.inbound.features.url_elicitations.add_required(error)
            raise
        except (AuthError, TransportError, RPCError) as error:
            may_repeat = self._may_repeat(name, idempotent)
            options = Options(deadline, meta, on_progress, headers, None, may_repeat)
            raw = await requests.perform_again(error, "tools/call", params, options)
        if raw.get("resultType", "complete") != "complete":
            may_repeat = self._may_repeat(name, idempotent)
            options = Options(deadline, meta, on_progress, headers, None, may_repeat)
            raw = await requests.finish("tools/call", params, raw, options)
        result = decode(CallToolResult, raw)
        if validate != "off":
            await self._validate(name, result, validate, headers)
        return result.raise_for_error() if check else result

    def _may_repeat(self, name: str, idempotent: bool | None) -> bool | None:  # noqa: FBT001 - as it came
        """Return the caller's value, or that of the tool's annotations if omitted."""
        if idempotent is None and tool_allows_repeat(
            self._known_tools.latest.get(name)
        ):
            return True
        return idempotent

    async def _validate(
        self, name: str, result: CallToolResult, validate: str, headers: Any
    ) -> None:
        """Validate a result against its tool's output schema; ``"warn"`` only logs.

        Raises:
            RemoteProtocolError: The result is invalid, or the schema is unusable.
        """
        tools = self._known_tools.tools
        if name not in tools:
            await self.list_tools(headers=headers)
        problem: str | None
        try:
            problem = self._known_tools.problem(tools.get(name), result)
        except RemoteProtocolError as error:
            if validate == "error":
                raise
            problem = str(error)  # the call has succeeded: its result is returned
        if problem is None:
            return
        if validate == "error":
            raise RemoteProtocolError(
                f"the result of {name!r} breaks its output schema: {problem}"
            )
        logger.warning("the result of %r breaks its output schema: %s", name, problem)

    async def start_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        **options: Unpack[CallOptions],
    ) -> PendingCall[CallToolResult]:
        """Send a tool call and return a handle on it, to be awaited or cancelled later.

        ::

            call = await client.start_call("slow", {"steps": 3})
            call.cancel("no longer needed")     # or: result = await call

        `check` and `validate` are as in `call_tool`. Errors before the request is sent
        are raised here; later errors are raised by awaiting the handle.
        """
        _check_validate(validate)
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = as_object(arguments)
        options["idempotent"] = self._may_repeat(name, options.get("idempotent"))

        async def call(handle: CallHandle) -> CallToolResult:
            raw = await self._requests.request(
                "tools/call", params, options, handle=handle
            )
            result = decode(CallToolResult, raw)
            if validate != "off":
                await self._validate(name, result, validate, options.get("headers"))
            return result.raise_for_error() if check else result

        return await PendingCall(self._connection, "tools/call", call).started()

    # Resources

    async def read_resource(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> ReadResourceResult:
        """Read a resource; raises as `call_tool`.

        An unknown URI raises `ResourceNotFound` up to 2025-11-25, then `InvalidParams`.
        """
        return await self._result("resources/read", {"uri": uri}, options)

    async def read_text(self, uri: str, **options: Unpack[CallOptions]) -> str:
        """Read a resource and return its text.

        Raises:
            LocalProtocolError: The resource has only binary data; see `read_bytes`.
        """
        result = await self.read_resource(uri, **options)
        if not result.text and any(hasattr(part, "blob") for part in result.contents):
            raise LocalProtocolError(f"{uri!r} has only bytes: use read_bytes")
        return result.text

    async def read_bytes(self, uri: str, **options: Unpack[CallOptions]) -> bytes:
        """Read a resource and return its bytes; text is encoded as UTF-8.

        Raises:
            InvalidMessage: A `blob` of the reply is not valid Base64.
        """
        return (await self.read_resource(uri, **options)).bytes

    # Prompts and completion

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> GetPromptResult:
        """Return a prompt rendered with arguments, which are strings on the wire."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = as_object(arguments)
        return await self._result("prompts/get", params, options)

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompleteResult:
        """Return completions for an argument of a prompt or a resource template.

        Args:
            ref: The prompt or resource template.
            argument: The argument's name.
            value: What has been typed so far.
            context: Arguments already chosen (since 2025-06-18).
            options: The options of every request.
        """
        from mcpwire.types import PromptReference, ResourceTemplateReference

        if not isinstance(ref, (PromptReference, ResourceTemplateReference)):
            raise LocalProtocolError(
                "ref: expected PromptReference or ResourceTemplateReference, "
                f"got {type(ref).__name__}"
            )
        params: dict[str, Any] = {
            "ref": encode(ref),
            "argument": {"name": argument, "value": value},
        }
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return await self._result("completion/complete", params, options)

    # Other requests

    async def ping(self, **options: Unpack[CallOptions]) -> float:
        """Send a ping; return the round-trip time in seconds.

        At 2026-07-28, which has no ping, it sends `server/discover`.
        """
        connection = self._connection
        started = connection.time()
        is_stateless = connection.profile.era is Era.STATELESS
        method = "server/discover" if is_stateless else "ping"
        # Bypass the cache, which would hide an unresponsive server.
        await self._requests.perform(method, None, self._requests.options(options))
        return connection.time() - started

    async def discover(self, **options: Unpack[CallOptions]) -> DiscoverResult:
        """Send `server/discover`; return versions and capabilities (since 2026-07-28).

        Raises:
            LocalProtocolError: The negotiated revision has no `server/discover`.
        """
        if not self._connection.is_entered:
            raise self._connection.not_connected_error()
        if self._connection.profile.era is not Era.STATELESS:
            raise LocalProtocolError(
                "server/discover exists from 2026-07-28 on; this connection speaks "
                f"{self.protocol_version}"
            )
        return await self._result("server/discover", None, options)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Send any request and return the raw result object.

        Only the fields that the revision requires of every request are added (`_meta`
        at 2026-07-28); capabilities are not checked and no input round is run.
        """
        fields = None if params is None else dict(params)
        if fields is not None and (own := fields.get("_meta")):
            if not isinstance(own, Mapping):
                raise LocalProtocolError(f"params._meta must be an object, got {own!r}")
            options["meta"] = {**own, **(options.get("meta") or {})}
        carried = self._requests.options(options)
        return await self._requests.perform(method, fields, carried)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send any notification.

        Raises:
            TransportError: The connection is lost.
            LocalProtocolError: The notification is not allowed; it was not sent.
        """
        channel = self._connection.channel
        if channel is None:
            raise self._connection.not_connected_error()
        await channel.notify(method, params, headers=headers)

    # Lists, driven by the method table

    async def list_tools(self, **options: Unpack[CallOptions]) -> list[Tool]:
        """Return all tools of all pages; raises as `call_tool`."""
        return await self._list("tools/list", options)

    async def list_tools_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListToolsResult:
        """Return one page of the tools and the cursor of the next."""
        return await self._page("tools/list", cursor, options)

    def iter_tools(self, **options: Unpack[CallOptions]) -> AsyncIterator[Tool]:
        """Iterate over all tools; each page is fetched when it is needed."""
        return self._iterate("tools/list", options)

    async def list_resources(self, **options: Unpack[CallOptions]) -> list[Resource]:
        """Return all resources of all pages; raises as `call_tool`."""
        return await self._list("resources/list", options)

    async def list_resources_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListResourcesResult:
        """Return one page of the resources and the cursor of the next."""
        return await self._page("resources/list", cursor, options)

    def iter_resources(self, **options: Unpack[CallOptions]) -> AsyncIterator[Resource]:
        """Iterate over all resources; each page is fetched when it is needed."""
        return self._iterate("resources/list", options)

    async def list_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> list[ResourceTemplate]:
        """Return all resource templates of all pages."""
        return await self._list("resources/templates/list", options)

    async def list_resource_templates_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListResourceTemplatesResult:
        """Return one page of the resource templates and the cursor of the next."""
        return await self._page("resources/templates/list", cursor, options)

    def iter_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> AsyncIterator[ResourceTemplate]:
        """Iterate over all resource templates; pages are fetched when needed."""
        return self._iterate("resources/templates/list", options)

    async def list_prompts(self, **options: Unpack[CallOptions]) -> list[Prompt]:
        """Return all prompts of all pages; raises as `call_tool`."""
        return await self._list("prompts/list", options)

    async def list_prompts_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListPromptsResult:
        """Return one page of the prompts and the cursor of the next."""
        return await self._page("prompts/list", cursor, options)

    def iter_prompts(self, **options: Unpack[CallOptions]) -> AsyncIterator[Prompt]:
        """Iterate over all prompts; each page is fetched when it is needed."""
        return self._iterate("prompts/list", options)

    async def _list(self, method: str, options: CallOptions) -> list[Any]:
        tools = self._known_tools.tools
        pages = await self._requests.pages(method, options)
        return [item for page in pages for item in self._items(method, page, tools)]

    async def _page(self, method: str, cursor: str | None, options: CallOptions) -> T:
        params = {} if cursor is None else {"cursor": cursor}
        return await self._result(method, params, options)

    async def _iterate(
        self, method: str, options: CallOptions, params: JsonObject | None = None
    ) -> AsyncIterator[Any]:
        tools = self._known_tools.tools
        async for page in self._requests.walk(method, params or {}, options):
            for item in self._items(method, page, tools):
                yield item

    def _items(self, method: str, raw: JsonObject, tools: dict[str, Tool]) -> list[Any]:
        """Decode one page of a list and return its items."""
        spec = find_method(method)
        assert spec is not None and spec.list_key is not None  # noqa: PT018 - no test
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in spec.list_key)
        items: list[Any] = getattr(self._decode_result(method, raw, tools), snake)
        return items

    async def _result(
        self, method: str, params: dict[str, Any] | None, options: CallOptions
    ) -> T:
        """Perform a request; return its result, decoded by the method table's type."""
        tools = self._known_tools.tools
        raw = await self._requests.request(method, params, options)
        result: T = self._decode_result(method, raw, tools)
        return result

    def _decode_result(
        self, method: str, raw: dict[str, Any], tools: dict[str, Tool]
    ) -> Any:
        """Decode a result; add a list's tools to `tools`."""
        from mcpwire import types

        spec = find_method(method)
        assert spec is not None and spec.result is not None  # noqa: PT018 - no test
        lost: list[str] = []
        result = decode(getattr(types, spec.result), raw, lost)
        self._connection.malformed_members += len(lost)
        if method == "tools/list":
            self._known_tools.add(result.tools, tools)
        return result

    # Skills (`io.modelcontextprotocol/skills`)

    async def list_skills(self, **options: Unpack[CallOptions]) -> list[Skill]:
        """Return all skills of all pages, without reading their files."""
        return await self._list("skills/list", options)

    async def list_skills_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> ListSkillsResult:
        """Return one page of the skills and the cursor of the next."""
        return await self._page("skills/list", cursor, options)

    def iter_skills(self, **options: Unpack[CallOptions]) -> AsyncIterator[Skill]:
        """Iterate over all skills; each page is fetched when it is needed."""
        return self._iterate("skills/list", options)

    async def get_skill(self, uri: str, **options: Unpack[CallOptions]) -> Skill:
        """Return the server's entry of one skill, without reading its files.

        Raises:
            InvalidParams: The server has no such skill.
            InvalidMessage: The reply describes another skill.
        """
        result: GetSkillResult = await self._result("skills/get", {"uri": uri}, options)
        skill = result.skill
        if skill.uri != uri:
            raise InvalidMessage(
                "GetSkillResult.skill.uri", expected=repr(uri), got=repr(skill.uri)
            )
        return skill

    async def load_skill(
        self, skill: Skill | str, **options: Unpack[CallOptions]
    ) -> LoadedSkill:
        """Read the `SKILL.md` of a skill, and no other file, and check it.

        Args:
            skill: The listed skill, or its URI, for which `skills/get` is sent first.
            options: The options of every request; each request has its own timeout.

        Raises:
            SkillError: The server's entry breaks a rule, and no file was read; or the
                file's size, digest or frontmatter differs from the entry.
            LocalProtocolError: PyYAML is not installed; no request was sent.
        """
        from mcpwire.client.skills import load
        from mcpwire.protocol.skills import load_yaml

        load_yaml()
        profile = self._connection.profile
        if "skills/get" in profile.disabled:
            raise profile.refusal("skills/get")
        if isinstance(skill, str):
            skill = await self.get_skill(skill, **options)
        return await load(self._requests, skill, options)

    async def read_directory(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> list[Resource]:
        """Return the direct children of a directory, of all pages.

        A child directory has the MIME type ``inode/directory``. The server must declare
        ``directoryRead``.

        Raises:
            InvalidParams: The directory does not exist.
        """
        directory = "resources/directory/read"
        items = self._iterate(directory, options, {"uri": uri})
        return [item async for item in items]

    # Notifications from the server

    def events(self) -> EventStream:
        """Iterate over every notification that belongs to no call.

        Each stream has its own buffer, limited by `Limits.notifications`; `EventStream`
        documents which notifications may be dropped. It starts with this call and ends
        with `aclose` of the stream or of the client.
        """
        from mcpwire.client.streams import EventStream

        return EventStream(self._connection, self._subscriptions)

    def listen(
        self,
        uris: Iterable[str] = (),
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        task_ids: Iterable[str] = (),
        **options: Unpack[CallOptions],
    ) -> Subscription:
        """Subscribe to selected notifications until the iterator is closed.

        ::

            async with client.listen(["file:///a"], tools=True) as changes:
                print(changes.acknowledged)
                async for notification in changes: ...

        Args:
            uris: Resources to subscribe to.
            tools: Whether to subscribe to changes of the tool list.
            prompts: Whether to subscribe to changes of the prompt list.
            resources: Whether to subscribe to changes of the resource list.
            task_ids: Tasks to subscribe to (with the tasks extension).
            options: The options of every request, used for the subscribe request.

        Entering it, or its first iteration, raises the errors of any request.
        """
        from mcpwire.client.streams import Subscription

        selected = Filter(
            tools=tools,
            prompts=prompts,
            resources=resources,
            uris=frozenset(uris),
            task_ids=frozenset(task_ids),
        )
        return Subscription(self._connection, self._subscriptions, selected, options)

    def watch(self, uri: str, **options: Unpack[CallOptions]) -> ResourceWatch:
        """Iterate over the contents of a resource: now, and after each change.

        ::

            async with client.watch("file:///a") as contents:
                async for content in contents: ...

        Several changes during one read cause one further read. A lost connection is
        opened again, and the resource is then read again.
        """
        from mcpwire.client.streams import ResourceWatch, Subscription

        changes = Subscription(
            self._connection,
            self._subscriptions,
            Filter(uris=frozenset((uri,))),
            options,
            renews=True,
        )

        async def read() -> ReadResourceResult:
            # Changes after this read must be received, in a new session too.
            deadline = self._requests.deadline(options.get("timeout", UNSET))
            await self._subscriptions.wait_for_stream(deadline)
            return await self.read_resource(uri, **options)

        return ResourceWatch(changes, read)

    async def subscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Subscribe to changes of a resource, until `unsubscribe`.

        `on_notification` and `events()` receive the notifications. Two `subscribe`
        calls need two `unsubscribe` calls. A reconnect restores the subscription.

        Raises:
            LocalProtocolError: The server does not offer it, or refuses this resource.
        """
        selected = Filter(uris=frozenset((uri,)))
        if not await self._subscriptions.add(selected, options):
            await self._subscriptions.remove(selected, options)
            offers = self._connection.profile.offers("resources.subscribe")
            raise LocalProtocolError(
                f"the server acknowledged no subscription to {uri!r}"
                if offers
                else "the server did not declare 'resources.subscribe', "
                "which subscribing needs"
            )

    @property
    def subscribed(self) -> frozenset[str]:
        """The URIs of the resources that this client currently subscribes to."""
        return self._subscriptions.counts.current.uris

    async def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Undo one `subscribe`.

        Raises:
            LocalProtocolError: The resource has no subscription.
        """
        await self._subscriptions.remove(Filter(uris=frozenset((uri,))), options)

    # Notifications and settings for the server

    async def set_log_level(
        self, level: LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Set the minimum level of the log messages that the server sends.

        A session sends a request; at 2026-07-28 each later request carries the level.
        A reconnect restores the level.

        Args:
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``,
                ``critical``, ``alert`` or ``emergency``.
            options: The options of every request.

        Raises:
            LocalProtocolError: The level is unknown, or the server has no logging.
        """
        if level not in LEVELS:
            raise LocalProtocolError(
                f"a log level is one of {', '.join(LEVELS)}, got {level!r}"
            )
        connection = self._connection
        if connection.profile.era is not Era.STATELESS:
            await self._requests.request("logging/setLevel", {"level": level}, options)
            connection.log_level = level
            return
        if not connection.profile.offers("logging"):
            raise LocalProtocolError("the server did not declare 'logging'")
        connection.set_log_level(level)

    def cancel(self, request_id: RequestId | None, reason: str | None = None) -> None:
        """Cancel one of this client's calls by its JSON-RPC id.

        The waiting caller gets `CallCancelled`. Returns at once. Without a pending call
        of that id, and for ``None``, it does nothing. (2025-11-25
        basic/utilities/cancellation sends a notification; 2026-07-28 over HTTP closes
        the call's stream instead.)

        Args:
            request_id: The id, such as `PendingCall.request_id`.
            reason: A text for the server's log.
        """
        channel = self._connection.channel
        if channel is not None and request_id is not None:
            channel.cancel_id(request_id, reason or "cancelled")

    async def notify_roots_changed(self) -> None:
        """Notify the server that the roots changed; no effect since 2026-07-28.

        A list passed as `roots` is read again for each `roots/list`, so change that
        list and call this.

        Raises:
            LocalProtocolError: The client was created without roots.
            TransportError: The connection is lost.
        """
        if not self._has_roots:
            raise LocalProtocolError("this client was made without roots")
        channel = self._connection.channel
        if channel is None:
            raise self._connection.not_connected_error()
        # 2025-11-25 client/roots, "Root List Changes"; 2026-07-28 has no such message:
        # a server requests the roots each time it needs them.
        if self._connection.profile.era is not Era.STATELESS:
            await channel.notify("notifications/roots/list_changed")


async def resolve_links(
    client: Client, result: CallToolResult, **options: Unpack[CallOptions]
) -> CallToolResult:
    """Return a tool's result with its resource links replaced by the resources.

    Only resources that the server lists are read, each once; a resource of several
    contents becomes several blocks. Other links stay, as do links that the server
    answers with an error. `raw` stays the server's result. A result without
    links causes no request.

    Args:
        client: The connected client that made the call.
        result: The result of the call; it is not changed.
        options: The options of every request, used for each request.

    Raises:
        TransportError: The connection is lost.
        RequestTimeout: The list or a resource was not received in time.
        RemoteProtocolError: A reply is invalid.
    """
    from mcpwire.types import EmbeddedResource, ResourceLink

    linked = {block.uri for block in result.content if isinstance(block, ResourceLink)}
    if not linked:
        return result
    try:
        listed = {resource.uri for resource in await client.list_resources(**options)}
    except (LocalProtocolError, RPCError):
        return result
    embedded: dict[str, list[EmbeddedResource]] = {}
    for uri in sorted(linked & listed):
        try:
            read = await client.read_resource(uri, **options)
        except RPCError:
            continue
        embedded[uri] = [EmbeddedResource(contents) for contents in read.contents]
    content: list[ContentBlock] = []
    for block in result.content:
        if isinstance(block, ResourceLink) and block.uri in embedded:
            content += embedded[block.uri]
        else:
            content.append(block)
    return attrs.evolve(result, content=content)


def _warn_of_patterns(tool: str, patterns: tuple[str, ...]) -> None:
    logger.warning(
        "the output schema of %r has patterns that are not checked, as they need "
        "look-around, back-references or too much memory: %.200r",
        tool,
        patterns,
    )


def _check_validate(validate: str) -> None:
    check_choice(validate, "validate", ("off", "warn", "error"))
