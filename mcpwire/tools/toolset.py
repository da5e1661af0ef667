"""The tool set on asyncio: it lists tools, hears that they changed, and calls them.

Each server has at most one task that lists its tools, and none while nothing changes.
What changes during a listing makes one more of it.
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
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
from mcpwire.tools.catalog import size_of
from mcpwire.tools.lock import fingerprint
from mcpwire.tools.options import Options, check_errors
from mcpwire.tools.results import extra_tools, trim_result
from mcpwire.tools.rules import ServerRules, with_trace_argument, with_trace_meta
from mcpwire.tools.transforms import (
    Listed,
    ToolCall,
    build,
    check_arguments,
    key_of,
    without,
)
from mcpwire.transports.handlers import invoke
from mcpwire.types import CallToolResult, TextContent
from mcpwire.types._base import TRACE_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Unpack

    from mcpwire.client import CallOptions
    from mcpwire.exporters import Export, ExportForm
    from mcpwire.group.group import GroupSource
    from mcpwire.tools.catalog import CatalogEntry, Costs
    from mcpwire.tools.names import Collision
    from mcpwire.tools.options import Approve, Errors, ToolOptions
    from mcpwire.tools.transforms import ToolView
    from mcpwire.types import Tool


__all__ = [
    "OnChange",
    "Reading",
    "ToolSet",
]

logger: Final = logging.getLogger("mcpwire.tools")

PAUSES: Final = (0.0, 0.1, 0.5, 2.0, 10.0)
"""Seconds before a list is fetched again that changed while it was, each time longer:
a server that tells of a change with each listing keeps nobody busy."""

RESTS: Final = 5
"""How many times as long as it takes to show what was listed it is not done again: many
servers that change at the same time cost no more than a few that do."""


OnChange: TypeAlias = "Callable[[str | None], None]"
"""Called with a server after its tools may have changed: its list did, or it came back,
joined or left. ``None``: there will be no more of anything. It returns at once."""


COMPARED: Final = 2_000
"""How many names an unknown one is compared with."""

NAME_LENGTH: Final = 200
"""How much of an unknown name is compared."""


class Reading:
    """The tools of all servers of a source, to be looked at."""

    def __init__(self, source: GroupSource, **options: Unpack[ToolOptions]) -> None:
        self._source = source
        self._options = Options(**options)
        self._listed: dict[str, Listed] = {}
        self._problems: dict[str, Exception] = {}
        self._collided: NameCollision | None = None
        self._built = build(self._options, {})
        self._generation = 0

    # Reading...

    def __len__(self) -> int:
        return len(self._built.views)

    def __iter__(self) -> Iterator[ToolView]:
        return iter(tuple(self._built.views.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._built.views

    def __getitem__(self, name: str) -> ToolView:
        """Return a tool by its name here.

        Raises:
            UnknownTool: There is none; names those that look like it.
            NotAllowed: A rule hides it; names the rule.
        """
        view = self._built.views.get(name)
        if view is not None:
            return view
        rule = self._built.hidden.get(name)
        if rule is not None:
            raise NotAllowed(name, rule=rule)
        # A name of whatever length, which a model may have made up, costs little.
        known = itertools.islice(self._built.views, COMPARED)
        text = str(name)
        close = difflib.get_close_matches(text[:NAME_LENGTH], known)
        raise UnknownTool(text, close=close)

    def find(self, server: str, tool: str) -> ToolView | None:
        """Return a server's tool by what the server calls it; ``None``: there is none.

        What a rule hides is not there.
        """
        name = self._built.table.name_of(server, tool)
        return None if name is None else self._built.views.get(name)

    def of_server(self, server: str) -> list[ToolView]:
        """Return the tools of one server."""
        return [view for view in self if view.server == server]

    def search(self, text: str) -> list[ToolView]:
        """Return the tools with all these words in name, title or description."""
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
        """Tell whether somebody has to confirm a tool's calls; not where unknown."""
        view = self._built.views.get(name)
        return view is not None and view.needs_confirmation

    @property
    def names(self) -> tuple[str, ...]:
        """What the tools are called."""
        return tuple(self._built.views)

    @property
    def collisions(self) -> tuple[Collision, ...]:
        """Which tools would have had the same name, and what was done."""
        return self._built.table.collisions

    @property
    def hidden(self) -> dict[str, str]:
        """The names that cannot be called, and the rule that hides each."""
        return dict(self._built.hidden)

    @property
    def problems(self) -> dict[str, Exception]:
        """Why tools could not be listed, by server; what was known of them stays."""
        found = dict(self._problems)
        if self._collided is not None:
            for server, _ in self._collided.owners:
                found.setdefault(server, self._collided)
        return found

    @property
    def generation(self) -> int:
        """How often the tools have changed; the same number is the same tools."""
        return self._generation

    @property
    def costs(self) -> Costs:
        """What the calls of this set took."""
        return self._options.costs

    def __repr__(self) -> str:
        problems = f", {len(self._problems)} problems" if self._problems else ""
        return (
            f"<{type(self).__name__} of {len(self)} tools of "
            f"{len(self._listed)} servers{problems}>"
        )

    # For models and people...

    def export(self, form: ExportForm = "neutral", **options: Any) -> Export:
        """Return the tools as an API of models wants them; see `Export`."""
        from mcpwire.exporters import Export

        return Export(self, form, **options)

    def to_anthropic(self, **options: Any) -> Export:
        """Return the tools for Anthropic's messages."""
        return self.export("anthropic", **options)

    def to_openai(self, **options: Any) -> Export:
        """Return the tools for OpenAI's chat completions."""
        return self.export("openai", **options)

    def to_openai_responses(self, **options: Any) -> Export:
        """Return the tools for OpenAI's responses."""
        return self.export("openai-responses", **options)

    def to_gemini(self, **options: Any) -> Export:
        """Return the tools as Gemini's function declarations."""
        return self.export("gemini", **options)

    def catalog(self, **options: Any) -> list[CatalogEntry]:
        """Return what a planner wants to know of each tool; see `tools.catalog`."""
        from mcpwire.tools.catalog import catalog

        return catalog(self, self.costs, **options)

    def fingerprints(self) -> dict[str, str]:
        """Return what stands for each tool as it is now, by ``server/tool``.

        Those that a rule hides are among them.
        """
        return {
            key_of((server, tool.name)): fingerprint(tool)
            for server, listed in self._listed.items()
            for tool in listed.tools
        }


@attrs.define(eq=False)
class _Fetch:
    """The listing of one server's tools, which goes on while somebody wants it."""

    task: asyncio.Task[None] | None = None
    again: bool = True
    heard: bool = False
    """Whether the server asked for it, so that it goes on without anybody waiting."""

    waiting: list[asyncio.Future[None]] = attrs.field(factory=list)
    """Callers that want a listing that begins from now on."""

    served: list[asyncio.Future[None]] = attrs.field(factory=list)
    """Callers that wanted the one under way."""

    wake: asyncio.Event = attrs.field(factory=asyncio.Event)


KINDS: Final = {"string": str, "object": dict}
"""What the arguments of resources and prompts as tools are in Python."""


class ToolSet(Reading):
    """The tools of many servers: named, filtered, kept up to date, callable.

    ::

        tools = await group.tools(confirm="mutating", approve=ask)
        for view in tools: ...
        result = await tools.call("mcp__time__now", {"zone": "UTC"})

    Made by `Group.tools`, which has listed everything once. From then on lists that
    change are fetched again; the tools that were there stay until a list is whole.
    All its methods are to be called on the loop of its group.

    Args:
        source: The servers that have the tools.
        options: `ToolOptions`.

    Raises:
        ValueError: An option is out of its range; names it.
    """

    def __init__(self, source: GroupSource, **options: Unpack[ToolOptions]) -> None:
        super().__init__(source, **options)
        self._fetches: dict[str, _Fetch] = {}
        self._refreshing = 0
        self._may_show_at = 0.0
        self._showing: asyncio.TimerHandle | None = None
        # The source does not keep a set alive that nobody else has.
        hear = weakref.WeakMethod(self._hear)

        def tell(server: str | None) -> None:
            method = hear()
            if method is not None:
                method(server)

        self._undo = weakref.finalize(self, source.on_change(tell))
        self._undo.atexit = False

    # Keeping up...

    async def refresh(self, *servers: str) -> None:
        """List the tools of these servers again, or of all, at the same time.

        What cannot be listed is in `problems`, and what was known of it stays.

        Raises:
            NameCollision: Two tools would have one name, where that is to be raised.

        Cancelling ends the listings that nobody else wants.
        """
        wanted: list[asyncio.Future[None]] = []
        self._refreshing += 1
        try:
            wanted += map(self._want, servers or self._source.group)
            if wanted:
                await asyncio.wait(wanted)
        except asyncio.CancelledError:
            for future in wanted:
                future.cancel()
            self._end_unwanted()
            self._show_soon()
            raise
        finally:
            self._refreshing -= 1
        self._show_now()
        for future in wanted:
            future.result()

    async def aclose(self) -> None:
        """Hear no more of changes, and end the listings under way.

        The tools can be called as before. Works twice.
        """
        self._undo()
        tasks = self._end_all()
        if tasks:
            await asyncio.wait(tasks)

    def _hear(self, server: str | None) -> None:
        """Be told of a change."""
        if server is None:
            self._undo()
            self._end_all()
            return
        self._fetch(server)

    def _want(self, server: str) -> asyncio.Future[None]:
        """Return what is done when a listing is that begins from now on."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fetch(server, future)
        return future

    def _fetch(self, server: str, waiting: asyncio.Future[None] | None = None) -> None:
        """Have the tools of a server listed, once more where that is under way."""
        known = self._fetches.get(server)
        fetch = self._fetches[server] = known or _Fetch()
        fetch.again = True
        if waiting is None:
            fetch.heard = True
        else:
            fetch.waiting.append(waiting)
            fetch.wake.set()
        if known is None:  # last: an eager task may have ended before it has a name
            fetch.task = asyncio.get_running_loop().create_task(
                self._follow(server, fetch), name=f"mcpwire tools of {server!r}"
            )

    async def _follow(self, server: str, fetch: _Fetch) -> None:
        """List until nothing has changed meanwhile."""
        rounds = 0
        try:
            while fetch.again:
                await self._pause(fetch, PAUSES[min(rounds, len(PAUSES) - 1)])
                rounds += 1
                fetch.again = False
                fetch.served, fetch.waiting = fetch.waiting, []
                try:
                    await self._list(server)
                except Exception as error:
                    # A defect: the callers that wait are told, else the loop is.
                    if not _settle(fetch.served, error):
                        raise
                _settle(fetch.served)
                # A refresh shows everything at once.
                if fetch.heard or not self._refreshing:
                    self._show_soon()
        finally:
            self._end(server, fetch)

    @staticmethod
    async def _pause(fetch: _Fetch, seconds: float) -> None:
        """Wait a moment, unless somebody is waiting."""
        fetch.wake.clear()
        if seconds and not fetch.waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await fetch.wake.wait()

    async def _list(self, server: str) -> None:
        """List a server's tools; what goes wrong is noted."""
        if server not in self._source.group:
            return
        try:
            self._take(server, await self._source.list_tools(server))
        except MCPError as error:
            self._note_problem(server, error)

    def _take(self, server: str, tools: list[Tool]) -> None:
        """Keep what a server listed, for the next `_rebuild`."""
        wanted = self._options.extras
        extras = (
            extra_tools(self._source.group.client_of(server).capabilities, wanted)
            if wanted
            else []
        )
        rules = self._source.group.rules(server) or ServerRules()
        self._listed[server] = Listed(tools, extras, rules)
        self._problems.pop(server, None)

    def _note_problem(self, server: str, error: MCPError) -> None:
        """Keep what a server had before, and log why it has nothing new."""
        self._problems[server] = error
        logger.warning(
            "the tools of %r could not be listed: %s",
            server,
            format_error(error),
            extra={"server": server, "error": error},
        )

    def _rebuild(self) -> None:
        """Make everything again of what was listed; at once, or not at all."""
        order = dict.fromkeys(self._source.group)
        kept = {each: self._listed[each] for each in order if each in self._listed}
        try:
            built = build(self._options, kept)
        except NameCollision as error:
            self._collided = error
            raise
        problems = self._problems
        self._listed = kept
        self._problems = {each: problems[each] for each in problems if each in order}
        self._collided = None
        self._built = built
        self._generation += 1

    def _show_soon(self) -> None:
        """Make views of what was listed; where that cannot be, the old ones stay."""
        if self._showing is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._may_show_at:
            self._showing = loop.call_at(self._may_show_at, self._show)
        else:
            self._show()

    def _show(self) -> None:
        try:
            self._show_now()
        except NameCollision as error:
            logger.warning("the tools stay as they were: %s", error)

    def _show_now(self) -> None:
        """Make views of what was listed."""
        if self._showing is not None:
            self._showing.cancel()
            self._showing = None
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._rebuild()
        finally:
            now = loop.time()
            self._may_show_at = now + RESTS * (now - began)

    def _end(self, server: str, fetch: _Fetch) -> None:
        """Let go of a listing that has ended, or is not to begin again."""
        if self._fetches.get(server) is fetch:
            del self._fetches[server]
        _settle(fetch.waiting)
        _settle(fetch.served)

    def _end_unwanted(self) -> None:
        for server, fetch in list(self._fetches.items()):
            wanted = fetch.heard or not all(
                each.done() for each in (*fetch.waiting, *fetch.served)
            )
            if not wanted:
                self._cancel(server, fetch)

    def _end_all(self) -> list[asyncio.Task[None]]:
        if self._showing is not None:
            self._showing.cancel()
            self._showing = None
        return [self._cancel(*each) for each in list(self._fetches.items())]

    def _cancel(self, server: str, fetch: _Fetch) -> asyncio.Task[None]:
        # A task that has not begun never comes to its own end.
        self._end(server, fetch)
        assert fetch.task is not None
        fetch.task.cancel()
        return fetch.task

    def accept(self, *patterns: str) -> None:
        """Accept tools as they are now, all or those that a pattern fits, in the lock.

        A pattern is a glob for ``server/tool``. Nothing is written to any file.

        Raises:
            LocalProtocolError: There is no lock.
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
        """Call a tool by its name here and return its result, also one that failed.

        Args:
            name: What the tool is called here.
            arguments: Its arguments, as one object.
            confirmed: Whether somebody confirmed the call. `approve` is asked all the
                same.
            errors: ``"result"``: a JSON-RPC error becomes a result with `is_error`.
            options: As every request takes; the time that `approve` takes is not in
                `timeout`.

        Raises:
            UnknownTool: There is no such tool.
            NotAllowed: A rule hides it, or `approve` refused the call.
            NeedsConfirmation: Somebody has to confirm it first.
            LocalProtocolError: The arguments are none; nothing was sent, as with all
                of the above.
            UnknownServer: The server has left.
            MCPError: What `Client.call_tool` raises.

        Cancelling the task tells the server and returns at once.
        """
        own = self._options
        errors = own.errors if errors is None else check_errors(errors)
        view = self[name]
        given = without(check_arguments(arguments), own.strip_arguments)
        given = without(given, view.rules.strip_arguments)
        if view.transform is not None:
            given = view.transform.inside(given)
        call = ToolCall(view, given or {}, confirmed)
        if own.approve is not None:
            call = await self._approved(call, own.approve)
        elif call.needs_confirmation:
            raise NeedsConfirmation(name, arguments=given)
        sent: dict[str, Any] = dict(options)
        # Where nobody gives any, the server gets none, not an empty object.
        arguments = self._traced(call, sent) or (None if given is None else {})
        meta = sent.get("meta")
        _log("mcp_call", view, meta)
        started = time.monotonic()
        try:
            result = await self._send(view, arguments, sent)
        except MCPError as error:
            seconds = time.monotonic() - started
            _log("mcp_result", view, meta, ok=False, seconds=seconds, error=error)
            if errors == "raise" or not isinstance(error, RPCError):
                raise
            return CallToolResult(content=[TextContent(error.message)], is_error=True)
        seconds = time.monotonic() - started
        own.costs.note(view.server, view.tool, seconds, size_of(result))
        ok = not result.is_error
        _log("mcp_result", view, meta, ok=ok, seconds=seconds, error=None)
        limit = own.max_result_bytes
        return result if limit is None else trim_result(result, limit)

    async def _approved(self, call: ToolCall, approve: Approve) -> ToolCall:
        """Return the call that was approved."""
        view = call.view
        # What is shown is not what can be changed.
        shown = attrs.evolve(call, arguments=copy.deepcopy(call.arguments))
        try:
            answer = invoke(approve, shown)
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
        # The answer may have taken a while.
        now = self[view.name]
        is_same = (now.server, now.tool) == (view.server, view.tool)
        if not is_same or now.definition != view.definition:
            raise NotAllowed(view.name, rule="approve: the tool changed meanwhile")
        return call

    def _traced(self, call: ToolCall, options: dict[str, Any]) -> dict[str, Any]:
        """Add trace context to the options; return the arguments, with it if wanted."""
        carrier = self._carrier(call.view)
        if not carrier:
            return call.arguments
        options["meta"] = with_trace_meta(options.get("meta"), carrier)
        key = call.view.rules.trace_argument or self._options.trace_argument
        if key is None:
            return call.arguments
        return with_trace_argument(call.arguments, key, carrier)

    def _carrier(self, view: ToolView) -> Mapping[str, Any]:
        """Return what is known of the trace, where this server is to know it."""
        wanted = view.rules.trace_context
        if wanted is None or (wanted is True and callable(self._options.trace_context)):
            wanted = self._options.trace_context
        if not wanted:
            return {}
        if wanted is True:
            return {
                key: os.environ[key.upper()]
                for key in TRACE_KEYS
                if key.upper() in os.environ
            }
        try:
            return dict(wanted() or {})
        except Exception:
            # What watches calls does not keep anybody from making them.
            logger.exception("trace_context failed; the call goes without")
            return {}

    async def _send(
        self, view: ToolView, arguments: dict[str, Any] | None, options: dict[str, Any]
    ) -> CallToolResult:
        extra, group = view.extra, self._source.group
        if extra is None:
            return await group.call_tool(view.server, view.tool, arguments, **options)
        given = arguments or {}
        schema = extra.tool.input_schema
        for name in (*schema["required"], *given):
            if name not in schema["properties"]:
                raise LocalProtocolError(f"the tool takes no argument {name!r}")
            kind = schema["properties"][name]["type"]
            if not isinstance(given.get(name), KINDS[kind]):
                raise LocalProtocolError(f"the tool needs {name!r}, which is: {kind}")
        values = [given.get(name) for name in extra.parameters]
        request = getattr(group, extra.verb)
        return extra.result(await request(view.server, *values, **options))


def _settle(
    waiting: list[asyncio.Future[None]], error: Exception | None = None
) -> bool:
    """Tell the callers that still wait; return whether there was one."""
    found = [future for future in waiting if not future.done()]
    for future in found:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    return bool(found)


def _log(
    event: str, view: ToolView, meta: Mapping[str, Any] | None, **more: Any
) -> None:
    """Log a call and how it ended, without its arguments."""
    if not logger.isEnabledFor(logging.INFO):
        return
    facts = {"event": event, "server": view.server, "tool": view.tool, **more}
    trace = (meta or {}).get("traceparent")
    if isinstance(trace, str):
        facts["traceparent"] = trace
    text = " ".join(
        f"{key}={value!r}" for key, value in facts.items() if value != event
    )
    logger.info("%s %s", event, text, extra={"component": "mcp", **facts})
