"""What every tool set does, but for the waiting: listing and calling without either.

What was listed becomes views, and a call goes through all that comes before and after
it is sent. The set itself adds the waiting.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import (
    LocalProtocolError,
    NameCollision,
    NeedsConfirmation,
    NotAllowed,
    RPCError,
)
from mcpwire.group.reports import say
from mcpwire.tools.catalog import size_of
from mcpwire.tools.extras import extra_tools
from mcpwire.tools.options import check_errors
from mcpwire.tools.reading import Reading
from mcpwire.tools.rules import ServerRules, with_trace_argument, with_trace_meta
from mcpwire.tools.transforms import check_arguments, without
from mcpwire.tools.view import Listed, ToolCall, build
from mcpwire.types.meta import TRACE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.errors import MCPError
    from mcpwire.tools.options import Errors
    from mcpwire.tools.view import ToolView
    from mcpwire.types import CallToolResult, Tool

__all__ = ["Outgoing", "ToolSetBase"]

logger = logging.getLogger("mcpwire.tools")

KINDS: Final = {"string": str, "object": dict}
"""What the arguments of resources and prompts as tools are in Python."""


@attrs.define
class Outgoing:
    """A call that is ready to be sent, and when it was."""

    view: ToolView
    arguments: dict[str, Any] | None
    options: dict[str, Any]
    errors: Errors
    started: float


class ToolSetBase(Reading):
    """The tools of all servers of a source, without its waiting verbs."""

    # What was listed...

    def _take(self, server: str, tools: list[Tool]) -> None:
        """Keep what a server listed, for the next `_rebuild`."""
        wanted = self._options.extras
        extras = (
            extra_tools(self._source.client(server).capabilities, wanted)
            if wanted
            else []
        )
        rules = self._source.rules(server) or ServerRules()
        self._listed[server] = Listed(tools, extras, rules)
        self._problems.pop(server, None)

    def _note_problem(self, server: str, error: MCPError) -> None:
        """Keep what a server had before, and say why it has nothing new."""
        self._problems[server] = error
        logger.warning(
            "the tools of %r could not be listed: %s",
            server,
            say(error),
            extra={"server": server, "error": error},
        )

    def _rebuild(self) -> None:
        """Make everything again of what was listed; at once, or not at all.

        Raises:
            NameCollision: Two tools would have one name, where that is to be raised.
        """
        order = dict.fromkeys(self._source.servers())
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

    # Before a call...

    def _prepare(
        self,
        name: str,
        arguments: Any,
        *,
        confirmed: bool = False,
        errors: Errors | None = None,
    ) -> ToolCall:
        """Return the call that would be made; whoever may be asked has not been.

        Raises:
            UnknownTool: There is no such tool.
            NotAllowed: A rule hides it.
            LocalProtocolError: The arguments are none.
            NeedsConfirmation: That, and there is nobody to be asked.
            ValueError: `errors` is no way to tell of them.
        """
        if errors is not None:
            check_errors(errors)
        view = self[name]
        given = without(check_arguments(arguments), self._options.strip_arguments)
        given = without(given, view.rules.strip_arguments)
        if view.transform is not None:
            given = view.transform.inside(given)
        call = ToolCall(view, given, confirmed)
        if call.needs_confirmation and self._options.approve is None:
            raise NeedsConfirmation(name, arguments=given)
        return call

    def _question(self, call: ToolCall) -> ToolCall:
        """Return the call to ask about: what is shown is not what can be changed."""
        import copy

        return attrs.evolve(call, arguments=copy.deepcopy(call.arguments))

    def _decided(self, call: ToolCall, answer: Any) -> ToolCall:
        """Return the call that was approved.

        Raises:
            NotAllowed: It was not, or is not the one that was asked about any more.
            LocalProtocolError: The changed arguments are none.
        """
        name = call.view.name
        if answer is True:
            decided = call
        elif isinstance(answer, dict):
            decided = attrs.evolve(call, arguments=check_arguments(answer))
        else:
            raise NotAllowed(name, rule="approve")
        # Whoever was asked may have taken a while.
        now = self[name]
        is_same = (now.server, now.tool) == (call.view.server, call.view.tool)
        if not is_same or now.definition != call.view.definition:
            raise NotAllowed(name, rule="approve: the tool changed meanwhile")
        return decided

    def _outgoing(
        self, call: ToolCall, errors: Errors | None, options: dict[str, Any]
    ) -> Outgoing:
        """Return what is sent, trace context added."""
        view, arguments = call.view, call.arguments
        carrier = self._carrier(view)
        if carrier:
            options["meta"] = with_trace_meta(options.get("meta"), carrier)
            key = view.rules.trace_argument or self._options.trace_argument
            if key is not None:
                arguments = with_trace_argument(arguments, key, carrier)
        if logger.isEnabledFor(logging.INFO):
            _log("mcp_call", view, options.get("meta"))
        return Outgoing(
            view, arguments, options, errors or self._options.errors, time.monotonic()
        )

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

    @staticmethod
    def _extra_arguments(outgoing: Outgoing) -> list[Any]:
        """Return what the client's method takes, of a tool that is one.

        Raises:
            LocalProtocolError: An argument is missing, or is not what it should be.
        """
        extra = outgoing.view.extra
        assert extra is not None
        given = outgoing.arguments or {}
        schema = extra.tool.input_schema
        for name in (*schema["required"], *given):
            if name not in schema["properties"]:
                raise LocalProtocolError(f"the tool takes no argument {name!r}")
            kind = schema["properties"][name]["type"]
            if not isinstance(given.get(name), KINDS[kind]):
                raise LocalProtocolError(f"the tool needs {name!r}, which is: {kind}")
        return [given.get(name) for name in extra.parameters]

    # After a call...

    def _finished(self, outgoing: Outgoing, result: CallToolResult) -> CallToolResult:
        """Return the result, cut where it is too long; learn from it."""
        seconds = time.monotonic() - outgoing.started
        view = outgoing.view
        self._options.costs.note(view.server, view.tool, seconds, size_of(result))
        self._log_end(outgoing, seconds, ok=not result.is_error)
        limit = self._options.max_result_bytes
        if limit is None:
            return result
        from mcpwire.tools.results import trim_result

        return trim_result(result, limit)

    def _failed(self, outgoing: Outgoing, error: MCPError) -> CallToolResult:
        """Return the result that stands for an error, where that is wanted.

        Raises:
            MCPError: It is not, or the server said nothing of the kind.
        """
        seconds = time.monotonic() - outgoing.started
        self._log_end(outgoing, seconds, ok=False, error=error)
        if outgoing.errors == "raise" or not isinstance(error, RPCError):
            raise error
        from mcpwire.types import CallToolResult, TextContent

        return CallToolResult(content=[TextContent(error.message)], is_error=True)

    @staticmethod
    def _log_end(
        outgoing: Outgoing, seconds: float, *, ok: bool, error: MCPError | None = None
    ) -> None:
        if logger.isEnabledFor(logging.INFO):
            _log(
                "mcp_result",
                outgoing.view,
                outgoing.options.get("meta"),
                ok=ok,
                seconds=seconds,
                error=error,
            )


def _log(
    event: str, view: ToolView, meta: Mapping[str, Any] | None, **more: Any
) -> None:
    """Tell who called what and how it ended, not with which arguments."""
    facts = {"event": event, "server": view.server, "tool": view.tool, **more}
    trace = (meta or {}).get("traceparent")
    if isinstance(trace, str):
        facts["traceparent"] = trace
    text = " ".join(
        f"{key}={value!r}" for key, value in facts.items() if value != event
    )
    logger.info("%s %s", event, text, extra={"component": "mcp", **facts})
