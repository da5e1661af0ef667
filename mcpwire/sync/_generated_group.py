# Made by `python tests/sync/generate.py --write`: change the asyncio classes instead.
"""The blocking group of servers, and its tool set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.group.base import GroupBase
from mcpwire.sync._facade import ForwardingFacade, OwningFacade, StreamFacade
from mcpwire.sync._generated import Client
from mcpwire.tools.toolset import ReadOnlyToolSet
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, Unpack

    from mcpwire import types
    from mcpwire.client import CallOptions
    from mcpwire.group.backoff import Backoff
    from mcpwire.group.events import GroupEvents as AsyncGroupEvents
    from mcpwire.group.group import Group as AsyncGroup
    from mcpwire.group.member import ClientOptions, GroupOptions, OnError
    from mcpwire.group.reports import GroupEvent, Report
    from mcpwire.protocol.client_features import (
        Elicitation,
        FormHandler,
        Roots,
        Sampling,
        SamplingHandler,
    )
    from mcpwire.tools.options import Errors, ToolOptions
    from mcpwire.tools.toolset import ToolSet as AsyncToolSet
    from mcpwire.wire.jsonrpc import RequestId


class GroupEvents(StreamFacade):
    """Stream of all servers' notifications that belong to no call.

    At most `Limits.notifications` of each server are buffered: beyond that the oldest
    progress and log messages are dropped, and counted. Changes of a list or of a
    subscribed resource are never dropped: while such a notification is buffered, later
    ones about the same list or resource are merged with it. The notifications of one
    server keep their order.

    The stream starts when it is created, and ends when the group is closed.
    """

    _inner: AsyncGroupEvents

    @property
    def dropped(self) -> int:
        """The number of notifications lost because they were not read in time."""
        return self._inner.dropped

    def dropped_of(self, server: str) -> int:
        """Return how many notifications of one server were lost."""
        return self._inner.dropped_of(server)

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended and is read to the end."""
        return self._inner.is_closed

    def __next__(self) -> GroupEvent:
        return self._next_item(self._inner)

    def next(self, timeout: float | None = None) -> GroupEvent | None:
        """Wait for the next event, for at most `timeout` seconds, and return it.

        Returns ``None`` at the timeout, or at the end of the stream: see `is_closed`.
        Safe to interrupt: nothing is lost.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
        """
        return self._run(self._inner.next(timeout))

    def close(self) -> None:
        """End the stream and discard buffered notifications. Never raises."""
        self._run(self._inner.aclose())


class ToolSet(ForwardingFacade, ReadOnlyToolSet):
    """The tools of many servers: named, filtered, kept up to date, callable.

    ::

        tools = group.tools(confirm="mutating", approve=ask)
        for view in tools: ...
        result = tools.call("mcp__time__now", {"zone": "UTC"})

    `Group.tools` makes it and lists all tools once. After that, changed lists are
    fetched again; the old tools stay until a list is complete. All methods must be
    called on the event loop of the group.

    Args:
        group: The servers that have the tools.
        options: `ToolOptions`.

    Raises:
        ValueError: An option is out of range; the message names it.
    """

    _inner: AsyncToolSet

    def refresh(self, *servers: str) -> None:
        """List the tools of these servers, or of all servers, concurrently.

        Failures are in `problems`; the tools known before stay.

        Raises:
            NameCollision: Two tools would get the same name, if the policy is to raise.

        Ctrl-C ends the listings that no other caller waits for.
        """
        self._run(self._inner.refresh(*servers))

    def close(self) -> None:
        """Stop following changes, and cancel the running listings.

        The tools can still be called. It may be called twice.
        """
        self._run(self._inner.aclose())

    def accept(self, *patterns: str) -> None:
        """Accept the current tools in the lock, all or those that a pattern matches.

        A pattern is a glob for ``server/tool``. No file is written.

        Raises:
            LocalProtocolError: The set has no lock.
        """
        self._on_loop(lambda: self._inner.accept(*patterns))

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        confirmed: bool = False,
        errors: Errors | None = None,
        **options: Unpack[CallOptions],
    ) -> types.CallToolResult:
        """Call a tool by its name in the set; return its result, also a failed one.

        Args:
            name: The name of the tool.
            arguments: Its arguments, as one object.
            confirmed: Whether the call was confirmed. `approve` is called in any case.
            errors: ``"result"``: a JSON-RPC error becomes a result with `is_error`.
            options: The options of every request; `timeout` does not include the time
                of `approve`.

        Raises:
            UnknownTool: There is no such tool.
            NotAllowed: A rule hides it, or `approve` refused the call.
            NeedsConfirmation: The call needs confirmation first.
            LocalProtocolError: The arguments are not an object, or are not allowed.
                Nothing was sent; the same holds for the errors above.
            UnknownServer: The server has left the group.
            MCPError: Any error of `Client.call_tool`.

        Ctrl-C tells the server and raises `KeyboardInterrupt`.
        """
        return self._run(
            self._inner.call(
                name, arguments, confirmed=confirmed, errors=errors, **options
            )
        )


class Group(OwningFacade, ForwardingFacade, GroupBase[Client]):
    """Client of many servers, each with a name.

    ::

        with mcpwire.sync.Group({"time": "uvx mcp-server-time", "web": url}) as group:
            group.call_tool("time", "get_current_time", {"timezone": "UTC"})
            group["web"].list_resources()

    Any number of threads may share it. A request to one server waits for
    no other server; connecting and disconnecting wait for no call.

    Args:
        servers: Targets, or `Member`s, by name; the order is kept.
        concurrency: The number of servers that are being connected at once.
        on_error: The policy for failed servers: ``"raise"`` stops connecting all of
            them; ``"skip"`` omits the server; a function is called
            with its name and error, and returns to skip it or raises.
        start: ``"lazy"`` connects each server on its first use.
        idle: Seconds without use after which a lazy server is closed; the next use
            connects it again. After `group[name]` returned its client, it stays open.
        restart: The backoff of reconnecting in the background; without it a lost
            connection is opened by the next call, as `Recovery` allows.
        on_notification: A function called with each `GroupEvent`, in a thread.
        make_client: A factory of clients, called with name, target and options.
        background: Whether a thread of its own runs the event loop, also between calls,
            so that what the servers start is served at any time. `on_notification`,
            `keepalive`, `restart` and `idle` begin that thread by themselves.
        options: The options of every `Client`, such as `timeout` (30 seconds) and
            `connect_timeout` (60), and the options of `tools`.

    Raises:
        ValueError: An argument is out of its range; names it.
        TypeError: There is no such argument.
    """

    _inner: AsyncGroup

    def __init__(
        self,
        servers: Mapping[str, Any] | None = None,
        *,
        concurrency: int = 8,
        on_error: OnError = "raise",
        start: Literal["eager", "lazy"] = "eager",
        idle: float | None = None,
        restart: Backoff | None = None,
        on_notification: Callable[[GroupEvent], Any] | None = None,
        make_client: Callable[..., Client] | None = None,
        background: bool = False,
        **options: Unpack[GroupOptions],
    ) -> None:
        from mcpwire.group import Group as Inner

        self._create_inner(
            Inner,
            servers,
            concurrency=concurrency,
            on_error=on_error,
            start=start,
            idle=idle,
            restart=restart,
            on_notification=on_notification,
            make_client=make_client,
            **options,
            background=background,
        )

    def connect_all(self, servers: Mapping[str, Any] | None = None) -> Report:
        """Connect servers in parallel and return a report.

        Args:
            servers: Targets or `Member`s by name; omitted: all configured servers that
                are enabled and not connected.

        If `on_error` raises a failure, or after Ctrl-C, the other attempts
        are cancelled, and the servers that this call connected are closed again.

        Raises:
            LocalProtocolError: One of these names is connected already.
            Exception: A server could not be connected, and `on_error` is ``"raise"``
                (of several the first by order); or the error that `on_error` raised.
        """
        return self._run(self._inner.connect_all(servers))

    def connect(
        self,
        name: str,
        target: Any = None,
        *,
        replace: bool = False,
        **options: Unpack[ClientOptions],
    ) -> Client:
        """Connect one server and return its client, regardless of `on_error`.

        Args:
            name: The server's name in the group.
            target: A target or `Member`; omitted: the one configured for the name.
            replace: Whether to replace a connected server of that name: it leaves the
                group at once, and is closed before the new one is opened.
            options: Client options that override the group's.

        Concurrent calls for the same name, without a target, share the outcome.
        Ctrl-C cancels connecting, and closes the connection.

        Raises:
            LocalProtocolError: It is connected already, and `replace` is false.
            UnknownServer: No target was given, and none is configured.
            ConnectionClosed: It was disconnected while connecting.
            Exception: The errors of `Client.connect`.
        """
        return self._wrap(
            Client,
            self._run(self._inner.connect(name, target, replace=replace, **options)),
        )

    def client(self, name: str) -> Client:
        """Return a server's connected client; a lazy server is connected first.

        Raises the errors of `connect`.
        """
        return self._wrap(Client, self._run(self._inner.client(name)))

    def disconnect(self, name: str) -> None:
        """Close a server's connection; an unknown name is ignored.

        The server leaves the group at once, and its pending requests get
        `ConnectionClosed`. Closing continues after Ctrl-C. The same name
        can be connected again at any time, also without a target.

        Raises:
            RequestTimeout: Closing took too long; it continues in the background.
        """
        self._run(self._inner.disconnect(name))

    def disconnect_all(self) -> None:
        """Close every connection, in parallel, even if some fail.

        Raises:
            Exception: The first error of closing, by order of the servers; all of them
                are logged.
        """
        self._run(self._inner.disconnect_all())

    def close(self) -> None:
        """Close every connection, and end events and tool sets; bounded in time.

        Can be called from any thread, and repeatedly; the group can be connected again.
        Raises the errors of `disconnect_all`, after everything is closed.
        """
        self._close(self._inner.aclose)

    def tools(self, **options: Unpack[ToolOptions]) -> ToolSet:
        """List the tools of all servers and return them as one set.

        The options override the group's. Servers that cannot list their tools are in
        `ToolSet.problems`.

        Raises the errors of `ToolSet` and `ToolSet.refresh`.
        """
        return self._wrap(ToolSet, self._run(self._inner.tools(**options)))

    def call_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        **options: Unpack[CallOptions],
    ) -> types.CallToolResult:
        """Call a tool of a server, by its name on that server.

        Returns the server's complete result, also if the tool failed (`is_error`).
        """
        return self._run(
            self._inner.call_tool(
                server, tool, arguments, check=check, validate=validate, **options
            )
        )

    def list_tools(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[types.Tool]:
        """Return all tools of a server."""
        return self._run(self._inner.list_tools(server, **options))

    def read_resource(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> types.ReadResourceResult:
        """Read a resource of a server."""
        return self._run(self._inner.read_resource(server, uri, **options))

    def list_resources(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[types.Resource]:
        """Return all resources of a server."""
        return self._run(self._inner.list_resources(server, **options))

    def list_resource_templates(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[types.ResourceTemplate]:
        """Return all resource templates of a server."""
        return self._run(self._inner.list_resource_templates(server, **options))

    def subscribe(self, server: str, uri: str, **options: Unpack[CallOptions]) -> None:
        """Subscribe to changes of a resource, which events and the callback get.

        The subscription is renewed after a lost connection was opened again.
        """
        self._run(self._inner.subscribe(server, uri, **options))

    def unsubscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Revoke one `subscribe`."""
        self._run(self._inner.unsubscribe(server, uri, **options))

    def list_prompts(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[types.Prompt]:
        """Return all prompts of a server."""
        return self._run(self._inner.list_prompts(server, **options))

    def get_prompt(
        self,
        server: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> types.GetPromptResult:
        """Get a prompt of a server, with its arguments filled in."""
        return self._run(self._inner.get_prompt(server, name, arguments, **options))

    def complete(
        self,
        server: str,
        ref: types.PromptReference
        | types.ResourceTemplateReference
        | Mapping[str, Any],
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> types.CompleteResult:
        """Return completions of an argument of a prompt or resource template.

        `ref` may also be a mapping, in the JSON form of the protocol.
        """
        return self._run(
            self._inner.complete(
                server, ref, argument, value, context=context, **options
            )
        )

    def events(self) -> GroupEvents:
        """Return a stream of the servers' notifications from now until `close`."""
        return self._wrap(GroupEvents, self._on_loop(self._inner.events))

    @property
    def dropped(self) -> int:
        """The number of notifications lost because `on_notification` was too slow."""
        return self._inner.dropped

    def notify_roots_changed(self, server: str | None = None) -> None:
        """Notify a server, or each connected one, that the roots changed.

        Returns at once. An unknown server, or a failure to send, is logged.
        """
        self._on_loop(lambda: self._inner.notify_roots_changed(server))

    def cancel(
        self, server: str, request_id: RequestId | None, reason: str | None = None
    ) -> None:
        """Cancel a call on a server by its JSON-RPC id; see `Client.cancel`.

        Returns at once. ``None``, or an id of no pending call, sends nothing; an
        unknown server is logged.
        """
        self._runner.post(self._inner.cancel, server, request_id, reason)

    def ping(self, server: str, **options: Unpack[CallOptions]) -> float:
        """Send a ping; return the round-trip time in seconds."""
        return self._run(self._inner.ping(server, **options))

    def set_log_level(
        self, server: str, level: types.LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Set the minimum level of the log messages that a server sends.

        A lazy server is no longer closed when idle after this.
        """
        self._run(self._inner.set_log_level(server, level, **options))

    def client_of(self, name: str) -> Client:
        """Return a server's client for short use: it may be closed when idle."""
        return self._wrap(Client, self._inner.client_of(name))

    def set_handlers(
        self,
        name: str | None = None,
        *,
        sampling: SamplingHandler | Sampling | types.Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | types.Unset | None = UNSET,
        roots: Roots | types.Unset | None = UNSET,
    ) -> None:
        """Set the handlers of one server's requests; without `name` the default ones.

        Allowed at any time, also for an unknown name; takes effect at once. ``None``
        removes a handler; omitted ones stay. The declared capabilities follow as
        described in `Client.set_handlers`: in a session with the next handshake.

        Raises:
            ValueError: A handler has the wrong type; names it, changes nothing.
        """
        self._on_loop(
            lambda: self._inner.set_handlers(
                name, sampling=sampling, elicitation=elicitation, roots=roots
            )
        )
