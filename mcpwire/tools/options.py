"""The options of a tool set: names, rules and the handling of calls."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import attrs

from mcpwire.limits import check_choice, validate_count
from mcpwire.tools.catalog import Costs
from mcpwire.tools.names import NamePolicy
from mcpwire.tools.results import extra_capabilities
from mcpwire.tools.rules import Rules, as_patterns
from mcpwire.tools.transforms import check_transforms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.tools.lock import ToolLock
    from mcpwire.tools.rules import Confirm, Patterns, TraceContext
    from mcpwire.tools.transforms import ToolCall, ToolTransform

    Approve: TypeAlias = Callable[[ToolCall], Any]

Errors: TypeAlias = Literal["raise", "result"]


class ToolOptions(TypedDict, total=False):
    """The options of a tool set; a pattern is a glob, such as ``"files/*"``.

    Patterns are matched against the tool's name in the set, the name without renaming,
    and ``server/tool``.
    """

    names: NamePolicy
    """The names of tools; ``mcp__{server}__{tool}`` by default."""

    reserved: Iterable[str]
    """Names that no tool may get, such as those of the host's own tools."""

    allow: Patterns
    """If not empty: only matching tools are offered and can be called."""

    deny: Patterns
    """Matching tools are not offered and cannot be called; wins over `allow`."""

    groups: Iterable[str] | None
    """Only the tools of these groups are offered; ``None``: of all."""

    confirm: Confirm
    """Which calls need confirmation: ``True``: all; ``"mutating"``: all except those of
    tools that a server in `trusted` declares read-only; or patterns."""

    approve: Approve | None
    """A plain or async function that gets a `ToolCall` before each call. ``True``
    approves it, also if it needs confirmation; a dict approves it with these arguments;
    any other result, or an exception, raises `NotAllowed`."""

    trusted: bool | Patterns
    """Globs of the servers with trusted annotations."""

    strip_arguments: Patterns
    """Exact names of arguments that are removed from calls, as the host sets them.
    Arguments that `transforms` and `approve` add are sent."""

    trace_context: TraceContext
    """Whether trace context is sent in `_meta`. A function returns the context, such as
    ``{"traceparent": "00-...", "run_id": "7"}``; ``True``: the environment variables
    ``TRACEPARENT``, ``TRACESTATE`` and ``BAGGAGE`` of this process."""

    trace_argument: str | None
    """The name of an argument for the whole result of `trace_context`."""

    transforms: Mapping[str, ToolTransform]
    """Transforms of tools, by pattern; the first matching one applies."""

    resources_as_tools: bool
    prompts_as_tools: bool

    errors: Errors
    """``"result"``: a JSON-RPC error becomes a result with `is_error`."""

    max_result_bytes: int | None
    """Longer results are cut, with a marker."""

    lock: ToolLock | None
    """The accepted tools; changed ones are refused."""

    costs: Costs
    """The recorded costs of calls, of this set or shared by several."""


def _as_groups(value: Iterable[str] | None) -> frozenset[str] | None:
    return None if value is None else frozenset(as_patterns(value))


def _as_trusted(value: bool | Patterns) -> tuple[str, ...]:  # noqa: FBT001 - an option
    if isinstance(value, bool):
        return ("*",) if value else ()
    return as_patterns(value)


def check_errors(value: Any) -> Errors:
    """Return the option `errors` if it is valid."""
    errors: Errors = check_choice(value, "errors", ("raise", "result"))
    return errors


@attrs.frozen(kw_only=True, eq=False)
class Options:
    """`ToolOptions`, checked and complete."""

    names: NamePolicy = attrs.field(
        factory=NamePolicy, validator=attrs.validators.instance_of(NamePolicy)
    )
    reserved: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    allow: Patterns = ()
    deny: Patterns = ()
    groups: frozenset[str] | None = attrs.field(default=None, converter=_as_groups)
    confirm: Confirm = ()
    approve: Approve | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.is_callable()),
    )
    trusted: tuple[str, ...] = attrs.field(default=(), converter=_as_trusted)
    strip_arguments: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    trace_context: TraceContext = None
    trace_argument: str | None = None
    transforms: Mapping[str, ToolTransform] = attrs.field(
        factory=dict, converter=check_transforms
    )
    resources_as_tools: bool = False
    prompts_as_tools: bool = False
    errors: Errors = attrs.field(default="raise", converter=check_errors)
    max_result_bytes: int | None = attrs.field(default=None, validator=validate_count)
    lock: ToolLock | None = None
    costs: Costs = attrs.field(factory=Costs)

    rules: Rules = attrs.field(init=False)
    """The rules of `allow`, `deny` and `confirm`."""

    @rules.default
    def _rules(self) -> Rules:
        return Rules(allow=self.allow, deny=self.deny, confirm=self.confirm)

    @property
    def extras(self) -> frozenset[str]:
        """The capabilities that become tools."""
        return extra_capabilities(
            resources=self.resources_as_tools, prompts=self.prompts_as_tools
        )

    def trusts(self, server: str) -> bool:
        """Return whether a server's annotations are trusted."""
        return any(fnmatch.fnmatchcase(server, pattern) for pattern in self.trusted)
