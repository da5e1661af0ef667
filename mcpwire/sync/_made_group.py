# Made by `python tests/sync/generate.py --write`: change the asyncio classes instead.
"""The blocking group of servers, and its tool set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.group.base import GroupBase
from mcpwire.sync._facade import Owner, Reader, Stream
from mcpwire.sync._made import Client
from mcpwire.tools.toolset import Reading
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

__all__ = ["Group", "GroupEvents", "ToolSet"]


class GroupEvents(Stream):
    """Every notification of every server that belongs to no call, as it comes.

    Of each server `Limits.notifications` wait at most: beyond them progress and log
    messages that were not taken yet are dropped, the oldest first, and counted. That a
    list or a resource that was subscribed to changed is never dropped: while one such
    notification waits, further ones about the same are one with it. What one server
    said comes in its order.

    It hears from being made, and ends when the group is closed.
    """

    _inner: AsyncGroupEvents

    @property
    def dropped(self) -> int:
        """Notifications lost because they were not taken in time."""
        return self._inner.dropped

    def dropped_of(self, server: str) -> int:
        """Return how many of one server's were."""
        return self._inner.dropped_of(server)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will come."""
        return self._inner.is_closed

    def __next__(self) -> GroupEvent:
        return self._take(self._inner)

    def next(self, timeout: float | None = None) -> GroupEvent | None:
        """Return the next event, waiting so many seconds for it.

        Returns ``None`` when the time is over, or the stream: `is_closed` tells. Safe
        to interrupt: nothing is lost.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
        """
        return self._run(self._inner.next(timeout))

    def close(self) -> None:
        """Hear no more, and forget what waits. Never raises."""
        self._run(self._inner.aclose())


class ToolSet(Reader, Reading):
    """The tools of many servers: named, filtered, kept up to date, callable.

    ::

        tools = group.tools(confirm="mutating", approve=ask)
        for view in tools: ...
        result = tools.call("mcp__time__now", {"zone": "UTC"})

    `Group.tools` makes it and lists all tools once. After that, changed lists are
    fetched again; the old tools stay until a list is complete. All methods must be
    called on the event loop of the group.

    Args:
        source: The servers that have the tools.
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

        Cancelling it ends the listings that no other caller waits for.
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

        Cancelling the task sends a cancellation to the server and returns at once.
        """
        return self._run(
            self._inner.call(
                name, arguments, confirmed=confirmed, errors=errors, **options
            )
        )


class Group(Owner, Reader, GroupBase[Client]):
    """Many servers by name, as one.

    ::

        with mcpwire.sync.Group({"time": "uvx mcp-server-time", "web": url}) as group:
            group.call_tool("time", "get_current_time", {"timezone": "UTC"})
            group["web"].list_resources()

    Any number of threads may share it. What is asked of one server
    waits for no other; connecting and disconnecting waits for no call.

    Args:
        servers: Targets, or `Member`s, by name; the order is kept.
        concurrency: How many servers are being connected at once.
        on_error: What a server does that cannot be connected: ``"raise"`` ends the
            connecting of all; ``"skip"`` leaves it out; a function is
            called with its name and error, and returns to skip it or raises.
        start: ``"lazy"`` connects each server with its first use.
        idle: Seconds after which a lazy server is closed that nobody uses; the next use
            connects it again. One that gave its client away (`group[name]`) stays open.
        restart: How a lost connection is opened again without anybody asking; without
            it the next call does, as `Recovery` allows.
        on_notification: Called with each `GroupEvent`, in a thread.
        make_client: Makes the clients: called with name, target and options.
        background: Whether a thread of its own runs the event loop, also between calls,
            so that what the servers start is served at any time. `on_notification`,
            `keepalive`, `restart` and `idle` begin that thread by themselves.
        options: Those of every `Client`, such as `timeout` (30 seconds) and
            `connect_timeout` (60), and those of `tools`.

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

        self._adopt(
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
        """Connect servers in parallel, and say what came of it.

        Args:
            servers: Targets or `Member`s by name; omitted: all that are known, enabled
                and not connected.

        Where `on_error` has it that a failure is raised, that ends it all: what this
        call had connected is closed again. So it is after Ctrl-C.

        Raises:
            LocalProtocolError: One of these names is connected already.
            Exception: A server could not be connected, and `on_error` is ``"raise"``
                (of several at once the first by order), or what it raised.
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
        """Connect one server and return its client; `on_error` has no say.

        Args:
            name: What it is called in the group.
            target: A target or `Member`; omitted: the one that the name is known for.
            replace: Whether a server that is connected by that name makes room: it
                leaves the group at once, and is closed before the new one is opened.
            options: Of the client, otherwise than the group's.

        Calls for the same name at the same time, without a target, share the outcome.
        Ctrl-C undoes what had begun.

        Raises:
            LocalProtocolError: It is connected already, and is not to be replaced.
            UnknownServer: There is no target, and none is known.
            ConnectionClosed: It was disconnected meanwhile.
            Exception: What `Client.connect` raises.
        """
        return self._wrap(
            Client,
            self._run(self._inner.connect(name, target, replace=replace, **options)),
        )

    def client(self, name: str) -> Client:
        """Return a server's client, connected: a lazy one is connected first.

        Raises what `connect` does.
        """
        return self._wrap(Client, self._run(self._inner.client(name)))

    def disconnect(self, name: str) -> None:
        """Close a server's connection; a name that is unknown is fine.

        It leaves the group at once, and what waits for it gets `ConnectionClosed`.
        Ctrl-C leaves the closing under way. The same name can be connected
        again at any time, also without a target.

        Raises:
            RequestTimeout: Closing took too long; what is left goes on by itself.
        """
        self._run(self._inner.disconnect(name))

    def disconnect_all(self) -> None:
        """Close every connection, in parallel; all are tried.

        Raises:
            Exception: The first that could not be closed (by order of the servers);
                the others are logged.
        """
        self._run(self._inner.disconnect_all())

    def close(self) -> None:
        """Close every connection, and end events and tool sets; bounded in time.

        Works from any thread, twice, and can be connected again. Raises what
        `disconnect_all` does, after all is closed.
        """
        self._close(self._inner.aclose)

    def tools(self, **options: Unpack[ToolOptions]) -> ToolSet:
        """List the tools of all servers and return them as one set.

        The options are added to those the group was given. Servers that cannot
        list their tools are in `ToolSet.problems`.

        Raises what `ToolSet` and `ToolSet.refresh` do.
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
        """Call a tool of a server, by the name the server gave it.

        The result is the server's whole one, also where it says that the tool failed.
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
        """Have a server tell when a resource changes; events and callback hear it.

        A new connection after a loss is told of it again.
        """
        self._run(self._inner.subscribe(server, uri, **options))

    def unsubscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Take one `subscribe` back."""
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
        """Get a prompt of a server, filled in."""
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
        """Ask a server how an argument of a prompt or template could go on.

        `ref` may also be a mapping, as the wire has it.
        """
        return self._run(
            self._inner.complete(
                server, ref, argument, value, context=context, **options
            )
        )

    def events(self) -> GroupEvents:
        """Iterate over what the servers tell, from now on, until `close`."""
        return self._wrap(GroupEvents, self._on_loop(self._inner.events))

    @property
    def dropped(self) -> int:
        """Notifications that `on_notification` was too slow for."""
        return self._inner.dropped

    def notify_roots_changed(self, server: str | None = None) -> None:
        """Tell a server, or each that is connected, that the roots changed.

        Waits for nothing. A server that is unknown, or cannot be told, is logged.
        """
        self._on_loop(lambda: self._inner.notify_roots_changed(server))

    def cancel(
        self, server: str, request_id: RequestId | None, reason: str | None = None
    ) -> None:
        """End a call on a server by its id on the wire; see `Client.cancel`.

        Waits for nothing. ``None``, and an id of no call, send nothing; an unknown
        server is logged.
        """
        self._runner.post(self._inner.cancel, server, request_id, reason)

    def ping(self, server: str, **options: Unpack[CallOptions]) -> float:
        """Ask a server for a sign of life; return the seconds it took."""
        return self._run(self._inner.ping(server, **options))

    def set_log_level(
        self, server: str, level: types.LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Have a server send its log messages from a level on.

        One that is lazy is not closed for being idle from then on.
        """
        self._run(self._inner.set_log_level(server, level, **options))

    def client_of(self, name: str) -> Client:
        """Return a server's client, for a moment: it may be closed when it is idle."""
        return self._wrap(Client, self._inner.client_of(name))

    def set_handlers(
        self,
        name: str | None = None,
        *,
        sampling: SamplingHandler | Sampling | types.Unset | None = UNSET,
        elicitation: FormHandler | Elicitation | types.Unset | None = UNSET,
        roots: Roots | types.Unset | None = UNSET,
    ) -> None:
        """Have others answer what a server asks, or all that have none of their own.

        At any time, also for a name that is not known yet; it takes effect at once.
        ``None`` takes a handler away, what is left out stays. What is declared follows
        as `Client.set_handlers` says: in a session with the next handshake.

        Raises:
            ValueError: One of them is nothing of the kind; names it, changes nothing.
        """
        self._on_loop(
            lambda: self._inner.set_handlers(
                name, sampling=sampling, elicitation=elicitation, roots=roots
            )
        )
