"""`_meta`: how keys are spelled, the keys of the protocol, and their typed forms.

Everywhere else `meta` is a plain dict, open to everybody. To rely on a reserved key,
decode the dict as one of the types here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from mcpwire.types._base import WireObject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types._base import Json, Spec
    from mcpwire.types.lifecycle import ClientCapabilities, Implementation
    from mcpwire.types.requests import LoggingLevel, ProgressToken, RequestId

__all__ = [
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "LOG_LEVEL",
    "PROGRESS_TOKEN",
    "PROTOCOL_VERSION",
    "RELATED_TASK",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "TRACE_KEYS",
    "NotificationMetaObject",
    "RequestMetaObject",
    "ResultMetaObject",
    "SubscriptionsListenResultMetaObject",
    "is_meta_key",
    "is_reserved_meta_key",
    "is_trace_value",
]

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a key, no secret
TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""The keys of trace context; they carry no prefix."""

# Patterns are compiled by their first use: importing this stays cheap.
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY: Final = (
    rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_RESERVED_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})
_RESERVED_BARE: Final = frozenset({"progressToken", *TRACE_KEYS})


def is_meta_key(key: str) -> bool:
    """Tell whether a key has the form that `_meta` demands: [prefix/]name."""
    return re.fullmatch(_KEY, key) is not None


def is_reserved_meta_key(key: str) -> bool:
    """Tell whether only the protocol and its own extensions may define a key."""
    prefix, slash, _ = key.partition("/")
    if not slash:
        return key in _RESERVED_BARE
    # Only the second label counts: com.example.mcp/ is anybody's.
    _, *rest = prefix.split(".", 2)
    return bool(rest) and rest[0].lower() in _RESERVED_LABELS


# W3C Trace Context: versions to come may add fields behind the four of version 00.
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


def is_trace_value(key: str, value: Json) -> bool:
    """Tell whether W3C allows the value for that key of `TRACE_KEYS`."""
    return isinstance(value, str) and _TRACE_RULES[key](value)


def _is_traceparent(value: str) -> bool:
    match = re.fullmatch(_TRACEPARENT, value)
    return match is not None and (match[1] != "00" or match[2] is None)


def _is_tracestate(value: str) -> bool:
    # Empty members are allowed and say nothing.
    members = [member for each in value.split(",") if (member := each.strip(" \t"))]
    matches = [re.fullmatch(_TRACESTATE_MEMBER, member) for member in members]
    keys = {match[1] for match in matches if match is not None}
    return len(members) == len(keys) <= _TRACESTATE_MEMBERS_MAX


def _is_baggage(value: str) -> bool:
    members = [each.strip(" \t") for each in value.split(",")]
    return all(re.fullmatch(_BAGGAGE_MEMBER, member) for member in members)


_TRACE_RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "traceparent": _is_traceparent,
    "tracestate": _is_tracestate,
    "baggage": _is_baggage,
}


class RequestMetaObject(WireObject):
    """`_meta` of a request of 2026-07-28: the client and its settings."""

    protocol_version: Annotated[str, Spec("2026-07-28", wire=PROTOCOL_VERSION)]
    client_capabilities: Annotated[
        ClientCapabilities, Spec("2026-07-28", wire=CLIENT_CAPABILITIES)
    ]
    client_info: Annotated[
        Implementation | None, Spec("2026-07-28", wire=CLIENT_INFO)
    ] = None
    log_level: Annotated[LoggingLevel | None, Spec("2026-07-28", wire=LOG_LEVEL)] = None
    progress_token: ProgressToken | None = None


class ResultMetaObject(WireObject):
    """`_meta` of a result of 2026-07-28: the server."""

    server_info: Annotated[
        Implementation | None, Spec("2026-07-28", wire=SERVER_INFO)
    ] = None


class NotificationMetaObject(WireObject):
    """`_meta` of a notification of 2026-07-28: its subscription."""

    subscription_id: Annotated[
        RequestId | None, Spec("2026-07-28", wire=SUBSCRIPTION_ID)
    ] = None


class SubscriptionsListenResultMetaObject(WireObject):
    """`_meta` of the result that ends a subscription (2026-07-28)."""

    subscription_id: Annotated[RequestId, Spec("2026-07-28", wire=SUBSCRIPTION_ID)]
    server_info: Annotated[
        Implementation | None, Spec("2026-07-28", wire=SERVER_INFO)
    ] = None
