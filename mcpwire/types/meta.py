"""`_meta`: the keys that the protocol itself uses, and their typed forms.

Everywhere else `meta` is a plain dict, as it is open to everybody; who relies on a
reserved key decodes the dict as one of the types here. How keys may be spelled is a
rule of `mcpwire.wire.meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import attrs

from mcpwire.types._codec.base import WireType

if TYPE_CHECKING:
    from mcpwire.types._codec.fields import Extra
    from mcpwire.types._codec.spec import Spec
    from mcpwire.types.capabilities import ClientCapabilities
    from mcpwire.types.lifecycle import Implementation
    from mcpwire.types.utilities import LoggingLevel, ProgressToken, RequestId

__all__ = [
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "LOG_LEVEL",
    "PROGRESS_TOKEN",
    "PROTOCOL_VERSION",
    "RELATED_TASK",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "NotificationMetaObject",
    "RequestMetaObject",
    "ResultMetaObject",
    "SubscriptionsListenResultMetaObject",
]

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a key, no secret


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
