"""The tool set on asyncio: lists tools, follows their changes, and calls them.

Each server has at most one task that lists its tools, and none while nothing changes. A
change during a listing causes another listing.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import difflib
import inspect
import itertools
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import (
    LocalProtocolError,
    MCPError,
    NameCollision,
    NeedsConfirmation,
    NotAllowed,
    RPCError,
    UnknownTool,
)
from mcpwire.group.reports import format_error
from mcpwire.tools.catalog import result_size
from mcpwire.tools.lock import fingerprint
from mcpwire.tools.options import Options, check_errors
from mcpwire.tools.results import extra_tools, trim_result
from mcpwire.tools.rules import ServerRules, with_trace_argument, with_trace_meta
from mcpwire.tools.transforms import (
    ServerTools,
    ToolCall,
    build_index,
    check_arguments,
    remove_arguments,
    tool_key,
)
from mcpwire.transports.handlers import invoke
from mcpwire.types import CallToolResult, TextContent, decode, encode
from mcpwire.types._base import TRACE_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Unpack

    from mcpwire.client import CallOptions
    from mcpwire.exporters import Export, ExportForm
    from mcpwire.group.group import Group
    from mcpwire.tools.catalog import CatalogEntry, Costs
    from mcpwire.tools.names import Collision
    from mcpwire.tools.options import Approve, Errors, ToolOptions
    from mcpwire.tools.transforms import ToolView
    from mcpwire.types import Tool

logger: Final = logging.getLogger("mcpwire.tools")

DELAYS_S: Final = (0.0, 0.1, 0.5, 2.0, 10.0)
"""Seconds from one listing to the next if the list changed meanwhile: they bound the
work for a server that reports a change with, or soon after, each listing."""

REBUILD_INTERVAL_FACTOR: Final = 5
"""The least time between two rebuilds, as a multiple of the last one's duration: many
servers that change at the same time cost no more than a few."""


MAX_COMPARED_NAMES: Final = 2_000
"""The number of names that an unknown name is compared with."""

MAX_COMPARED_LENGTH: Final = 200
"""The number of characters of an unknown name that are compared."""


class ReadOnlyToolSet:
    """A read-only view of the tools of all servers of a group."""

    def __init__(self, group: Group, **options: Unpack[ToolOptions]) -> None:
        self._group = group
        self._options = Options(**options)
        self._server_tools: dict[str, ServerTools] = {}
        self._problems: dict[str, Exception] = {}
        self._collision: NameCollision | None = None
        self._index = build_index(self._options, {})
        self._generation = 0

    # Reading...

    def __len__(self) -> int:
        return len(self._index.views)

    def __iter__(self) -> Iterator[ToolView]:
        return iter(tuple(self._index.views.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._index.views

    def __getitem__(self, name: str) -> ToolView:
        """Return a tool by its name in the set.

        Raises:
            UnknownTool: There is no such tool; has similar names.
            NotAllowed: A rule hides the tool; has the rule.
        """
        view = self._index.views.get(name)
        if view is not None:
            return view
        rule = self._index.hidden.get(name)
        if rule is not None:
            raise NotAllowed(name, rule=rule)
        # A model may invent names of any length: the comparison is bounded.
        known = itertools.islice(self._index.views, MAX_COMPARED_NAMES)
        text = str(name)
        close = difflib.get_close_matches(text[:MAX_COMPARED_LENGTH], known)
        raise UnknownTool(text, close=close)

    def find(self, server: str, tool: str) -> ToolView | None:
        """Return a tool by the server's name of it, or ``None``; not hidden tools."""
        name = self._index.table.name_of(server, tool)
        return None if name is None else self._index.views.get(name)

    def of_server(self, server: str) -> list[ToolView]:
        """Return the tools of one server."""
        return [view for view in self if view.server == server]

    def search(self, text: str) -> list[ToolView]:
        """Return the tools with all words of a text in name, title or description."""
        words = text.casefold().split()
        return [
            view
            for view in self
            if all(
                word in f"{view.name}\n{view.title}\n{view.description}".casefold()
                for word in words
            )
        ]

    def needs_confirmation(self, name: str) -> bool:
        """Return whether calls of a tool need confirmation; false if it is unknown."""
        view = self._index.views.get(name)
        return view is not None and view.needs_confirmation

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(self._index.views)

    @property
    def collisions(self) -> tuple[Collision, ...]:
        """The collisions of names and their resolutions."""
        return self._index.table.collisions

    @property
    def hidden(self) -> dict[str, str]:
        """The names of the hidden tools, and the rule that hides each."""
        return dict(self._index.hidden)

    @property
    def problems(self) -> dict[str, Exception]:
        """Why tools could not be listed, by server; the tools known before stay."""
        problems = dict(self._problems)
        if self._collision is not None:
            for server, _ in self._collision.owners:
                problems.setdefault(server, self._collision)
        return problems

    @property
    def generation(self) -> int:
        """The number of changes; while it is the same, the tools are the same."""
        return self._generation

    @property
    def costs(self) -> Costs:
        """The recorded costs of calls."""
        return self._options.costs

    def __repr__(self) -> str:
        problems = f", {len(self._problems)} problems" if self._problems else ""
        return (
            f"<{type(self).__name__} of {len(self)} tools of "
            f"{len(self._server_tools)} servers{problems}>"
        )

    # Exports...

    def export(self, form: ExportForm = "neutral", **options: Any) -> Export:
        """Return the tools in the form of a model's API; see `Export`."""
        from mcpwire.exporters import Export

        return Export(self, form, **options)

    def to_anthropic(self, **options: Any) -> Export:
        """Return the tools for Anthropic's Messages API."""
        return self.export("anthropic", **options)

    def to_openai(self, **options: Any) -> Export:
        """Return the tools for OpenAI's Chat Completions API."""
        return self.export("openai", **options)

    def to_openai_responses(self, **options: Any) -> Export:
        """Return the tools for OpenAI's Responses API."""
        return self.export("openai-responses", **options)

    def to_gemini(self, **options: Any) -> Export:
        """Return the tools as Gemini's function declarations."""
        return self.export("gemini", **options)

    def catalog(self, **options: Any) -> list[CatalogEntry]:
        """Return a catalog entry for each tool; see `tools.catalog`."""
        from mcpwire.tools.catalog import catalog

        return catalog(self, self.costs, **options)

    def fingerprints(self) -> dict[str, str]:
        """Return the current fingerprint of each tool by ``server/tool``.

        Hidden tools are included.
        """
        return {
            tool_key((server, tool.name)): fingerprint(tool)
            for server, listed in self._server_tools.items()
            for tool in listed.tools
        }


@attrs.define(eq=False)
class _Listing:
    """The running listing of one server's tools."""

    task: asyncio.Task[None] | None = None
    is_outdated: bool = True
    was_notified: bool = False
    """Whether the server reported a change: then it runs without a waiting caller."""

    waiters: list[asyncio.Future[None]] = attrs.field(factory=list)
    """Futures of callers that wait for a listing that has not begun."""

    current_waiters: list[asyncio.Future[None]] = attrs.field(factory=list)
    """Futures of callers that wait for the running listing."""

    wake: asyncio.Event = attrs.field(factory=asyncio.Event)


ARGUMENT_TYPES: Final = {"string": str, "object": dict}
"""Python types of the arguments of resources and prompts as tools."""


class ToolSet(ReadOnlyToolSet):
    """The tools of many servers: named, filtered, kept up to date, callable.

    ::

        tools = await group.tools(confirm="mutating", approve=ask)
        for view in tools: ...
        result = await tools.call("mcp__time__now", {"zone": "UTC"})

    `Group.tools` makes it and lists all tools once. After that, changed lists are
    fetched again; the old tools stay until a list is complete. All methods must be
    called on the event loop of the group.

    Args:
        group: The servers that have the tools.
        options: `ToolOptions`.

    Raises:
        ValueError: An option is out of range; the message names it.
    """

    def __init__(self, group: Group, **options: Unpack[ToolOptions]) -> None:
        super().__init__(group, **options)
        self._listings: dict[str, _Listing] = {}
        # Listings after changes in close succession, and the time of the last one.
        self._rounds: dict[str, tuple[int, float]] = {}
        self._refreshing = 0
        self._next_rebuild_at = 0.0
        self._rebuild_timer: asyncio.TimerHandle | None = None
        group.tool_sets.add(self)

    # Listing...

    async def refresh(self, *servers: str) -> None:
        """List the tools of these servers, or of all servers, concurrently.

        Failures are in `problems`; the tools known before stay.

        Raises:
            NameCollision: Two tools would get the same name, if the policy is to raise.

        Cancelling it ends the listings that no other caller waits for.
        """
        futures: list[asyncio.Future[None]] = []
        self._refreshing += 1
        try:
            for server in servers or self._group:
                futures.append(asyncio.get_running_loop().create_future())
                self._start_listing(server, futures[-1])
            if futures:
                await asyncio.wait(futures)
        except asyncio.CancelledError:
            for future in futures:
                future.cancel()
            self._cancel_unused()
            self._schedule_rebuild()
            raise
        finally:
            self._refreshing -= 1
        self._rebuild_now()
        for future in futures:
            future.result()

    async def aclose(self) -> None:
        """Stop following changes, and cancel the running listings.

        The tools can still be called. It may be called twice.
        """
        self._group.tool_sets.discard(self)
        tasks = self._cancel_all()
        if tasks:
            await asyncio.wait(tasks)

    def handle_change(self, server: str | None) -> None:
        """List a server's tools anew; ``None``: the group was closed."""
        if server is None:
            self._group.tool_sets.discard(self)
            self._cancel_all()
        else:
            self._start_listing(server)

    def _start_listing(
        self, server: str, waiter: asyncio.Future[None] | None = None
    ) -> None:
        """List a server's tools anew; `waiter` is done after that, if it is given."""
        known = self._listings.get(server)
        listing = self._listings[server] = known or _Listing()
        listing.is_outdated = True
        if server not in self._group:  # its successor is listed at once
            self._rounds.pop(server, None)
            listing.wake.set()
        if waiter is None:
            listing.was_notified = True
        else:
            listing.waiters.append(waiter)
            listing.wake.set()
        if known is None:  # last: an eager task may end at once
            listing.task = asyncio.get_running_loop().create_task(
                self._run_listing(server, listing), name=f"mcpwire tools of {server!r}"
            )

    async def _run_listing(self, server: str, listing: _Listing) -> None:
        """List tools until no change is pending."""
        loop = asyncio.get_running_loop()
        rounds, ended_at = self._rounds.get(server, (0, 0.0))
        try:
            while listing.is_outdated:
                delay = DELAYS_S[min(rounds, len(DELAYS_S) - 1)]
                is_connected = server in self._group
                seconds = ended_at + delay - loop.time() if is_connected else 0.0
                await self._pause(listing, seconds)
                rounds = rounds + 1 if seconds > 0 else 1
                listing.is_outdated = False
                listing.current_waiters, listing.waiters = listing.waiters, []
                try:
                    await self._list_tools(server)
                except Exception as error:
                    # A defect: raised in the waiting callers, else in this task.
                    if not _resolve_futures(listing.current_waiters, error):
                        raise
                _resolve_futures(listing.current_waiters)
                ended_at = loop.time()
                if not listing.current_waiters and is_connected:
                    self._rounds[server] = rounds, ended_at
                # A refresh rebuilds once for all servers.
                if listing.was_notified or not self._refreshing:
                    self._schedule_rebuild()
        finally:
            self._finish(server, listing)

    @staticmethod
    async def _pause(listing: _Listing, seconds: float) -> None:
        """Pause, unless a caller is waiting."""
        listing.wake.clear()
        if seconds > 0 and not listing.waiters:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await listing.wake.wait()

    async def _list_tools(self, server: str) -> None:
        """List a server's tools for the next `_rebuild`; record a failure."""
        group, selected = self._group, self._options.extras
        if server not in group:
            return
        extras: list[Tool] = []
        try:
            tools = await group.fetch_tools(server)
            if selected:
                extras = extra_tools(group.client_of(server).capabilities, selected)
        except MCPError as error:
            self._problems[server] = error
            logger.warning(
                "the tools of %r could not be listed: %s",
                server,
                format_error(error),
                extra={"server": server, "error": error},
            )
            return
        rules = group.rules(server) or ServerRules()
        self._server_tools[server] = ServerTools(tools, extras, rules)
        self._problems.pop(server, None)

    def _rebuild(self) -> None:
        """Rebuild all views from the stored tools, atomically."""
        order = dict.fromkeys(self._group)
        known = self._server_tools
        tools = {server: known[server] for server in order if server in known}
        try:
            index = build_index(self._options, tools)
        except NameCollision as error:
            self._collision = error
            raise
        problems = self._problems
        self._server_tools = tools
        self._problems = {each: problems[each] for each in problems if each in order}
        self._collision = None
        self._index = index
        self._generation += 1

    def _schedule_rebuild(self) -> None:
        """Rebuild the views at a limited rate; keep the old ones on a collision."""
        if self._rebuild_timer is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._next_rebuild_at:
            self._rebuild_timer = loop.call_at(self._next_rebuild_at, self._try_rebuild)
        else:
            self._try_rebuild()

    def _try_rebuild(self) -> None:
        try:
            self._rebuild_now()
        except NameCollision as error:
            logger.warning("the tools are unchanged: %s", error)

    def _rebuild_now(self) -> None:
        """Rebuild the views now; the next change waits in proportion to the time."""
        self._cancel_rebuild()
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            self._rebuild()
        finally:
            now = loop.time()
            self._next_rebuild_at = now + REBUILD_INTERVAL_FACTOR * (now - started)

    def _cancel_rebuild(self) -> None:
        if self._rebuild_timer is not None:
            self._rebuild_timer.cancel()
            self._rebuild_timer = None

    def _finish(self, server: str, listing: _Listing) -> None:
        """Remove a finished listing, and wake its callers."""
        if self._listings.get(server) is listing:
            del self._listings[server]
        _resolve_futures(listing.waiters)
        _resolve_futures(listing.current_waiters)

    def _cancel_unused(self) -> None:
        for server, listing in list(self._listings.items()):
            futures = (*listing.waiters, *listing.current_waiters)
            if not listing.was_notified and all(future.done() for future in futures):
                self._cancel(server, listing)

    def _cancel_all(self) -> list[asyncio.Task[None]]:
        self._cancel_rebuild()
        return [self._cancel(*item) for item in list(self._listings.items())]

    def _cancel(self, server: str, listing: _Listing) -> asyncio.Task[None]:
        # A task cancelled before its start does not run its `finally`.
        self._finish(server, listing)
        assert listing.task is not None
        listing.task.cancel()
        return listing.task

    def accept(self, *patterns: str) -> None:
        """Accept the current tools in the lock, all or those that a pattern matches.

        A pattern is a glob for ``server/tool``. No file is written.

        Raises:
            LocalProtocolError: The set has no lock.
        """
        if self._options.lock is None:
            raise LocalProtocolError("these tools have no lock")
        self._options.lock.accept(self.fingerprints(), *patterns)
        self._rebuild()

    # Calling...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        confirmed: bool = False,
        errors: Errors | None = None,
        **options: Unpack[CallOptions],
    ) -> CallToolResult:
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
        own = self._options
        errors = own.errors if errors is None else check_errors(errors)
        view = self[name]
        given = remove_arguments(check_arguments(arguments), own.strip_arguments)
        given = remove_arguments(given, view.rules.strip_arguments)
        if view.transform is not None:
            given = view.transform.server_arguments(given)
        call = ToolCall(view, given or {}, confirmed)
        if own.approve is not None:
            call = await self._request_approval(call, own.approve)
        elif call.needs_confirmation:
            raise NeedsConfirmation(name, arguments=given)
        sent: dict[str, Any] = dict(options)
        # Without arguments the server gets none, not an empty object.
        arguments = self._add_trace(call, sent) or (None if given is None else {})
        meta = sent.get("meta")
        _log_call("mcp_call", view, meta)
        started = time.monotonic()
        try:
            result = await self._send(view, arguments, sent)
        except MCPError as error:
            seconds = time.monotonic() - started
            _log_call("mcp_result", view, meta, ok=False, seconds=seconds, error=error)
            if errors == "raise" or not isinstance(error, RPCError):
                raise
            return CallToolResult(content=[TextContent(error.message)], is_error=True)
        seconds = time.monotonic() - started
        own.costs.note(view.server, view.tool, seconds, result_size(result))
        ok = not result.is_error
        _log_call("mcp_result", view, meta, ok=ok, seconds=seconds, error=None)
        limit = own.max_result_bytes
        return result if limit is None else trim_result(result, limit)

    async def _request_approval(self, call: ToolCall, approve: Approve) -> ToolCall:
        """Return the call that was approved."""
        view = call.view
        # A copy: `approve` cannot change the arguments.
        proposal = attrs.evolve(call, arguments=copy.deepcopy(call.arguments))
        try:
            answer = invoke(approve, proposal)
            if inspect.isawaitable(answer):
                answer = await answer
        except NotAllowed:
            raise
        except Exception as error:
            raise NotAllowed(view.name, rule=f"approve: {error}") from error
        if isinstance(answer, dict):
            call = attrs.evolve(call, arguments=check_arguments(answer) or {})
        elif answer is not True:
            raise NotAllowed(view.name, rule="approve")
        # The tool may have changed while `approve` ran.
        current = self[view.name]
        is_same = (current.server, current.tool) == (view.server, view.tool)
        if not is_same or current.definition != view.definition:
            raise NotAllowed(
                view.name, rule="approve: the tool has changed in the meantime"
            )
        return call

    def _add_trace(self, call: ToolCall, options: dict[str, Any]) -> dict[str, Any]:
        """Add trace context to the options and, if configured, to the arguments."""
        carrier = self._trace_carrier(call.view)
        if not carrier:
            return call.arguments
        options["meta"] = with_trace_meta(options.get("meta"), carrier)
        key = call.view.rules.trace_argument or self._options.trace_argument
        if key is None:
            return call.arguments
        return with_trace_argument(call.arguments, key, carrier)

    def _trace_carrier(self, view: ToolView) -> Mapping[str, Any]:
        """Return the trace context for a server, or an empty one."""
        source = view.rules.trace_context
        if source is None or (source is True and callable(self._options.trace_context)):
            source = self._options.trace_context
        if not source:
            return {}
        if source is True:
            return {
                key: os.environ[key.upper()]
                for key in TRACE_KEYS
                if key.upper() in os.environ
            }
        try:
            return dict(source() or {})
        except Exception:
            # A failure of tracing must not prevent calls.
            logger.exception("trace_context failed; the call is sent without it")
            return {}

    async def _send(
        self, view: ToolView, arguments: dict[str, Any] | None, options: dict[str, Any]
    ) -> CallToolResult:
        extra, group = view.extra, self._group
        if extra is None:
            return await group.call_tool(view.server, view.tool, arguments, **options)
        given = arguments or {}
        schema = extra.tool.input_schema
        for name in (*schema["required"], *given):
            if name not in schema["properties"]:
                raise LocalProtocolError(f"the tool takes no argument {name!r}")
            kind = schema["properties"][name]["type"]
            if not isinstance(given.get(name), ARGUMENT_TYPES[kind]):
                raise LocalProtocolError(f"the tool needs {name!r}, which is: {kind}")
        values = [given.get(name) for name in extra.parameters]
        request = getattr(group, extra.operation)
        answer = await request(view.server, *values, **options)
        is_list = isinstance(answer, list)
        raw = list(map(encode, answer)) if is_list else encode(answer)
        return decode(CallToolResult, extra.result(raw))


def _resolve_futures(
    futures: list[asyncio.Future[None]], error: Exception | None = None
) -> bool:
    """Set the result of the pending futures; return whether there was one."""
    pending = [future for future in futures if not future.done()]
    for future in pending:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    return bool(pending)


def _log_call(
    event: str, view: ToolView, meta: Mapping[str, Any] | None, **details: Any
) -> None:
    """Log the begin or the end of a call, without its arguments."""
    if not logger.isEnabledFor(logging.INFO):
        return
    fields = {"event": event, "server": view.server, "tool": view.tool, **details}
    trace = (meta or {}).get("traceparent")
    if isinstance(trace, str):
        fields["traceparent"] = trace
    text = " ".join(
        f"{key}={value!r}" for key, value in fields.items() if value != event
    )
    logger.info("%s %s", event, text, extra={"component": "mcp", **fields})
