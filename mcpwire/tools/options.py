"""The options of a tool set: what may be called, by which names, and how."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import attrs

from mcpwire.limits import check_choice, check_count
from mcpwire.tools.catalog import Costs
from mcpwire.tools.names import NamePolicy
from mcpwire.tools.results import kinds_as_tools
from mcpwire.tools.rules import Rules, as_patterns
from mcpwire.tools.transforms import check_transforms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.tools.lock import ToolLock
    from mcpwire.tools.rules import Confirm, Patterns, TraceContext
    from mcpwire.tools.transforms import ToolCall, ToolTransform

    Approve: TypeAlias = Callable[[ToolCall], Any]

__all__ = ["Errors", "Options", "ToolOptions"]

Errors: TypeAlias = Literal["raise", "result"]


class ToolOptions(TypedDict, total=False):
    """What a tool set can be told; a pattern is a glob, such as ``"files/*"``.

    Patterns are held against the tool's name here, the one it would have without being
    renamed, and ``server/tool``.
    """

    names: NamePolicy
    """What tools are called; ``mcp__{server}__{tool}`` by default."""

    reserved: Iterable[str]
    """Names that are taken, such as those of the host's own tools."""

    allow: Patterns
    """Where there are any: only what one of them fits is offered and can be called."""

    deny: Patterns
    """What is neither offered nor can be called; wins."""

    groups: Iterable[str] | None
    """Only tools of these groups; ``None``: of all."""

    confirm: Confirm
    """Which calls somebody has to confirm: ``True`` all, ``"mutating"`` all but those
    of tools that only read, by the word of a server in `trusted`, or patterns."""

    approve: Approve | None
    """Asked before each call, with a `ToolCall`; plain or async. ``True`` lets it
    through, also where it needs confirmation; a dict does, with these arguments
    instead; anything else, and raising, is `NotAllowed`."""

    trusted: bool | Patterns
    """Servers (globs of their names) that are believed about side effects."""

    strip_arguments: Patterns
    """What callers may not give, by exact name, as it is the host's own: it is taken
    out. What `transforms` and `approve` put in is sent."""

    trace_context: TraceContext
    """Whether trace context goes along in `_meta`. A function returns what is known,
    such as ``{"traceparent": "00-...", "run_id": "7"}``; ``True``: the variables
    ``TRACEPARENT``, ``TRACESTATE`` and ``BAGGAGE`` of this process' environment."""

    trace_argument: str | None
    """The name of an argument that holds all that `trace_context` returns."""

    transforms: Mapping[str, ToolTransform]
    """By pattern, which tools look different; the first that fits is the one."""

    resources_as_tools: bool
    prompts_as_tools: bool

    errors: Errors
    """``"result"``: a JSON-RPC error becomes a result with `is_error`."""

    max_result_bytes: int | None
    """What is longer is cut, and says so."""

    lock: ToolLock | None
    """What tools were when they were accepted; those that changed are refused."""

    costs: Costs
    """What calls took, learnt by this set, or by several together."""


def _names(value: Iterable[str] | None) -> frozenset[str] | None:
    return None if value is None else frozenset(as_patterns(value))


def _trusted(value: bool | Patterns) -> tuple[str, ...]:  # noqa: FBT001 - an option
    if isinstance(value, bool):
        return ("*",) if value else ()
    return as_patterns(value)


def check_errors(value: Any) -> Errors:
    """Return how errors are told."""
    found: Errors = check_choice(value, "errors", ("raise", "result"))
    return found


def _check_bytes(_: Options, __: object, value: int | None) -> None:
    if value is not None:
        check_count(value, "max_result_bytes")


@attrs.frozen(kw_only=True, eq=False)
class Options:
    """`ToolOptions`, checked and complete."""

    names: NamePolicy = attrs.field(
        factory=NamePolicy, validator=attrs.validators.instance_of(NamePolicy)
    )
    reserved: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    allow: Patterns = ()
    deny: Patterns = ()
    groups: frozenset[str] | None = attrs.field(default=None, converter=_names)
    confirm: Confirm = ()
    approve: Approve | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.is_callable()),
    )
    trusted: tuple[str, ...] = attrs.field(default=(), converter=_trusted)
    strip_arguments: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    trace_context: TraceContext = None
    trace_argument: str | None = None
    transforms: Mapping[str, ToolTransform] = attrs.field(
        factory=dict, converter=check_transforms
    )
    resources_as_tools: bool = False
    prompts_as_tools: bool = False
    errors: Errors = attrs.field(default="raise", converter=check_errors)
    max_result_bytes: int | None = attrs.field(default=None, validator=_check_bytes)
    lock: ToolLock | None = None
    costs: Costs = attrs.field(factory=Costs)

    rules: Rules = attrs.field(init=False)
    """What `allow`, `deny` and `confirm` say."""

    @rules.default
    def _rules(self) -> Rules:
        return Rules(allow=self.allow, deny=self.deny, confirm=self.confirm)

    @property
    def extras(self) -> frozenset[str]:
        """Which capabilities become tools."""
        return kinds_as_tools(
            resources=self.resources_as_tools, prompts=self.prompts_as_tools
        )

    def trusts(self, server: str) -> bool:
        """Tell whether a server's word on side effects is believed."""
        return any(fnmatch.fnmatchcase(server, each) for each in self.trusted)
