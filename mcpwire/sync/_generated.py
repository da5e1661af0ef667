# Made by `python tests/sync/generate.py --write`: change the asyncio classes instead.
"""The blocking client, and what it gives out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY
from mcpwire.sync._facade import Facade, OwningFacade, PendingCall, StreamFacade
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Literal, Unpack

    from mcpwire import types
    from mcpwire.client.client import CallOptions
    from mcpwire.client.client import Client as AsyncClient
    from mcpwire.client.connection import ClientStats
    from mcpwire.client.requests import ProgressFn
    from mcpwire.client.skills import LoadedSkill as AsyncLoadedSkill
    from mcpwire.client.streams import EventStream as AsyncEventStream
    from mcpwire.client.streams import ResourceWatch as AsyncResourceWatch
    from mcpwire.client.streams import Subscription as AsyncSubscription
    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.cache import ResponseCache
    from mcpwire.protocol.client_features import (
        Elicitation,
        FormHandler,
        Roots,
        Sampling,
        SamplingHandler,
    )
    from mcpwire.protocol.negotiation import Negotiation
    from mcpwire.protocol.subscriptions import Filter, Notification
    from mcpwire.transports.targets import Target
    from mcpwire.wire.jsonrpc import RequestId


class EventStream(StreamFacade):
    """An iterator over the server notifications that belong to no call.

    Beyond `Limits.notifications`, unread progress and log messages are dropped, the
    oldest first, and counted in `dropped`. Changes of a list or a resource are never
    dropped: while one such notification is unread, further ones for the same list or
    resource are merged with it.

    The stream ends when the client is closed. A lost connection is opened again (as
    `Recovery` allows), and the stream continues.

    Notifications that need a subscription (list changes, since 2026-07-28) are received
    after the stream is entered, or after its first iteration.
    """

    _inner: AsyncEventStream

    @property
    def dropped(self) -> int:
        """The number of notifications dropped because they were not read in time."""
        return self._inner.dropped

    def __next__(self) -> Notification:
        return self._next_item(self._inner)

    def next(self, timeout: float | None = None) -> Notification | None:
        """Return the next notification; wait for it at most `timeout` seconds.

        Returns ``None`` after the timeout or at the end of the stream; `is_closed`
        distinguishes them. The first call may also send a subscription request, which
        has a timeout of its own.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
            MCPError: The connection is lost and cannot be opened again.
        """
        return self._run(self._inner.next(timeout))

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended and its buffer is empty."""
        return self._inner.is_closed

    def close(self) -> None:
        """End the stream; unsubscribe if it was the last consumer. Never raises."""
        self._run(self._inner.aclose())


class Subscription(EventStream):
    """An iterator over selected notifications of changed lists and resources.

    Entering it subscribes; then `acknowledged` holds the part that the server accepted.
    It also ends when the server ends the subscription.
    """

    _inner: AsyncSubscription

    @property
    def acknowledged(self) -> Filter | None:
        """The accepted part of the subscription; ``None`` until acknowledged."""
        return self._inner.acknowledged

    @property
    def refused(self) -> Filter:
        """The part of the subscription that the server did not accept."""
        return self._inner.refused


class ResourceWatch(StreamFacade):
    """An iterator over the contents of a resource: now, and after each change.

    The resource is also read again after a reconnect, as notifications of changes may
    have been lost.
    """

    _inner: AsyncResourceWatch

    def __next__(self) -> types.ReadResourceResult:
        return self._next_item(self._inner)

    def close(self) -> None:
        """Stop watching. Never raises."""
        self._run(self._inner.aclose())


class LoadedSkill(Facade):
    """A skill with a checked `SKILL.md`; its other files are read on demand.

    Attributes:
        entry: The server's entry of the skill.
        frontmatter: The YAML frontmatter of its `SKILL.md`.
        body: The instructions that follow the frontmatter.
    """

    _inner: AsyncLoadedSkill

    @property
    def uri(self) -> str:
        """The URI of its `SKILL.md`."""
        return self._inner.uri

    @property
    def name(self) -> str:
        """The skill's name."""
        return self._inner.name

    @property
    def description(self) -> str:
        """The skill's description."""
        return self._inner.description

    @property
    def files(self) -> list[str] | None:
        """The URIs of all its files; ``None`` if the entry does not list them."""
        return self._inner.files

    def read_file(self, path: str, **options: Unpack[CallOptions]) -> bytes:
        """Read one of its files and check it.

        Args:
            path: The file's URI, or its path from the skill's folder, such as
                ``references/FORMS.md``.
            options: The options of every request.

        Raises:
            SkillError: The file's size or digest differs from the entry, and no other
                file can be read. Or the skill has no such file; no request was sent.
            LocalProtocolError: An earlier or concurrent read found an invalid file; no
                request was sent, or its reply is discarded.
        """
        return self._run(self._inner.read_file(path, **options))

    def read_text(self, path: str, **options: Unpack[CallOptions]) -> str:
        """Read one of its files as `read_file` does, and return its text.

        Raises:
            LocalProtocolError: The file is not UTF-8 text; see `read_file`.
        """
        return self._run(self._inner.read_text(path, **options))


class Client(OwningFacade):
    """A connection to one MCP server.

    Every method that sends a request takes `CallOptions`, raises what `call_tool`
    raises, and is as safe to interrupt: the server is told, and the connection goes on.
    Any number of threads may share a client.

    ::

        with mcpwire.sync.Client("npx -y @modelcontextprotocol/server-memory") as c:
            result = c.call_tool("read_graph")

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
        on_notification: Called with each `Notification` that belongs to no call, in a
            thread.
        raise_exceptions: Whether calls to a server object in this process raise the
            unexpected exceptions of its functions, for tests: other clients receive
            only an error without details.
        trace: A plain function, called as ``trace(event, data)`` for each message and
            connection event (see `mcpwire.transports.base.Trace`).
        background: Whether a thread of its own runs the event loop, also between calls,
            so that what the server starts is served at any time. `on_notification`,
            `keepalive` and `start_call` begin that thread by themselves.

    Raises:
        ValueError: An argument is out of range; the message names it.
    """

    _inner: AsyncClient

    def __init__(
        self,
        target: Target,
        *,
        timeout: float | None = 30.0,
        connect_timeout: float | None = 60.0,
        probe_timeout: float = 5.0,
        mode: str = "auto",
        client_info: types.Implementation | None = None,
        limits: Limits = DEFAULT_LIMITS,
        recovery: Recovery = DEFAULT_RECOVERY,
        keepalive: float | None = None,
        reset_timeout_on_progress: bool = False,
        max_timeout: float | None = None,
        sampling: SamplingHandler | Sampling | None = None,
        elicitation: FormHandler | Elicitation | None = None,
        roots: Roots | None = None,
        extensions: Mapping[str, types.JsonObject | None] | Iterable[str] | None = None,
        experimental: Mapping[str, types.JsonObject | None] | None = None,
        cache: ResponseCache | bool = False,
        on_notification: Callable[[Notification], Any] | None = None,
        raise_exceptions: bool = False,
        trace: Callable[[str, Any], Any] | None = None,
        background: bool = False,
    ) -> None:
        from mcpwire.client import Client as Inner

        self._create_inner(
            Inner,
            target,
            timeout=timeout,
            connect_timeout=connect_timeout,
            probe_timeout=probe_timeout,
            mode=mode,
            client_info=client_info,
            limits=limits,
            recovery=recovery,
            keepalive=keepalive,
            reset_timeout_on_progress=reset_timeout_on_progress,
            max_timeout=max_timeout,
            sampling=sampling,
            elicitation=elicitation,
            roots=roots,
            extensions=extensions,
            experimental=experimental,
            cache=cache,
            on_notification=on_notification,
            raise_exceptions=raise_exceptions,
            trace=trace,
            background=background,
        )

    def connect(self) -> None:
        """Connect, or wait for a running attempt; do nothing when connected.

        Works from any thread, again after `close`, and again after the server exited.
        Ctrl-C undoes what had begun.

        Raises:
            ConnectError: The server is unreachable, or ended during the handshake.
            RequestTimeout: The handshake did not finish within `connect_timeout`.
            NegotiationError: Client and server have no revision in common.
            ConnectionClosed: `close` was called while connecting.
        """
        self._run(self._inner.connect())

    def close(self) -> None:
        """Close the connection and end the server's process; bounded in time.

        Works from any thread, in any order, twice. Pending calls fail with
        `ConnectionClosed`. Ctrl-C ends the server's process at once.
        """
        self._close(self._inner.aclose)

    def set_handlers(
        self,
        *,
        sampling: SamplingHandler | Sampling | types.Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | types.Unset | None = UNSET,
        roots: Roots | types.Unset | None = UNSET,
    ) -> None:
        """Replace the handlers of server requests at once; ``None`` removes a handler.

        Omitted handlers stay. A request in progress keeps its handler. The declared
        capabilities change with the next request at 2026-07-28, in a session with the
        next handshake: until then a server may not know that it can send such requests.

        Raises:
            ValueError: A value has the wrong type; names it, and changes no handler.
        """
        self._on_loop(
            lambda: self._inner.set_handlers(
                sampling=sampling, elicitation=elicitation, roots=roots
            )
        )

    @property
    def lost(self) -> MCPError | None:
        """The error that ended the connection; ``None``: open, or closed by us."""
        return self._inner.lost

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open for calls."""
        return self._inner.is_connected

    @property
    def protocol_version(self) -> str | None:
        """The negotiated revision, such as ``2025-11-25``; ``None`` before that."""
        return self._inner.protocol_version

    @property
    def server_info(self) -> types.Implementation | None:
        """The server's name and version; ``None`` if it did not send them.

        Raises:
            InvalidMessage: The server sent an invalid object; calls still work.
        """
        return self._inner.server_info

    @property
    def capabilities(self) -> types.ServerCapabilities | None:
        """The server's capabilities; ``None`` before the first connection.

        Raises:
            InvalidMessage: The server sent an invalid object; calls still work.
        """
        return self._inner.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for its use; ``None`` if it sent none."""
        return self._inner.instructions

    @property
    def session_id(self) -> str | None:
        """The id of the open HTTP session; ``None`` without one."""
        return self._inner.session_id

    @property
    def negotiation(self) -> Negotiation | None:
        """The steps of the last handshake, successful or failed."""
        return self._inner.negotiation

    @property
    def stats(self) -> ClientStats:
        """The traffic counters of this client, summed over all its connections."""
        return self._inner.stats

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | types.Unset | None = UNSET,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFn | None = None,
        headers: Mapping[str, str] | None = None,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        idempotent: bool | None = None,
    ) -> types.CallToolResult:
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

        Ctrl-C tells the server and raises `KeyboardInterrupt`.
        """
        return self._run(
            self._inner.call_tool(
                name,
                arguments,
                timeout=timeout,
                meta=meta,
                on_progress=on_progress,
                headers=headers,
                check=check,
                validate=validate,
                idempotent=idempotent,
            )
        )

    def start_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        **options: Unpack[CallOptions],
    ) -> PendingCall[types.CallToolResult]:
        """Send a tool call and return a handle on it, to wait for or to cancel later.

        ::

            call = client.start_call("slow", {"steps": 3})
            call.cancel("no longer needed")     # or: result = call.result()

        `check` and `validate` are as in `call_tool`. Errors before the request is sent
        are raised here; later errors are raised by its `result`.
        """
        self._runner.wants_thread = True
        return self._wrap(
            PendingCall,
            self._run(
                self._inner.start_call(
                    name, arguments, check=check, validate=validate, **options
                )
            ),
        )

    def read_resource(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> types.ReadResourceResult:
        """Read a resource; raises as `call_tool`.

        An unknown URI raises `ResourceNotFound` up to 2025-11-25, then `InvalidParams`.
        """
        return self._run(self._inner.read_resource(uri, **options))

    def read_text(self, uri: str, **options: Unpack[CallOptions]) -> str:
        """Read a resource and return its text.

        Raises:
            LocalProtocolError: The resource has only binary data; see `read_bytes`.
        """
        return self._run(self._inner.read_text(uri, **options))

    def read_bytes(self, uri: str, **options: Unpack[CallOptions]) -> bytes:
        """Read a resource and return its bytes; text is encoded as UTF-8.

        Raises:
            InvalidMessage: A `blob` of the reply is not valid Base64.
        """
        return self._run(self._inner.read_bytes(uri, **options))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> types.GetPromptResult:
        """Return a prompt rendered with arguments, which are strings on the wire."""
        return self._run(self._inner.get_prompt(name, arguments, **options))

    def complete(
        self,
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> types.CompleteResult:
        """Return completions for an argument of a prompt or a resource template.

        Args:
            ref: The prompt or resource template.
            argument: The argument's name.
            value: What has been typed so far.
            context: Arguments already chosen (since 2025-06-18).
            options: The options of every request.
        """
        return self._run(
            self._inner.complete(ref, argument, value, context=context, **options)
        )

    def ping(self, **options: Unpack[CallOptions]) -> float:
        """Send a ping; return the round-trip time in seconds.

        At 2026-07-28, which has no ping, it sends `server/discover`.
        """
        return self._run(self._inner.ping(**options))

    def discover(self, **options: Unpack[CallOptions]) -> types.DiscoverResult:
        """Send `server/discover`; return versions and capabilities (since 2026-07-28).

        Raises:
            LocalProtocolError: The negotiated revision has no `server/discover`.
        """
        return self._run(self._inner.discover(**options))

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Send any request and return the raw result object.

        Only the fields that the revision requires of every request are added (`_meta`
        at 2026-07-28); capabilities are not checked and no input round is run.
        """
        return self._run(self._inner.request(method, params, **options))

    def notify(
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
        self._run(self._inner.notify(method, params, headers=headers))

    def list_tools(self, **options: Unpack[CallOptions]) -> list[types.Tool]:
        """Return all tools of all pages; raises as `call_tool`."""
        return self._run(self._inner.list_tools(**options))

    def list_tools_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListToolsResult:
        """Return one page of the tools and the cursor of the next."""
        return self._run(self._inner.list_tools_page(cursor, **options))

    def iter_tools(self, **options: Unpack[CallOptions]) -> Iterator[types.Tool]:
        """Iterate over all tools; each page is fetched when it is needed."""
        return self._iterate(self._inner.iter_tools(**options))

    def list_resources(self, **options: Unpack[CallOptions]) -> list[types.Resource]:
        """Return all resources of all pages; raises as `call_tool`."""
        return self._run(self._inner.list_resources(**options))

    def list_resources_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListResourcesResult:
        """Return one page of the resources and the cursor of the next."""
        return self._run(self._inner.list_resources_page(cursor, **options))

    def iter_resources(
        self, **options: Unpack[CallOptions]
    ) -> Iterator[types.Resource]:
        """Iterate over all resources; each page is fetched when it is needed."""
        return self._iterate(self._inner.iter_resources(**options))

    def list_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> list[types.ResourceTemplate]:
        """Return all resource templates of all pages."""
        return self._run(self._inner.list_resource_templates(**options))

    def list_resource_templates_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListResourceTemplatesResult:
        """Return one page of the resource templates and the cursor of the next."""
        return self._run(self._inner.list_resource_templates_page(cursor, **options))

    def iter_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> Iterator[types.ResourceTemplate]:
        """Iterate over all resource templates; pages are fetched when needed."""
        return self._iterate(self._inner.iter_resource_templates(**options))

    def list_prompts(self, **options: Unpack[CallOptions]) -> list[types.Prompt]:
        """Return all prompts of all pages; raises as `call_tool`."""
        return self._run(self._inner.list_prompts(**options))

    def list_prompts_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListPromptsResult:
        """Return one page of the prompts and the cursor of the next."""
        return self._run(self._inner.list_prompts_page(cursor, **options))

    def iter_prompts(self, **options: Unpack[CallOptions]) -> Iterator[types.Prompt]:
        """Iterate over all prompts; each page is fetched when it is needed."""
        return self._iterate(self._inner.iter_prompts(**options))

    def list_skills(self, **options: Unpack[CallOptions]) -> list[types.Skill]:
        """Return all skills of all pages, without reading their files."""
        return self._run(self._inner.list_skills(**options))

    def list_skills_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListSkillsResult:
        """Return one page of the skills and the cursor of the next."""
        return self._run(self._inner.list_skills_page(cursor, **options))

    def iter_skills(self, **options: Unpack[CallOptions]) -> Iterator[types.Skill]:
        """Iterate over all skills; each page is fetched when it is needed."""
        return self._iterate(self._inner.iter_skills(**options))

    def get_skill(self, uri: str, **options: Unpack[CallOptions]) -> types.Skill:
        """Return the server's entry of one skill, without reading its files.

        Raises:
            InvalidParams: The server has no such skill.
            InvalidMessage: The reply describes another skill.
        """
        return self._run(self._inner.get_skill(uri, **options))

    def load_skill(
        self, skill: types.Skill | str, **options: Unpack[CallOptions]
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
        return self._wrap(
            LoadedSkill, self._run(self._inner.load_skill(skill, **options))
        )

    def read_directory(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> list[types.Resource]:
        """Return the direct children of a directory, of all pages.

        A child directory has the MIME type ``inode/directory``. The server must declare
        ``directoryRead``.

        Raises:
            InvalidParams: The directory does not exist.
        """
        return self._run(self._inner.read_directory(uri, **options))

    def events(self) -> EventStream:
        """Iterate over every notification that belongs to no call.

        Each stream has its own buffer, limited by `Limits.notifications`; `EventStream`
        documents which notifications may be dropped. It starts with this call and ends
        with `close` of the stream or of the client.
        """
        return self._wrap(EventStream, self._on_loop(self._inner.events))

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

            with client.listen(["file:///a"], tools=True) as changes:
                print(changes.acknowledged)
                for notification in changes: ...

        Args:
            uris: Resources to subscribe to.
            tools: Whether to subscribe to changes of the tool list.
            prompts: Whether to subscribe to changes of the prompt list.
            resources: Whether to subscribe to changes of the resource list.
            task_ids: Tasks to subscribe to (with the tasks extension).
            options: The options of every request, used for the subscribe request.

        Entering it, or its first iteration, raises the errors of any request.
        """
        return self._wrap(
            Subscription,
            self._on_loop(
                lambda: self._inner.listen(
                    uris,
                    tools=tools,
                    prompts=prompts,
                    resources=resources,
                    task_ids=task_ids,
                    **options,
                )
            ),
        )

    def watch(self, uri: str, **options: Unpack[CallOptions]) -> ResourceWatch:
        """Iterate over the contents of a resource: now, and after each change.

        ::

            with client.watch("file:///a") as contents:
                for content in contents: ...

        Several changes during one read cause one further read. A lost connection is
        opened again, and the resource is then read again.
        """
        return self._wrap(
            ResourceWatch, self._on_loop(lambda: self._inner.watch(uri, **options))
        )

    def subscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Subscribe to changes of a resource, until `unsubscribe`.

        `on_notification` and `events()` receive the notifications. Two `subscribe`
        calls need two `unsubscribe` calls. A reconnect restores the subscription.

        Raises:
            LocalProtocolError: The server does not offer it, or refuses this resource.
        """
        self._run(self._inner.subscribe(uri, **options))

    @property
    def subscribed(self) -> frozenset[str]:
        """The URIs of the resources that this client currently subscribes to."""
        return self._inner.subscribed

    def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Undo one `subscribe`.

        Raises:
            LocalProtocolError: The resource has no subscription.
        """
        self._run(self._inner.unsubscribe(uri, **options))

    def set_log_level(
        self, level: types.LoggingLevel, **options: Unpack[CallOptions]
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
        self._run(self._inner.set_log_level(level, **options))

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
        self._runner.post(self._inner.cancel, request_id, reason)

    def notify_roots_changed(self) -> None:
        """Notify the server that the roots changed; no effect since 2026-07-28.

        A list passed as `roots` is read again for each `roots/list`, so change that
        list and call this.

        Raises:
            LocalProtocolError: The client was created without roots.
            TransportError: The connection is lost.
        """
        self._run(self._inner.notify_roots_changed())
