"""Many named servers at once: connected in parallel, each in a task of its own.

Nothing is locked over an ``await``: the servers of the group are one dict, changed at
once, and what takes time is done to a `ManagedServer`, which knows whether it has left
meanwhile.

Each request takes the server's name first, and then what `Client`'s method of the same
name takes. Wrong arguments are refused before the server is looked for; each failure is
logged once, with the fields of `group.reports`, and raised. Beside what `Client` raises
there are:

    UnknownServer         no server has that name; `NotConnected` where it is known
    LocalProtocolError    the arguments have the wrong shape
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import attrs

from mcpwire.client.client import Client
from mcpwire.client.requests import as_object
from mcpwire.errors import (
    ConnectionClosed,
    GroupError,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    ToolError,
    UnknownServer,
)
from mcpwire.group.base import GroupBase, as_reference, report_of, taken_already
from mcpwire.group.events import EventBus, GroupEvents
from mcpwire.group.managed_server import CLOSE_S, ManagedServer
from mcpwire.group.member import Member
from mcpwire.group.reports import fields, logger, warn
from mcpwire.limits import DEFAULT_LIMITS, check_timeout
from mcpwire.transports.base import wait_shared
from mcpwire.transports.handlers import invoke
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from mcpwire.client import CallOptions
    from mcpwire.group.backoff import Backoff
    from mcpwire.group.member import ClientOptions, GroupOptions, OnError
    from mcpwire.group.reports import GroupEvent, Report
    from mcpwire.tools import ToolSet
    from mcpwire.tools.options import ToolOptions
    from mcpwire.tools.toolset import OnChange
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


__all__ = [
    "Group",
    "GroupSource",
]


class Group(GroupBase[Client]):
    """Many servers by name, as one.

    ::

        async with mcpwire.Group({"time": "uvx mcp-server-time", "web": url}) as group:
            await group.call_tool("time", "get_current_time", {"timezone": "UTC"})
            await group["web"].list_resources()

    It is made and used on one event loop, from any task. What is asked of one server
    waits for no other; connecting and disconnecting waits for no call.

    Args:
        servers: Targets, or `Member`s, by name; the order is kept.
        concurrency: How many servers are being connected at once.
        on_error: What a server does that cannot be connected: ``"raise"`` ends the
            connecting of all; ``"skip"`` leaves it out; a function, plain or async, is
            called with its name and error, and returns to skip it or raises.
        start: ``"lazy"`` connects each server with its first use.
        idle: Seconds after which a lazy server is closed that nobody uses; the next use
            connects it again. One that gave its client away (`group[name]`) stays open.
        restart: How a lost connection is opened again without anybody asking; without
            it the next call does, as `Recovery` allows.
        on_notification: Called with each `GroupEvent`, plain or async.
        make_client: Makes the clients: called with name, target and options.
        options: Those of every `Client`, such as `timeout` (30 seconds) and
            `connect_timeout` (60), and those of `tools`.

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
        self.source = GroupSource(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self._bus = EventBus(self._limits, self._is_kept, on_notification)
        self._add_lazy_servers()

    # Lifetime...

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
            warn("closing", None, error)  # what ended the body is raised

    # Connecting...

    async def connect_all(self, servers: Mapping[str, Any] | None = None) -> Report:
        """Connect servers in parallel, and say what came of it.

        Args:
            servers: Targets or `Member`s by name; omitted: all that are known, enabled
                and not connected.

        Where `on_error` has it that a failure is raised, that ends it all: what this
        call had connected is closed again. So it is where the caller is cancelled.

        Raises:
            LocalProtocolError: One of these names is connected already.
            Exception: A server could not be connected, and `on_error` is ``"raise"``
                (of several at once the first by order), or what it raised.
        """
        self._check_loop()
        if servers is not None:
            for name in servers:
                self._check_free(name)
            self._know(servers)
        names = tuple(self._known if servers is None else servers)
        # A server that is in the group stays, but not with another target.
        entries = [
            (servers is None and self._entries.get(name)) or self._add_server(name)
            for name in names
            if self._known[name].enabled and not self._is_ready(name)
        ]
        failed: dict[str, Exception] = {}
        taken: list[ManagedServer] = []
        loop = asyncio.get_running_loop()
        attempts = {
            entry.name: loop.create_task(
                self._attempt(entry, failed, taken), name="mcpwire-group-attempt"
            )
            for entry in map(self._renewed, entries)
        }
        try:
            await self._settle(attempts)
        except BaseException:
            await self._undo(taken)
            raise
        finally:
            self._report = report_of(attempts, failed, self._entries)
        return self._report

    async def connect(
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
        Cancelling the last of them undoes what had begun.

        Raises:
            LocalProtocolError: It is connected already, and is not to be replaced.
            UnknownServer: There is no target, and none is known.
            ConnectionClosed: It was disconnected meanwhile.
            Exception: What `Client.connect` raises.
        """
        self._check_loop()
        if target is None and not options and not replace:
            entry = self._entries.get(name)
            if entry is not None and (entry.is_connecting or entry.has_lived):
                if not entry.is_connecting and entry.state == "ready":
                    raise taken_already(name)
                await self._connect_server(entry)
                return entry.client
        if not replace:
            self._check_free(name)
        if target is None:
            member = self._known.get(name)
            if member is None:
                raise UnknownServer(name, known=self._known)
        else:
            member = Member.of(target)
        is_new = name not in self._known
        self._know({name: attrs.evolve(member, **options)})
        entry = self._add_server(name)
        entry.is_new = is_new
        await self._connect_server(entry)
        return entry.client

    async def client(self, name: str) -> Client:
        """Return a server's client, connected: a lazy one is connected first.

        Raises what `connect` does.
        """
        entry = self._entry(name)
        if entry.needs_opening:
            await self._connect_server(entry)
        self._entries[name].is_pinned = True
        return entry.client

    async def connected_in_turn(self, name: str) -> Client:
        """Do what `connected` does, with no more of them at once than may be."""
        if not self._entry(name).needs_opening:
            return self.client_of(name)
        async with self.slots:
            entry = self._entry(name)  # it may be another one by now
            if entry.needs_opening:
                await self._connect_server(entry)
        return entry.client

    async def disconnect(self, name: str) -> None:
        """Close a server's connection; a name that is unknown is fine.

        It leaves the group at once, and what waits for it gets `ConnectionClosed`.
        Cancelling this leaves the closing under way. The same name can be connected
        again at any time, also without a target.

        Raises:
            RequestTimeout: Closing took too long; what is left goes on by itself.
        """
        entry = self._entries.get(name)
        if entry is None:
            return
        self._check_loop()
        self._remove_server(entry)
        try:
            await wait_shared(self._spawn(entry.close(), "disconnect"))
        except Exception as error:
            warn("disconnecting", name, error)
            raise

    async def disconnect_all(self) -> None:
        """Close every connection, in parallel; all are tried.

        Raises:
            Exception: The first that could not be closed (by order of the servers);
                the others are logged.
        """
        entries = list(self._entries.values())
        if entries:
            self._check_loop()
        for entry in entries:
            self._remove_server(entry)
        closing = [self._spawn(entry.close(), "disconnect") for entry in entries]
        if not closing:
            return
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

        Works from any task, twice, and can be connected again. Raises what
        `disconnect_all` does, after all is closed.
        """
        self.source.tell(None)
        try:
            await self.disconnect_all()
        finally:
            await self._bus.close()
            current = asyncio.current_task()
            left = [task for task in self._background if task is not current]
            if left:
                await asyncio.wait(left, timeout=CLOSE_S)
            if not self._entries:
                self._loop = None

    # Tools...

    async def tools(self, **options: Unpack[ToolOptions]) -> ToolSet:
        """List the tools of all servers and return them as one set.

        The options are added to those the group was given. Servers that cannot
        list their tools are in `ToolSet.problems`.

        Raises what `ToolSet` and `ToolSet.refresh` do.
        """
        from mcpwire.tools import ToolSet

        self._check_loop()
        merged: Any = {**self._tool_options, **options}
        tools = ToolSet(self.source, **merged)
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
        """Call a tool of a server, by the name the server gave it.

        The result is the server's whole one, also where it says that the tool failed.
        """
        given = None if arguments is None else as_object(arguments)
        told = {**options, "check": check, "validate": validate}
        call = self._ask(server, "call_tool", (tool, given), told, tool=tool)
        if logger.isEnabledFor(logging.DEBUG):
            call = _logged(call, server, tool)
        result: CallToolResult = await call
        return result

    async def list_tools(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Tool]:
        """Return all tools of a server."""
        found: list[Tool] = await self._ask(server, "list_tools", (), options)
        return found

    # Resources...

    async def read_resource(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> ReadResourceResult:
        """Read a resource of a server."""
        found: ReadResourceResult = await self._ask(
            server, "read_resource", (uri,), options, uri=uri
        )
        return found

    async def list_resources(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Resource]:
        """Return all resources of a server."""
        found: list[Resource] = await self._ask(server, "list_resources", (), options)
        return found

    async def list_resource_templates(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[ResourceTemplate]:
        """Return all resource templates of a server."""
        found: list[ResourceTemplate] = await self._ask(
            server, "list_resource_templates", (), options
        )
        return found

    async def subscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Have a server tell when a resource changes; events and callback hear it.

        A new connection after a loss is told of it again.
        """
        await self._ask(server, "subscribe", (uri,), options, uri=uri)

    async def unsubscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Take one `subscribe` back."""
        await self._ask(server, "unsubscribe", (uri,), options, uri=uri)

    # Prompts and completion...

    async def list_prompts(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Prompt]:
        """Return all prompts of a server."""
        found: list[Prompt] = await self._ask(server, "list_prompts", (), options)
        return found

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> GetPromptResult:
        """Get a prompt of a server, filled in."""
        given = None if arguments is None else as_object(arguments)
        found: GetPromptResult = await self._ask(
            server, "get_prompt", (name, given), options
        )
        return found

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
        """Ask a server how an argument of a prompt or template could go on.

        `ref` may also be a mapping, as the wire has it.
        """
        found: CompleteResult = await self._ask(
            server,
            "complete",
            (as_reference(ref), argument, value),
            {**options, "context": context},
        )
        return found

    # Notifications...

    def events(self) -> GroupEvents:
        """Iterate over what the servers tell, from now on, until `aclose`."""
        return GroupEvents(self._bus)

    @property
    def dropped(self) -> int:
        """Notifications that `on_notification` was too slow for."""
        return self._bus.dropped

    def notify_roots_changed(self, server: str | None = None) -> None:
        """Tell a server, or each that is connected, that the roots changed.

        Waits for nothing. A server that is unknown, or cannot be told, is logged.
        """
        ready = [name for name in self if self.client_of(name).is_connected]
        for name in ready if server is None else (server,):
            try:
                client = self.client_of(name)
            except MCPError as error:
                warn("telling of changed roots", name, error)
            else:
                self._spawn(self._tell_roots(name, client), "roots")

    def cancel(
        self, server: str, request_id: RequestId | None, reason: str | None = None
    ) -> None:
        """End a call on a server by its id on the wire; see `Client.cancel`.

        Waits for nothing. ``None``, and an id of no call, send nothing; an unknown
        server is logged.
        """
        try:
            self.client_of(server).cancel(request_id, reason)
        except MCPError as error:
            warn("cancelling", server, error)

    # Everything else...

    async def ping(self, server: str, **options: Unpack[CallOptions]) -> float:
        """Ask a server for a sign of life; return the seconds it took."""
        seconds: float = await self._ask(server, "ping", (), options)
        return seconds

    async def set_log_level(
        self, server: str, level: LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Have a server send its log messages from a level on.

        One that is lazy is not closed for being idle from then on.
        """
        await self._ask(server, "set_log_level", (level,), options)

    # One request...

    async def _ask(
        self,
        server: str,
        verb: str,
        args: tuple[Any, ...],
        options: Mapping[str, Any],
        **about: str,
    ) -> Any:
        try:
            entry = self._entry(server)
        except MCPError as error:
            warn(verb, server, error, **about)
            raise
        entry.begin()
        answered = False
        try:
            if entry.needs_opening:
                options = await self._opened(entry, verb, options)
            result = await getattr(entry.client, verb)(*args, **options)
            answered = True
            entry.is_logging = entry.is_logging or verb == "set_log_level"
        except (asyncio.CancelledError, ToolError):
            raise  # the caller's own doing; a result that was to be raised
        except Exception as error:
            meant = as_meant(server, error, has_left=entry.is_closed)
            warn(verb, server, meant, **about)
            if meant is error:
                raise
            raise meant from error
        finally:
            entry.end(answered=answered)
        return result

    async def _opened(
        self, entry: ManagedServer, verb: str, options: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Have a server connected for a call, within the call's own time."""
        timeout = options.get("timeout", UNSET)
        if timeout is UNSET:
            timeout = self._timeout_of(entry)
        limit = check_timeout(timeout)
        started = monotonic()
        try:
            async with asyncio.timeout(limit) as scope:
                await entry.connect()
        except TimeoutError as error:
            if isinstance(error, MCPError) or not scope.expired() or limit is None:
                raise
            raise RequestTimeout(
                method=verb,
                timeout=limit,
                elapsed=monotonic() - started,
                detail="the server was being connected",
            ) from None
        if limit is None:
            return options
        return {**options, "timeout": max(limit - (monotonic() - started), 0.001)}

    async def _tell_roots(self, server: str, client: Client) -> None:
        try:
            await client.notify_roots_changed()
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            warn("telling of changed roots", server, error)

    # Connecting, inside...

    async def _attempt(
        self,
        entry: ManagedServer,
        failed: dict[str, Exception],
        taken: list[ManagedServer],
    ) -> None:
        """Connect one server when there is room; raise what ends it all."""
        try:
            async with self.slots:
                await entry.connect()
        except asyncio.CancelledError:
            if entry.is_unclaimed:  # it was about to be told
                taken.append(entry)
            raise
        except Exception as error:
            error.add_note(f"connecting the server {entry.name!r} of a group")
            failed[entry.name] = error
            warn("connecting", entry.name, error)
            if entry.is_closed:  # somebody disconnected it meanwhile, and wants that
                return
            if self._on_error == "raise":
                raise
            if callable(self._on_error):
                outcome = invoke(self._on_error, entry.name, error)
                if inspect.isawaitable(outcome):
                    await outcome
        else:
            taken.append(entry)

    async def _settle(self, attempts: Mapping[str, asyncio.Task[None]]) -> None:
        """Wait for all of them, or for the first that raises; leave none running."""
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
                await _all_done(running)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _undo(self, taken: list[ManagedServer]) -> None:
        """Close what this call alone had connected."""
        unwanted = [
            entry for entry in taken if entry.give_back() and not entry.is_closed
        ]
        for entry in unwanted:
            self._remove_server(entry)
        if unwanted:
            closing = [self._spawn(entry.close_quietly(), "undo") for entry in unwanted]
            await _all_done(closing)

    async def _connect_server(self, entry: ManagedServer) -> None:
        try:
            await entry.connect()
        except asyncio.CancelledError:
            if entry.is_unclaimed and not entry.is_lazy:
                await self._undo([entry])
            elif not (entry.is_connecting or entry.is_there or entry.is_closed):
                self._remove_server(entry)  # nobody wants it any more
            if entry.is_new and entry.name not in self._entries:
                self._known.pop(entry.name, None)
            raise
        except Exception as error:
            warn("connecting", entry.name, error)
            raise

    # The servers, and what they tell the group...

    @property
    def slots(self) -> asyncio.Semaphore:
        """Bounds how many are being connected at once."""
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._concurrency)
        return self._slots

    def heard(
        self, server: str, method: str, params: dict[str, Any] | None, size: int
    ) -> None:
        """Take a notification; for `ManagedServer`."""
        self._bus.heard(server, method, params, size)
        if method == "notifications/tools/list_changed":
            self.source.tell(server)

    def _add_lazy_servers(self) -> None:
        """Let every server be there that is connected with its first use."""
        if self._is_lazy:
            for name, member in self._known.items():
                if member.enabled and name not in self._entries:
                    self._add_server(name)

    def _add_server(self, name: str) -> ManagedServer:
        """Put a server into the group, in the place of one of the same name."""
        member = self._known[name]
        options = self._client_arguments(name)
        limits = options.get("limits", DEFAULT_LIMITS)
        make: Any = self._make_client or _client
        entry = ManagedServer(
            self,
            name,
            member,
            partial(make, name, member.target, **options),
            is_lazy=self._is_lazy,
            close_timeout=CLOSE_S + limits.close_grace + limits.terminate_grace,
        )
        old = self._entries.get(name)
        if old is not None:
            old.leave()
            entry.before = self._spawn(old.close_quietly(), "replace")
        self._entries[name] = entry
        return entry

    def _renewed(self, entry: ManagedServer) -> ManagedServer:
        """Return the entry to connect: another one where this one never was."""
        if entry.state in {"failed", "needs_auth"} and not entry.has_lived:
            return self._add_server(entry.name)
        return entry

    def _remove_server(self, entry: ManagedServer) -> None:
        """Take a server out of the group, at once."""
        del self._entries[entry.name]
        self._left[entry.name] = monotonic()
        entry.leave()
        self.source.tell(entry.name)

    def _entry(self, server: str) -> ManagedServer:
        entry = self._entries.get(server)
        if entry is None or not (entry.is_there or entry.is_connecting):
            raise self._not_connected(server)
        if self._loop is None:
            self._check_loop()
        return entry

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = loop.create_task(work, name=f"mcpwire-group-{name}")
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even where nobody waits any more

    def _check_loop(self) -> None:
        """Refuse another loop than the one that it is used on."""
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
        if self._loop is not None:  # it ended under the group
            for entry in self._entries.values():
                entry.forget_loop()
            self._background.clear()
        self._loop = loop
        self._slots = None


async def _all_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until these have ended, also where the caller is cancelled meanwhile."""
    waiting = [task for task in tasks if not task.done()]
    while waiting:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(waiting)
        waiting = [task for task in waiting if not task.done()]


async def _logged(
    call: Coroutine[Any, Any, Any], server: str, tool: str
) -> CallToolResult:
    """Make a call and log that it begins, and how it ends."""
    about: dict[str, Any] = {"tool": tool, "component": "mcp"}
    logger.debug(
        "calling %r of server %r",
        tool,
        server,
        extra=fields(server, event="mcp_call", **about),
    )
    ok = False
    try:
        result: CallToolResult = await call
        ok = not result.is_error
    finally:
        logger.debug(
            "%r of server %r: %s",
            tool,
            server,
            "ok" if ok else "failed",
            extra=fields(server, event="mcp_result", ok=ok, **about),
        )
    return result


def _client(_: str, target: Any, **options: Any) -> Client:
    return Client(target, **options)


def as_meant(name: str, error: Exception, *, has_left: bool) -> Exception:
    """Return the error to raise for a call that failed.

    Where the server left the group after it was looked up, its client says that nobody
    has connected it, which is not the caller's mistake.
    """
    if has_left and isinstance(error, LocalProtocolError):
        return ConnectionClosed(f"the server {name!r} was disconnected", sent=False)
    return error


class GroupSource:
    """What tool sets are told by a group, and how they list tools."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._callbacks: dict[object, OnChange] = {}

    async def list_tools(self, server: str) -> list[Tool]:
        """Return all tools of a server; none where it did not declare to have any."""
        try:
            client = await self.group.connected_in_turn(server)
            capabilities = client.capabilities
            if capabilities is not None and capabilities.tools is None:
                return []
            return await self.group.list_tools(server)
        except MCPError:
            raise
        except Exception as error:
            raise GroupError(f"{type(error).__name__}: {error}") from error

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Have the callback called with each change; return what ends that."""
        key = object()
        self._callbacks[key] = callback

        def undo() -> None:
            self._callbacks.pop(key, None)

        return undo

    def tell(self, server: str | None) -> None:
        """Tell that a server's tools may be others; ``None``: the group was closed."""
        for callback in tuple(self._callbacks.values()):
            callback(server)
