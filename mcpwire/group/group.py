"""Group of named servers, connected in parallel, each in a task of its own.

No lock is held over an ``await``: the group's servers are one dict, which is updated at
once; slow operations run on a `ManagedServer`, which records whether it has left the
group (`is_closed`).

Each request method takes the server's name, then the arguments of the `Client` method
of the same name. Wrong arguments are refused before the server is looked up; each
failure is logged once, with the fields of `group.reports`, and raised. In addition to
the errors of `Client` these are raised:

    UnknownServer         no server has that name; `NotConnected` if it is configured
    LocalProtocolError    the arguments have the wrong shape
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from weakref import WeakSet

import attrs

from mcpwire.client.client import Client
from mcpwire.client.requests import as_object
from mcpwire.errors import (
    ConnectionClosed,
    GroupError,
    LocalProtocolError,
    MCPError,
    ToolError,
    UnknownServer,
)
from mcpwire.group.base import GroupBase, already_connected, as_reference, make_report
from mcpwire.group.events import GroupBuffer, GroupEvents, parse_event
from mcpwire.group.managed_server import (
    CLOSE_TIMEOUT_S,
    ManagedServer,
    retrieve_exception,
)
from mcpwire.group.member import Member
from mcpwire.group.reports import log_fields, log_server_message, logger, warn
from mcpwire.limits import DEFAULT_LIMITS, check_timeout
from mcpwire.protocol.deadline import Deadline
from mcpwire.transports.handlers import Delivery, invoke
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from mcpwire.client import CallOptions
    from mcpwire.group.backoff import Backoff
    from mcpwire.group.member import ClientOptions, GroupOptions, OnError
    from mcpwire.group.reports import GroupEvent, Report
    from mcpwire.tools import ToolSet
    from mcpwire.tools.options import ToolOptions
    from mcpwire.types import (
        CallToolResult,
        CompleteResult,
        GetPromptResult,
        LoggingLevel,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        Tool,
    )
    from mcpwire.wire.jsonrpc import RequestId


T = TypeVar("T")

CALLBACK_END_S: Final = 2.0
"""The time limit, in seconds, for a cancelled callback to end."""


class Group(GroupBase[Client]):
    """Client of many servers, each with a name.

    ::

        async with mcpwire.Group({"time": "uvx mcp-server-time", "web": url}) as group:
            await group.call_tool("time", "get_current_time", {"timezone": "UTC"})
            await group["web"].list_resources()

    A group is used on one event loop, from any task. A request to one server waits for
    no other server; connecting and disconnecting wait for no call.

    Args:
        servers: Targets, or `Member`s, by name; the order is kept.
        concurrency: The number of servers that are being connected at once.
        on_error: The policy for failed servers: ``"raise"`` stops connecting all of
            them; ``"skip"`` omits the server; a function, plain or async, is called
            with its name and error, and returns to skip it or raises.
        start: ``"lazy"`` connects each server on its first use.
        idle: Seconds without use after which a lazy server is closed; the next use
            connects it again. After `group[name]` returned its client, it stays open.
        restart: The backoff of reconnecting in the background; without it a lost
            connection is opened by the next call, as `Recovery` allows.
        on_notification: A function, plain or async, called with each `GroupEvent`.
        make_client: A factory of clients, called with name, target and options.
        options: The options of every `Client`, such as `timeout` (30 seconds) and
            `connect_timeout` (60), and the options of `tools`.

    Raises:
        ValueError: An argument is out of its range; names it.
        TypeError: There is no such argument.
    """

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
        **options: Unpack[GroupOptions],
    ) -> None:
        super().__init__(
            servers or {},
            options,
            concurrency=concurrency,
            on_error=on_error,
            start=start,
            idle=idle,
            restart=restart,
            make_client=make_client,
        )
        self.tool_sets: WeakSet[ToolSet] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Limits how many servers are being connected at once.
        self.slots = asyncio.Semaphore(concurrency)
        self._background: set[asyncio.Task[Any]] = set()
        self.streams: WeakSet[GroupEvents] = WeakSet()
        self._on_notification = on_notification
        self._delivery: Delivery | None = None
        if on_notification is not None:
            self._delivery = Delivery(self._call_callback, self.new_buffer())
        self._add_lazy_servers()

    # Lifetime

    async def __aenter__(self) -> Self:
        if self._is_lazy:
            self._check_loop()
            self._add_lazy_servers()
        else:
            await self.connect_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.aclose()
        except Exception as error:
            if exc is None:
                raise
            warn("closing", None, error)  # the body's own exception is raised

    # Connecting

    async def connect_all(self, servers: Mapping[str, Any] | None = None) -> Report:
        """Connect servers in parallel and return a report.

        Args:
            servers: Targets or `Member`s by name; omitted: all configured servers that
                are enabled and not connected.

        If `on_error` raises a failure, or the caller is cancelled, the other attempts
        are cancelled, and the servers that this call connected are closed again.

        Raises:
            LocalProtocolError: One of these names is connected already.
            Exception: A server could not be connected, and `on_error` is ``"raise"``
                (of several the first by order); or the error that `on_error` raised.
        """
        self._check_loop()
        if servers is not None:
            for name in servers:
                self._check_can_connect(name)
            self._add_members(servers)
        entries = [
            self._entry_to_connect(name, is_target_new=servers is not None)
            for name in tuple(self._members if servers is None else servers)
            if self._members[name].enabled and not self._is_ready(name)
        ]
        failed: dict[str, Exception] = {}
        connected: list[ManagedServer] = []
        loop = asyncio.get_running_loop()
        attempts = {
            entry.name: loop.create_task(
                self._attempt_connect(entry, failed, connected),
                name="mcpwire-group-attempt",
            )
            for entry in entries
        }
        try:
            await self._wait_for_all(attempts)
        except BaseException:
            await self._close_connected(connected)
            raise
        finally:
            self._report = make_report(attempts, failed, self._entries)
        return self._report

    async def connect(
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
        Cancelling the last of them cancels connecting, and closes the connection.

        Raises:
            LocalProtocolError: It is connected already, and `replace` is false.
            UnknownServer: No target was given, and none is configured.
            ConnectionClosed: It was disconnected while connecting.
            Exception: The errors of `Client.connect`.
        """
        self._check_loop()
        if target is None and not options and not replace:
            entry = self._entries.get(name)
            if entry is not None and (entry.is_connecting or entry.has_connected):
                if not entry.is_connecting and entry.state == "ready":
                    raise already_connected(name)
                await self._connect_server(entry)
                return entry.client
        if not replace:
            self._check_can_connect(name)
        if target is None:
            member = self._members.get(name)
            if member is None:
                raise UnknownServer(name, known=self._members)
        else:
            member = Member.of(target)
        is_new = name not in self._members
        self._add_members({name: attrs.evolve(member, **options)})
        entry = self._add_server(name)
        entry.is_new = is_new
        await self._connect_server(entry)
        return entry.client

    async def client(self, name: str) -> Client:
        """Return a server's connected client; a lazy server is connected first.

        Raises the errors of `connect`.
        """
        entry = self._entry(name)
        if not entry.has_connected:
            await self._connect_server(entry)
        entry.is_pinned = True
        return entry.client

    async def disconnect(self, name: str) -> None:
        """Close a server's connection; an unknown name is ignored.

        The server leaves the group at once, and its pending requests get
        `ConnectionClosed`. Closing continues if the caller is cancelled. The same name
        can be connected again at any time, also without a target.

        Raises:
            RequestTimeout: Closing took too long; it continues in the background.
        """
        entry = self._entries.get(name)
        if entry is not None:
            await self._disconnect([entry])

    async def disconnect_all(self) -> None:
        """Close every connection, in parallel, even if some fail.

        Raises:
            Exception: The first error of closing, by order of the servers; all of them
                are logged.
        """
        entries = list(self._entries.values())
        if entries:
            await self._disconnect(entries)

    async def _disconnect(self, entries: Sequence[ManagedServer]) -> None:
        """Remove servers, and close them in parallel; raise the first error."""
        self._check_loop()
        for entry in entries:
            self._remove_server(entry)
        closing = [self._spawn(entry.close(), "disconnect") for entry in entries]
        await asyncio.wait(closing)
        first: BaseException | None = None
        for entry, task in zip(entries, closing, strict=True):
            error = None if task.cancelled() else task.exception()
            if error is not None:
                warn("disconnecting", entry.name, error)
                first = first or error
        if first is not None:
            raise first

    async def aclose(self) -> None:
        """Close every connection, and end events and tool sets; bounded in time.

        Can be called from any task, and repeatedly; the group can be connected again.
        Raises the errors of `disconnect_all`, after everything is closed.
        """
        self.notify_tool_sets(None)
        try:
            await self.disconnect_all()
        finally:
            for stream in tuple(self.streams):
                stream.end()
            callback = None if self._delivery is None else self._delivery.close()
            if callback is not None:
                await asyncio.wait([callback], timeout=CALLBACK_END_S)
            current = asyncio.current_task()
            pending = [task for task in self._background if task is not current]
            if pending:
                await asyncio.wait(pending, timeout=CLOSE_TIMEOUT_S)
            if not self._entries:
                self._loop = None

    # Tools

    async def tools(self, **options: Unpack[ToolOptions]) -> ToolSet:
        """List the tools of all servers and return them as one set.

        The options override the group's. Servers that cannot list their tools are in
        `ToolSet.problems`.

        Raises the errors of `ToolSet` and `ToolSet.refresh`.
        """
        from mcpwire.tools import ToolSet

        self._check_loop()
        merged: Any = {**self._tool_options, **options}
        tools = ToolSet(self, **merged)
        await tools.refresh()
        return tools

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        **options: Unpack[CallOptions],
    ) -> CallToolResult:
        """Call a tool of a server, by its name on that server.

        Returns the server's complete result, also if the tool failed (`is_error`).
        """
        given = None if arguments is None else as_object(arguments)
        call_options = {**options, "check": check, "validate": validate}
        call: Coroutine[Any, Any, CallToolResult] = self._request(
            server, "call_tool", (tool, given), call_options, tool=tool
        )
        if logger.isEnabledFor(logging.DEBUG):
            call = _log_call(call, server, tool)
        return await call

    async def list_tools(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Tool]:
        """Return all tools of a server."""
        return await self._request(server, "list_tools", (), options)

    # Resources

    async def read_resource(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> ReadResourceResult:
        """Read a resource of a server."""
        return await self._request(server, "read_resource", (uri,), options, uri=uri)

    async def list_resources(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Resource]:
        """Return all resources of a server."""
        return await self._request(server, "list_resources", (), options)

    async def list_resource_templates(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[ResourceTemplate]:
        """Return all resource templates of a server."""
        return await self._request(server, "list_resource_templates", (), options)

    async def subscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Subscribe to changes of a resource, which events and the callback get.

        The subscription is renewed after a lost connection was opened again.
        """
        await self._request(server, "subscribe", (uri,), options, uri=uri)

    async def unsubscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Revoke one `subscribe`."""
        await self._request(server, "unsubscribe", (uri,), options, uri=uri)

    # Prompts and completion

    async def list_prompts(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Prompt]:
        """Return all prompts of a server."""
        return await self._request(server, "list_prompts", (), options)

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> GetPromptResult:
        """Get a prompt of a server, with its arguments filled in."""
        given = None if arguments is None else as_object(arguments)
        return await self._request(server, "get_prompt", (name, given), options)

    async def complete(
        self,
        server: str,
        ref: PromptReference | ResourceTemplateReference | Mapping[str, Any],
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompleteResult:
        """Return completions of an argument of a prompt or resource template.

        `ref` may also be a mapping, in the JSON form of the protocol.
        """
        args = (as_reference(ref), argument, value)
        call_options = {**options, "context": context}
        return await self._request(server, "complete", args, call_options)

    # Notifications

    def events(self) -> GroupEvents:
        """Return a stream of the servers' notifications from now until `aclose`."""
        return GroupEvents(self)

    @property
    def dropped(self) -> int:
        """The number of notifications lost because `on_notification` was too slow."""
        return 0 if self._delivery is None else self._delivery.dropped

    def notify_roots_changed(self, server: str | None = None) -> None:
        """Notify a server, or each connected one, that the roots changed.

        Returns at once. An unknown server, or a failure to send, is logged.
        """
        ready = [name for name in self if self.client_of(name).is_connected]
        for name in ready if server is None else (server,):
            try:
                client = self.client_of(name)
            except MCPError as error:
                warn("the notification of changed roots", name, error)
            else:
                self._spawn(self._notify_roots(name, client), "roots")

    def cancel(
        self, server: str, request_id: RequestId | None, reason: str | None = None
    ) -> None:
        """Cancel a call on a server by its JSON-RPC id; see `Client.cancel`.

        Returns at once. ``None``, or an id of no pending call, sends nothing; an
        unknown server is logged.
        """
        try:
            self.client_of(server).cancel(request_id, reason)
        except MCPError as error:
            warn("cancelling", server, error)

    # Other requests

    async def ping(self, server: str, **options: Unpack[CallOptions]) -> float:
        """Send a ping; return the round-trip time in seconds."""
        return await self._request(server, "ping", (), options)

    async def set_log_level(
        self, server: str, level: LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Set the minimum level of the log messages that a server sends.

        A lazy server is no longer closed when idle after this.
        """
        await self._request(server, "set_log_level", (level,), options)

    # Requests

    async def _request(
        self,
        server: str,
        operation: str,
        args: tuple[Any, ...],
        options: Mapping[str, Any],
        **details: str,
    ) -> T:
        """Call a method of a server's client, which returns a `T` (not checked)."""
        try:
            entry = self._entry(server)
        except MCPError as error:
            warn(operation, server, error, **details)
            raise
        entry.begin()
        answered = False
        try:
            if not entry.has_connected:
                options = await self._connect_for_call(entry, operation, options)
            result: T = await getattr(entry.client, operation)(*args, **options)
            answered = True
            entry.is_logging = entry.is_logging or operation == "set_log_level"
        except (asyncio.CancelledError, ToolError):
            raise  # not a failure: a cancelled caller, or a result under `check`
        except Exception as error:
            reported = error
            if entry.is_closed and isinstance(error, LocalProtocolError):
                # Its client reports that it is not connected: not the caller's mistake.
                text = f"the server {server!r} was disconnected"
                reported = ConnectionClosed(text, sent=False)
            warn(operation, server, reported, **details)
            if reported is error:
                raise
            raise reported from error
        finally:
            entry.end(answered=answered)
        return result

    async def _connect_for_call(
        self, entry: ManagedServer, operation: str, options: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Connect a server for a call; return the options with the remaining time."""
        timeout = options.get("timeout", UNSET)
        if timeout is UNSET:
            timeout = entry.member.timeout
        if timeout is UNSET:
            timeout = self._client_options["timeout"]
        deadline = Deadline(monotonic(), check_timeout(timeout))
        try:
            async with asyncio.timeout(deadline.timeout) as scope:
                await entry.connect()
        except TimeoutError as error:
            if isinstance(error, MCPError) or not scope.expired():
                raise
            detail = "the server was being connected"
            raise deadline.error(operation, monotonic(), detail) from None
        left = deadline.remaining(monotonic())
        return options if left is None else {**options, "timeout": max(left, 0.001)}

    async def _notify_roots(self, server: str, client: Client) -> None:
        try:
            await client.notify_roots_changed()
        except Exception as error:  # noqa: BLE001 - no caller to raise it to
            warn("the notification of changed roots", server, error)

    # Connecting, internal

    async def _attempt_connect(
        self,
        entry: ManagedServer,
        failed: dict[str, Exception],
        connected: list[ManagedServer],
    ) -> None:
        """Connect one server in its turn; raise an error only if `on_error` does."""
        try:
            async with self.slots:
                await entry.connect()
        except asyncio.CancelledError:
            if entry.is_unclaimed:  # connected before the cancellation arrived
                connected.append(entry)
            raise
        except Exception as error:
            error.add_note(f"connecting the server {entry.name!r} of a group")
            failed[entry.name] = error
            warn("connecting", entry.name, error)
            if entry.is_closed:  # disconnected on purpose while connecting
                return
            if self._on_error == "raise":
                raise
            if callable(self._on_error):
                result = invoke(self._on_error, entry.name, error)
                if inspect.isawaitable(result):
                    await result
        else:
            connected.append(entry)

    async def _wait_for_all(self, attempts: Mapping[str, asyncio.Task[None]]) -> None:
        """Wait for all attempts, or for the first error; cancel those still running."""
        if not attempts:
            return
        tasks = tuple(attempts.values())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            running = [task for task in tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await _wait_until_done(running)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _close_connected(self, connected: list[ManagedServer]) -> None:
        """Close the servers that no other caller has connected as well."""
        unused = [
            entry for entry in connected if entry.release() and not entry.is_closed
        ]
        for entry in unused:
            self._remove_server(entry)
        if unused:
            closing = [self._spawn(entry.close_quietly(), "undo") for entry in unused]
            await _wait_until_done(closing)

    async def _connect_server(self, entry: ManagedServer) -> None:
        try:
            await entry.connect()
        except asyncio.CancelledError:
            if entry.is_unclaimed and not entry.is_lazy:
                await self._close_connected([entry])
            elif not (entry.is_connecting or entry.is_in_group or entry.is_closed):
                self._remove_server(entry)  # no caller waits for it any more
            if entry.is_new and entry.name not in self._entries:
                self._members.pop(entry.name, None)
            raise
        except Exception as error:
            warn("connecting", entry.name, error)
            raise

    # Servers and their notifications

    def deliver(
        self, server: str, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Deliver a notification to every consumer; never waits, never raises."""
        for stream in tuple(self.streams):
            stream.put(server, method, params, size)
        if self._delivery is not None:
            self._delivery.put(server, method, params, size)
        elif method == "notifications/message" and not self.streams:
            log_server_message(server, params or {})
        if method == "notifications/tools/list_changed":
            self.notify_tool_sets(server)

    def _call_callback(
        self, server: str, method: str, params: dict[str, Any] | None, _: int = 0
    ) -> Any:
        assert self._on_notification is not None
        event = parse_event(server, method, params)
        return None if event is None else self._on_notification(event)

    def new_buffer(self) -> GroupBuffer:
        """Create the buffer of a consumer of notifications."""
        return GroupBuffer(
            self._limits.notifications,
            max_bytes=self._limits.message,
            is_subscribed=self._is_subscribed,
        )

    def notify_tool_sets(self, server: str | None) -> None:
        """Report that a server's tools may have changed; ``None``: group closed."""
        for tools in tuple(self.tool_sets):
            tools.handle_change(server)

    async def fetch_tools(self, server: str) -> list[Tool]:
        """Return a server's tools for a set; none if it did not declare any."""
        try:
            entry = self._entry(server)
            if not entry.has_connected:
                async with self.slots:
                    entry = self._entry(server)  # it may have been replaced since
                    if not entry.has_connected:
                        await self._connect_server(entry)
            capabilities = entry.client.capabilities
            if capabilities is not None and capabilities.tools is None:
                return []
            return await self.list_tools(server)
        except MCPError:
            raise
        except Exception as error:
            raise GroupError(f"{type(error).__name__}: {error}") from error

    def _add_lazy_servers(self) -> None:
        """Add an entry for every enabled server, if servers are connected lazily."""
        if self._is_lazy:
            for name, member in self._members.items():
                if member.enabled and name not in self._entries:
                    self._add_server(name)

    def _add_server(self, name: str) -> ManagedServer:
        """Add a server to the group; it replaces one of the same name."""
        member = self._members[name]
        options: dict[str, Any] = {
            **self._client_options,
            **member.client_options(),
            **self._handlers_for(name),
        }
        limits = options.get("limits", DEFAULT_LIMITS)
        make_client: Any = self._make_client or _default_client
        entry = ManagedServer(
            self,
            name,
            member,
            partial(make_client, name, member.target, **options),
            is_lazy=self._is_lazy,
            close_timeout=CLOSE_TIMEOUT_S + limits.close_grace + limits.terminate_grace,
        )
        old = self._entries.get(name)
        if old is not None:
            old.leave()
            entry.closing_replaced = self._spawn(old.close_quietly(), "replace")
        self._entries[name] = entry
        return entry

    def _entry_to_connect(self, name: str, *, is_target_new: bool) -> ManagedServer:
        """Return a server's entry; a new one if the target is new, or it has failed."""
        entry = None if is_target_new else self._entries.get(name)
        has_failed = entry is not None and entry.state in {"failed", "needs_auth"}
        if entry is None or (has_failed and not entry.has_connected):
            return self._add_server(name)
        return entry

    def _remove_server(self, entry: ManagedServer) -> None:
        """Remove a server from the group at once."""
        del self._entries[entry.name]
        self._left_at[entry.name] = monotonic()
        entry.leave()
        self.notify_tool_sets(entry.name)

    def _entry(self, server: str) -> ManagedServer:
        entry = self._entries.get(server)
        if entry is None or not (entry.is_in_group or entry.is_connecting):
            raise self._not_connected_error(server)
        if self._loop is None:
            self._check_loop()
        return entry

    def _spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = loop.create_task(coro, name=f"mcpwire-group-{name}")
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(retrieve_exception)
        return task

    def _check_loop(self) -> None:
        """Check that this event loop is the group's; bind an unbound group to it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise LocalProtocolError(
                "mcpwire.Group needs a running asyncio loop; "
                "without one use mcpwire.sync.Group"
            ) from None
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise LocalProtocolError(
                "this group belongs to another event loop; use it where it was "
                "connected, or close it there first"
            )
        if self._loop is not None:  # its loop was closed before the group
            for entry in self._entries.values():
                entry.forget_loop()
            self._background.clear()
        self._loop = loop
        self.slots = asyncio.Semaphore(self._concurrency)


async def _wait_until_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until these tasks have ended, even if the caller is cancelled."""
    waiting = [task for task in tasks if not task.done()]
    while waiting:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(waiting)
        waiting = [task for task in waiting if not task.done()]


async def _log_call(
    call: Coroutine[Any, Any, CallToolResult], server: str, tool: str
) -> CallToolResult:
    """Await a call and log its begin and its outcome."""
    details: dict[str, Any] = {"tool": tool, "component": "mcp"}
    logger.debug(
        "calling %r of server %r",
        tool,
        server,
        extra=log_fields(server, event="mcp_call", **details),
    )
    ok = False
    try:
        result = await call
        ok = not result.is_error
    finally:
        logger.debug(
            "%r of server %r: %s",
            tool,
            server,
            "ok" if ok else "failed",
            extra=log_fields(server, event="mcp_result", ok=ok, **details),
        )
    return result


def _default_client(_: str, target: Any, **options: Any) -> Client:
    return Client(target, **options)
