# Made by `python tests/sync/generate.py --write`: change the asyncio classes instead.
"""The blocking client, and what it gives out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.limits import DEFAULT_LIMITS, DEFAULT_RECOVERY
from mcpwire.sync._facade import Facade, Owner, PendingCall, Stream
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

__all__ = ["Client", "EventStream", "LoadedSkill", "ResourceWatch", "Subscription"]


class EventStream(Stream):
    """Every notification of the server that belongs to no call, as it comes.

    Beyond `Limits.notifications` progress and log messages that were not taken yet are
    dropped, the oldest first, and counted in `dropped`. That a list or a resource
    changed is never dropped: while one such notification waits, further ones about the
    same are one with it.

    It ends when the client is closed. A connection that was lost is opened again (as
    `Recovery` allows), and the stream goes on.

    What has to be asked for (from 2026-07-28 on: that a list changed) it hears from
    being entered, or from the first step of iterating.
    """

    _inner: AsyncEventStream

    @property
    def dropped(self) -> int:
        """Notifications lost because they were not taken in time."""
        return self._inner.dropped

    def __next__(self) -> Notification:
        return self._take(self._inner)

    def next(self, timeout: float | None = None) -> Notification | None:
        """Return the next notification, waiting so many seconds for it.

        Returns ``None`` when the time is over, or the stream: `is_closed` tells. What
        has to be asked for is asked for by the first step, which takes the time of a
        request for that.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
            MCPError: The connection is lost and stays so.
        """
        return self._run(self._inner.next(timeout))

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will come."""
        return self._inner.is_closed

    def close(self) -> None:
        """Hear no more; the server is told where nobody else listens. Never raises."""
        self._run(self._inner.aclose())


class Subscription(EventStream):
    """Chosen notifications: that lists or certain resources changed.

    Entering it subscribes; from then on `acknowledged` says what of it the server will
    tell. It also ends where the server ends the subscription.
    """

    _inner: AsyncSubscription

    @property
    def acknowledged(self) -> Filter | None:
        """What the server will tell; ``None`` before it said so."""
        return self._inner.acknowledged

    @property
    def refused(self) -> Filter:
        """What was asked for and the server will not tell."""
        return self._inner.refused


class ResourceWatch(Stream):
    """What a resource holds: now, and again each time the server says it changed.

    After a connection was lost and opened again the resource is read again too, for
    what happened meanwhile was not told.
    """

    _inner: AsyncResourceWatch

    def __next__(self) -> types.ReadResourceResult:
        return self._take(self._inner)

    def close(self) -> None:
        """Stop watching. Never raises."""
        self._run(self._inner.aclose())


class LoadedSkill(Facade):
    """A skill whose `SKILL.md` was read and checked; its other files come when asked.

    Attributes:
        entry: What the server said of it.
        frontmatter: The head of its `SKILL.md`, in YAML.
        body: Its instructions: what follows the head.
    """

    _inner: AsyncLoadedSkill

    @property
    def uri(self) -> str:
        """The URI of its `SKILL.md`."""
        return self._inner.uri

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def description(self) -> str:
        """What it is for."""
        return self._inner.description

    @property
    def files(self) -> list[str] | None:
        """The URIs of all its files; ``None`` where they are not known beforehand."""
        return self._inner.files

    def read_file(self, path: str, **options: Unpack[CallOptions]) -> bytes:
        """Read one of its files and check it.

        Args:
            path: The file's URI, or its path from the skill's folder, such as
                ``references/FORMS.md``.
            options: As every request takes.

        Raises:
            SkillError: The file has another size or digest; no other can be read then.
                Or the skill has no such file; then nothing was sent.
            LocalProtocolError: It had a file that was wrong; then nothing was sent, or
                what came is not given out.
        """
        return self._run(self._inner.read_file(path, **options))

    def read_text(self, path: str, **options: Unpack[CallOptions]) -> str:
        """Read one of its files as `read_file` does, and return its text.

        Raises:
            LocalProtocolError: It is no text in UTF-8; see `read_file`.
        """
        return self._run(self._inner.read_text(path, **options))


class Client(Owner):
    """A connection to one MCP server.

    Every method that sends a request takes `CallOptions`, raises what `call_tool`
    raises, and is as safe to interrupt: the server is told, and the connection goes on.
    Any number of threads may share a client.

    ::

        with mcpwire.sync.Client("npx -y @modelcontextprotocol/server-memory") as c:
            result = c.call_tool("read_graph")

    Args:
        target: A command line (split like a shell would, run without one), a `Stdio`,
            or a server object in this process.
        timeout: The default limit of a call, in seconds; ``None``: no limit.
        connect_timeout: The limit of `connect`, in seconds.
        probe_timeout: Seconds of silence after which an older handshake is tried
            beside the probe; it decides nothing by itself.
        mode: ``"auto"``, ``"session"``, ``"stateless"``, ``"prefer-session"`` (sessions
            if the server has both), or one revision's name.
        client_info: Who we say we are.
        limits: Bounds on what the server may cost.
        extensions: Ids of the extensions to switch on, or a mapping from ids to their
            settings; declared from 2026-07-28 on.
        experimental: Capabilities of your own to declare, by name, with their settings;
            declared at each revision.
        reset_timeout_on_progress: Whether progress starts a call's timeout again.
        max_timeout: What no progress extends a call beyond, in seconds; by default
            ten times its timeout. Without `reset_timeout_on_progress` it does nothing.
        on_notification: Called with each `Notification` that belongs to no call, in a
            thread.
        raise_exceptions: Whether calls to a server object in this process raise what
            its functions raise unforeseen, for tests: any other client is told no
            more than that they failed.
        trace: Called as ``trace(event, data)`` with each message and turn of events
            (see `mcpwire.transports.base.Trace`), a plain function; without it nothing
            is called.
        background: Whether a thread of its own runs the event loop, also between calls,
            so that what the server starts is served at any time. `on_notification`,
            `keepalive` and `start_call` begin that thread by themselves.

    Raises:
        ValueError: An argument is out of its range; names it.
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

        self._adopt(
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
        """Connect, or wait for the connecting under way; do nothing when connected.

        Works from any thread, again after `close`, and again after the server died.
        Ctrl-C undoes what had begun.

        Raises:
            ConnectError: The server could not be reached, or ended before it agreed.
            RequestTimeout: It did not agree within `connect_timeout`.
            NegotiationError: There is no common revision.
            ConnectionClosed: `close` was called meanwhile.
        """
        self._run(self._inner.connect())

    def close(self) -> None:
        """Close the connection and end the server's process; bounded in time.

        Works from any thread, in any order, twice. Calls still open fail with
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
        """Replace what answers the server's questions, at once; ``None`` takes it away.

        What is left out stays. A question that is being answered is not touched. What
        is declared follows with the next request at 2026-07-28, in a session with the
        next handshake: until then a server need not know that it may ask.

        Raises:
            ValueError: One of them is nothing of the kind; names it, changes nothing.
        """
        self._on_loop(
            lambda: self._inner.set_handlers(
                sampling=sampling, elicitation=elicitation, roots=roots
            )
        )

    @property
    def lost(self) -> MCPError | None:
        """Why the connection is gone that was not closed by us; ``None``: it is not."""
        return self._inner.lost

    @property
    def is_connected(self) -> bool:
        """Whether calls can be made now."""
        return self._inner.is_connected

    @property
    def protocol_version(self) -> str | None:
        """The agreed revision, such as ``2025-11-25``; ``None`` before."""
        return self._inner.protocol_version

    @property
    def server_info(self) -> types.Implementation | None:
        """The server's name and version, where it gave them.

        Raises:
            InvalidMessage: What it gave breaks the rules; calls work all the same.
        """
        return self._inner.server_info

    @property
    def capabilities(self) -> types.ServerCapabilities | None:
        """What the server declared; ``None`` before the first connection.

        Raises:
            InvalidMessage: What it declared breaks the rules; calls work all the same.
        """
        return self._inner.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used, where it said so."""
        return self._inner.instructions

    @property
    def session_id(self) -> str | None:
        """The HTTP session's id; ``None`` where there is none, or none any more."""
        return self._inner.session_id

    @property
    def negotiation(self) -> Negotiation | None:
        """How the last handshake went, step by step, also one that failed."""
        return self._inner.negotiation

    @property
    def stats(self) -> ClientStats:
        """What this client has sent and received, connections taken together."""
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
        """Call a tool and return its result, also one that reports failure.

        Args:
            name: The tool.
            arguments: Its arguments, as one object.
            timeout: Seconds; omitted: the client's; ``None``: no limit.
            meta: Further members of the request's `_meta`.
            on_progress: Called with progress, total and message, in order.
            headers: Further HTTP headers; refused on any other transport.
            check: Whether to raise `ToolError` when the tool reports failure.
            validate: Whether to hold a structured result against the tool's output
                schema, and to log or to raise what is wrong with it. Needs
                jsonschema-rs; the tools are listed where they have not been.
            idempotent: Whether the call may be made again when its connection was lost
                although it may have run; omitted: only where the tool, as last listed,
                says that it only reads or does no more when repeated.

        Raises:
            ToolError: With `check`, the tool reported failure.
            RPCError: The server refused, such as an unknown tool (`InvalidParams`).
            CallCancelled: The server needed something that a handler of ours refused
                (from 2026-07-28 on, where anything else a handler raises comes out
                here as it is; a session answers the server with an error instead).
            RequestTimeout: No answer in time; the server was told to stop.
            TransportError: The connection is gone; `ConnectionClosed.sent` says
                whether the call may have run.
            RemoteProtocolError: The answer breaks the rules.
            LocalProtocolError: The call may not be made; nothing was sent.

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

        `check` and `validate` are those of `call_tool`. Raises what that raises before
        anything is sent; the rest is raised by its `result`.
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
        """Read a resource; see `call_tool` for what is raised.

        An unknown URI is `ResourceNotFound` up to 2025-11-25, then `InvalidParams`.
        """
        return self._run(self._inner.read_resource(uri, **options))

    def read_text(self, uri: str, **options: Unpack[CallOptions]) -> str:
        """Read a resource and return its text.

        Raises:
            LocalProtocolError: It has no text, only bytes; see `read_bytes`.
        """
        return self._run(self._inner.read_text(uri, **options))

    def read_bytes(self, uri: str, **options: Unpack[CallOptions]) -> bytes:
        """Read a resource and return its bytes; text comes as UTF-8.

        Raises:
            InvalidMessage: Its bytes are no valid Base64.
        """
        return self._run(self._inner.read_bytes(uri, **options))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> types.GetPromptResult:
        """Get a prompt, filled in; arguments are strings on the wire."""
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
        """Ask how an argument of a prompt or template could go on.

        Args:
            ref: The prompt or resource template.
            argument: The argument's name.
            value: What has been typed so far.
            context: Arguments already decided (from 2025-06-18).
            options: As every request takes.
        """
        return self._run(
            self._inner.complete(ref, argument, value, context=context, **options)
        )

    def ping(self, **options: Unpack[CallOptions]) -> float:
        """Ask the server for a sign of life; return the seconds it took.

        At 2026-07-28, which has no ping, a `server/discover` is timed.
        """
        return self._run(self._inner.ping(**options))

    def discover(self, **options: Unpack[CallOptions]) -> types.DiscoverResult:
        """Ask the server what it supports (from 2026-07-28).

        Raises:
            LocalProtocolError: The agreed revision has no `server/discover`.
        """
        return self._run(self._inner.discover(**options))

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Send any request and return the raw result object.

        Only what the revision demands of every request is added (`_meta` at
        2026-07-28); no capability is asked for and no input round is run.
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
            TransportError: The connection is gone.
            LocalProtocolError: It may not be sent; nothing was.
        """
        self._run(self._inner.notify(method, params, headers=headers))

    def list_tools(self, **options: Unpack[CallOptions]) -> list[types.Tool]:
        """Return all tools, all pages; see `call_tool` for what is raised."""
        return self._run(self._inner.list_tools(**options))

    def list_tools_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListToolsResult:
        """Return one page of the tools and the cursor of the next."""
        return self._run(self._inner.list_tools_page(cursor, **options))

    def iter_tools(self, **options: Unpack[CallOptions]) -> Iterator[types.Tool]:
        """Iterate over all tools, fetching pages as they are needed."""
        return self._iterate(self._inner.iter_tools(**options))

    def list_resources(self, **options: Unpack[CallOptions]) -> list[types.Resource]:
        """Return all resources, all pages; see `call_tool` for what is raised."""
        return self._run(self._inner.list_resources(**options))

    def list_resources_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListResourcesResult:
        """Return one page of the resources and the cursor of the next."""
        return self._run(self._inner.list_resources_page(cursor, **options))

    def iter_resources(
        self, **options: Unpack[CallOptions]
    ) -> Iterator[types.Resource]:
        """Iterate over all resources, fetching pages as they are needed."""
        return self._iterate(self._inner.iter_resources(**options))

    def list_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> list[types.ResourceTemplate]:
        """Return all resource templates, all pages."""
        return self._run(self._inner.list_resource_templates(**options))

    def list_resource_templates_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListResourceTemplatesResult:
        """Return one page of the resource templates and the cursor of the next."""
        return self._run(self._inner.list_resource_templates_page(cursor, **options))

    def iter_resource_templates(
        self, **options: Unpack[CallOptions]
    ) -> Iterator[types.ResourceTemplate]:
        """Iterate over all resource templates, fetching pages as they are needed."""
        return self._iterate(self._inner.iter_resource_templates(**options))

    def list_prompts(self, **options: Unpack[CallOptions]) -> list[types.Prompt]:
        """Return all prompts, all pages; see `call_tool` for what is raised."""
        return self._run(self._inner.list_prompts(**options))

    def list_prompts_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListPromptsResult:
        """Return one page of the prompts and the cursor of the next."""
        return self._run(self._inner.list_prompts_page(cursor, **options))

    def iter_prompts(self, **options: Unpack[CallOptions]) -> Iterator[types.Prompt]:
        """Iterate over all prompts, fetching pages as they are needed."""
        return self._iterate(self._inner.iter_prompts(**options))

    def list_skills(self, **options: Unpack[CallOptions]) -> list[types.Skill]:
        """Return all skills, all pages; none of their files is read."""
        return self._run(self._inner.list_skills(**options))

    def list_skills_page(
        self, cursor: str | None = None, **options: Unpack[CallOptions]
    ) -> types.ListSkillsResult:
        """Return one page of the skills and the cursor of the next."""
        return self._run(self._inner.list_skills_page(cursor, **options))

    def iter_skills(self, **options: Unpack[CallOptions]) -> Iterator[types.Skill]:
        """Iterate over all skills, fetching pages as they are needed."""
        return self._iterate(self._inner.iter_skills(**options))

    def get_skill(self, uri: str, **options: Unpack[CallOptions]) -> types.Skill:
        """Return what the server says of one skill; none of its files is read.

        Raises:
            InvalidParams: The server has no such skill.
            InvalidMessage: The answer is about another skill.
        """
        return self._run(self._inner.get_skill(uri, **options))

    def load_skill(
        self, skill: types.Skill | str, **options: Unpack[CallOptions]
    ) -> LoadedSkill:
        """Read the `SKILL.md` of a skill, and nothing else, and check it.

        Args:
            skill: As it was listed, or its URI, which is then asked for.
            options: As every request takes; each request has its own timeout.

        Raises:
            SkillError: What the server says of it breaks a rule, and nothing was read;
                or the file has another size, digest or frontmatter.
            LocalProtocolError: PyYAML is not installed; nothing was
                sent.
        """
        return self._wrap(
            LoadedSkill, self._run(self._inner.load_skill(skill, **options))
        )

    def read_directory(
        self, uri: str, **options: Unpack[CallOptions]
    ) -> list[types.Resource]:
        """Return what a directory holds, all pages, and not what its directories hold.

        Those have the MIME type ``inode/directory``. The server has to declare
        ``directoryRead``.

        Raises:
            InvalidParams: There is no such directory.
        """
        return self._run(self._inner.read_directory(uri, **options))

    def events(self) -> EventStream:
        """Iterate over every notification that belongs to no call.

        Each stream has a buffer of its own, bounded by `Limits.notifications`: see
        `EventStream` for what may be dropped. It hears from now on, and ends with
        `close`, its own or the client's.
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
        """Subscribe to chosen notifications for as long as they are iterated over.

        ::

            with client.listen(["file:///a"], tools=True) as changes:
                print(changes.acknowledged)
                for notification in changes: ...

        Args:
            uris: Resources whose updates to hear of.
            tools: Whether to hear that the list of tools changed.
            prompts: Whether to hear that the list of prompts changed.
            resources: Whether to hear that the list of resources changed.
            task_ids: Tasks to hear of (with the tasks extension).
            options: As every request takes; they are those of the subscribing.

        Entering it, or the first step of iterating, raises what any request raises.
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
        """Iterate over what a resource holds: now, and again after each change.

        ::

            with client.watch("file:///a") as contents:
                for content in contents: ...

        Changes that come while one is being read are one with the next. A connection
        that was lost is opened again, and the resource read again.
        """
        return self._wrap(
            ResourceWatch, self._on_loop(lambda: self._inner.watch(uri, **options))
        )

    def subscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Have the server tell when a resource changes, until `unsubscribe`.

        The notifications come to `on_notification` and `events()`. Subscribing twice
        needs unsubscribing twice. A new connection after a loss is told of it again.

        Raises:
            LocalProtocolError: The server does not offer that, or not for this one.
        """
        self._run(self._inner.subscribe(uri, **options))

    @property
    def subscribed(self) -> frozenset[str]:
        """The resources of which somebody here wants to hear that they changed."""
        return self._inner.subscribed

    def unsubscribe(self, uri: str, **options: Unpack[CallOptions]) -> None:
        """Take one `subscribe` back.

        Raises:
            LocalProtocolError: There was none.
        """
        self._run(self._inner.unsubscribe(uri, **options))

    def set_log_level(
        self, level: types.LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Have the server send its log messages from a level on.

        In a session that is a request; at 2026-07-28 each later request carries the
        level. A new connection after a loss is told of it again.

        Args:
            level: ``debug``, ``info``, ``notice``, ``warning``, ``error``,
                ``critical``, ``alert`` or ``emergency``.
            options: As every request takes.

        Raises:
            LocalProtocolError: It is none of these, or the server does not log.
        """
        self._run(self._inner.set_log_level(level, **options))

    def cancel(self, request_id: RequestId | None, reason: str | None = None) -> None:
        """End one of our calls by its id on the wire, and tell the server.

        Whoever waits for it gets `CallCancelled`. Nothing is waited for, and nothing is
        sent where no call of that id is under way, nor for ``None``: an id that is not
        known is not made up. (2025-11-25 basic/utilities/cancellation; at 2026-07-28
        over HTTP the call's stream is closed, which says the same.)

        Args:
            request_id: Such as `PendingCall.request_id`.
            reason: For the server's log.
        """
        self._runner.post(self._inner.cancel, request_id, reason)

    def notify_roots_changed(self) -> None:
        """Tell the server that the roots changed; does nothing from 2026-07-28 on.

        A list given as `roots` is read anew whenever a server asks, so change that list
        and call this.

        Raises:
            LocalProtocolError: The client was made without roots.
            TransportError: The connection is gone.
        """
        self._run(self._inner.notify_roots_changed())
