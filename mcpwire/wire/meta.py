"""The rules for `_meta` keys, and for the trace values that may stand in it.

Pure rules of spelling (2026-07-28 basic/index, "_meta"). What a key means, and who may
send it, is decided above.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.wire.json import Json

__all__ = ["TRACE_KEYS", "is_meta_key", "is_reserved_meta_key", "is_trace_value"]

TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""The keys of trace context; they carry no prefix."""

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_RESERVED_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})
_RESERVED_BARE: Final = frozenset({"progressToken", *TRACE_KEYS})


def is_meta_key(key: str) -> bool:
    """Tell whether a key is spelled as `_meta` asks: perhaps a prefix, then a name."""
    return _KEY.fullmatch(key) is not None


def is_reserved_meta_key(key: str) -> bool:
    """Tell whether only the protocol and its official extensions may define the key."""
    prefix, slash, _ = key.partition("/")
    if not slash:
        return key in _RESERVED_BARE
    # Only the second label counts: com.example.mcp/ is anybody's.
    _, *rest = prefix.split(".", 2)
    return bool(rest) and rest[0].lower() in _RESERVED_LABELS


# W3C Trace Context: versions to come may add fields behind the four of version 00.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_TRACESTATE_MEMBER: Final = re.compile(
    r"([a-z0-9][a-z0-9_*/@-]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
)
_TRACESTATE_MEMBERS_MAX: Final = 32

_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_BAGGAGE_VALUE: Final = r"[!#-+\--:<-\[\]-~]*"
_BAGGAGE_MEMBER: Final = re.compile(
    rf"{_NAME}[ \t]*=[ \t]*{_BAGGAGE_VALUE}"
    rf"(?:[ \t]*;[ \t]*{_NAME}(?:[ \t]*=[ \t]*{_BAGGAGE_VALUE})?)*"
)


def is_trace_value(key: str, value: Json) -> bool:
    """Tell whether the value is one that W3C allows for that key of `TRACE_KEYS`."""
    return isinstance(value, str) and _TRACE_RULES[key](value)


def _is_traceparent(value: str) -> bool:
    match = _TRACEPARENT.fullmatch(value)
    return match is not None and (match[1] != "00" or match[2] is None)


def _is_tracestate(value: str) -> bool:
    # Empty members are allowed and say nothing.
    members = [member for each in value.split(",") if (member := each.strip(" \t"))]
    matches = [_TRACESTATE_MEMBER.fullmatch(member) for member in members]
    keys = {match[1] for match in matches if match is not None}
    return len(members) == len(keys) <= _TRACESTATE_MEMBERS_MAX


def _is_baggage(value: str) -> bool:
    members = [each.strip(" \t") for each in value.split(",")]
    return all(_BAGGAGE_MEMBER.fullmatch(member) for member in members)


_TRACE_RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "traceparent": _is_traceparent,
    "tracestate": _is_tracestate,
    "baggage": _is_baggage,
}
