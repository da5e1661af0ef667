"""`_meta`: its reserved keys, the rules for keys, and its typed forms.

Everywhere else `meta` is a plain dict, as it is open to everybody; who relies on a
reserved key decodes the dict as one of the types here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import attrs

from mcpwire.types._base import WireType
from mcpwire.versions import LATEST

if TYPE_CHECKING:
    from mcpwire.types._fields import Extra
    from mcpwire.types._spec import Spec
    from mcpwire.types.capabilities import ClientCapabilities
    from mcpwire.types.lifecycle import Implementation
    from mcpwire.types.utilities import LoggingLevel, ProgressToken, RequestId
    from mcpwire.versions import Revision

__all__ = [
    "BAGGAGE",
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "LOG_LEVEL",
    "PROGRESS_TOKEN",
    "PROTOCOL_VERSION",
    "RELATED_TASK",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "TRACEPARENT",
    "TRACESTATE",
    "NotificationMetaObject",
    "RequestMetaObject",
    "ResultMetaObject",
    "SubscriptionsListenResultMetaObject",
    "is_reserved_key",
    "is_valid_key",
]

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a key, no secret
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
BAGGAGE: Final = "baggage"

# 2026-07-28 basic/index, "_meta": the reserved keys that have no prefix.
_UNPREFIXED: Final = frozenset({PROGRESS_TOKEN, TRACEPARENT, TRACESTATE, BAGGAGE})

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:{_NAME})?")
_OWNERS: Final = frozenset({"modelcontextprotocol", "mcp"})


def is_valid_key(key: str) -> bool:
    """Return whether a key of `_meta` has the form that the specification asks for."""
    return _KEY.fullmatch(key) is not None


def is_reserved_key(key: str, revision: Revision = LATEST) -> bool:
    """Return whether the specification keeps a key of `_meta` for itself."""
    prefix, slash, _ = key.partition("/")
    if not slash:
        return key in _UNPREFIXED
    labels = prefix.split(".")
    # 2025-11-25 basic/index, "_meta": the second label decides (`com.mcp.tools`);
    # 2025-06-18 looks at the last but one (`tools.mcp.com`).
    at = 1 if revision.name >= "2025-11-25" else -2
    return len(labels) > 1 and labels[at] in _OWNERS


@attrs.define(repr=False, eq=False)
class RequestMetaObject(WireType):
    """What each request of 2026-07-28 says about its sender."""

    protocol_version: Annotated[str, Spec("2026-07-28", wire=PROTOCOL_VERSION)]
    client_capabilities: Annotated[
        ClientCapabilities, Spec("2026-07-28", wire=CLIENT_CAPABILITIES)
    ]
    client_info: Annotated[
        Implementation | None, Spec("2026-07-28", wire=CLIENT_INFO)
    ] = None
    log_level: Annotated[LoggingLevel | None, Spec("2026-07-28", wire=LOG_LEVEL)] = None
    progress_token: ProgressToken | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ResultMetaObject(WireType):
    """What a result of 2026-07-28 says about its sender."""

    server_info: Annotated[
        Implementation | None, Spec("2026-07-28", wire=SERVER_INFO)
    ] = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class NotificationMetaObject(WireType):
    """What a notification of 2026-07-28 says about where it belongs."""

    subscription_id: Annotated[
        RequestId | None, Spec("2026-07-28", wire=SUBSCRIPTION_ID)
    ] = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class SubscriptionsListenResultMetaObject(WireType):
    """What the end of a subscription says about which one ends (2026-07-28)."""

    subscription_id: Annotated[RequestId, Spec("2026-07-28", wire=SUBSCRIPTION_ID)]
    server_info: Annotated[
        Implementation | None, Spec("2026-07-28", wire=SERVER_INFO)
    ] = None
    extra: Extra = None
