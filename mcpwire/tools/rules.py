"""The rules for tools: patterns, confirmation and trace context.

A pattern is a case-sensitive glob: ``*`` matches any text, ``?`` one character,
``[ab]`` one of these. It is matched against the tool's name in the set, the name
without renaming, and ``server/tool``. The last is exact: no server can name a tool so
that it matches the pattern for another server, if no server's name contains a ``/``.

The trace context of a call is sent in `_meta`, and optionally as an argument.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.types._base import TRACE_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Patterns: TypeAlias = "str | Iterable[str]"
"""One glob, or several."""

Confirm: TypeAlias = "bool | str | Iterable[str]"
"""``True``: all calls; ``"mutating"``: all but those of read-only tools; or globs."""

TraceContext: TypeAlias = "bool | Callable[[], Mapping[str, Any] | None] | None"
"""Whether trace context is sent, or the function that returns it."""


def as_patterns(value: Patterns) -> tuple[str, ...]:
    """Return one glob or several as a tuple."""
    patterns = (value,) if isinstance(value, str) else tuple(value)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern must be a string, got {pattern!r}")
    return patterns


def first_match(patterns: Iterable[str], keys: Iterable[str]) -> str | None:
    """Return the first pattern that matches one of the keys."""
    names = tuple(keys)
    for pattern in patterns:
        if any(fnmatch.fnmatchcase(name, pattern) for name in names):
            return pattern
    return None


def _as_confirm(value: Confirm) -> bool | tuple[str, ...] | Literal["mutating"]:
    if isinstance(value, bool):
        return value
    return "mutating" if value == "mutating" else as_patterns(value)


@attrs.frozen(kw_only=True)
class Rules:
    """Which tools may be called, and which calls need confirmation."""

    allow: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    """If not empty: only matching tools are allowed."""

    deny: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    """Matching tools are refused; wins over `allow`."""

    confirm: bool | tuple[str, ...] | Literal["mutating"] = attrs.field(
        default=(), converter=_as_confirm
    )

    def refusal(self, keys: Iterable[str]) -> str | None:
        """Return the rule that refuses a tool with these names, or ``None``."""
        names = tuple(keys)
        denied = first_match(self.deny, names)
        if denied is not None:
            return f"deny: {denied}"
        if self.allow and first_match(self.allow, names) is None:
            return "no pattern of allow matches it"
        return None

    def needs_confirmation(self, keys: Iterable[str], *, only_reads: bool) -> bool:
        """Return whether calls of a tool with these names need confirmation."""
        if isinstance(self.confirm, bool):
            return self.confirm
        if self.confirm == "mutating":
            return not only_reads
        return first_match(self.confirm, keys) is not None


@attrs.frozen(kw_only=True)
class ServerRules(Rules):
    """The rules for one server's tools, in addition to those for all tools.

    Its patterns are matched against the server's own names of its tools, too.
    """

    strip_arguments: tuple[str, ...] = attrs.field(default=(), converter=as_patterns)
    """Exact names of arguments that are removed from calls."""

    trace_context: TraceContext = None
    """Whether trace context is sent; ``None``: as for all servers."""

    trace_argument: str | None = None
    """The argument for the trace context; ``None``: as for all servers."""


# --- trace context

# W3C Trace Context: later versions may add fields after the four of version 00.
_TRACEPARENT: Final = (
    r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_TRACESTATE_MEMBER: Final = (
    r"([a-z0-9][a-z0-9_*/@-]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
)
_TRACESTATE_MEMBERS_MAX: Final = 32

_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_BAGGAGE_VALUE: Final = r"[!#-+\--:<-\[\]-~]*"
_BAGGAGE_MEMBER: Final = (
    rf"{_NAME}[ \t]*=[ \t]*{_BAGGAGE_VALUE}"
    rf"(?:[ \t]*;[ \t]*{_NAME}(?:[ \t]*=[ \t]*{_BAGGAGE_VALUE})?)*"
)


def is_trace_value(key: str, value: object) -> bool:
    """Return whether W3C allows the value for a key of `TRACE_KEYS`."""
    return isinstance(value, str) and _TRACE_RULES[key](value)


def _is_traceparent(value: str) -> bool:
    match = re.fullmatch(_TRACEPARENT, value)
    return match is not None and (match[1] != "00" or match[2] is None)


def _is_tracestate(value: str) -> bool:
    # Empty members are allowed and ignored.
    members = [member for part in value.split(",") if (member := part.strip(" \t"))]
    matches = [re.fullmatch(_TRACESTATE_MEMBER, member) for member in members]
    keys = {match[1] for match in matches if match is not None}
    return len(members) == len(keys) <= _TRACESTATE_MEMBERS_MAX


def _is_baggage(value: str) -> bool:
    members = [part.strip(" \t") for part in value.split(",")]
    return all(re.fullmatch(_BAGGAGE_MEMBER, member) for member in members)


_TRACE_RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "traceparent": _is_traceparent,
    "tracestate": _is_tracestate,
    "baggage": _is_baggage,
}


SPAN_KEYS: Final = ("traceparent", "tracestate")
"""The two belong together: a caller's is not combined with one from the carrier."""


def with_trace_meta(
    meta: Mapping[str, Any] | None, carrier: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return `_meta` with the valid trace keys of the carrier."""
    # 2026-07-28 basic/index, "_meta": the three keys have no prefix, and their values
    # follow W3C Trace Context and W3C Baggage.
    own = dict(meta or {})
    has_span = any(key in own for key in SPAN_KEYS)
    added = {
        key: carrier[key]
        for key in TRACE_KEYS
        if key not in own
        and not (has_span and key in SPAN_KEYS)
        and is_trace_value(key, carrier.get(key))
    }
    # A tracestate belongs to a traceparent.
    if "tracestate" in added and "traceparent" not in added:
        del added["tracestate"]
    return {**own, **added} if added else meta


def with_trace_argument(
    arguments: dict[str, Any], key: str, carrier: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments with the trace context as one of them."""
    context = {name: value for name, value in carrier.items() if value is not None}
    if not context or key in arguments:
        return arguments
    return {**arguments, key: context}
