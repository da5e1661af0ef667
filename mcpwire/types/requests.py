"""Progress, logging, completion, cancellation, pagination, subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import SHARED, PlainParams, RequestParams, Result, WireObject

if TYPE_CHECKING:
    from mcpwire.types._base import (
        CLIENT_CAPABILITIES,
        CLIENT_INFO,
        LOG_LEVEL,
        PROTOCOL_VERSION,
        SERVER_INFO,
        SUBSCRIPTION_ID,
        Json,
        RequestMeta,
        Spec,
        Title,
    )
    from mcpwire.types.lifecycle import ClientCapabilities, Implementation

RequestId: TypeAlias = int | str
"""The id of a request; ``7`` and ``"7"`` are different."""

ProgressToken: TypeAlias = int | str
"""The id of a progress report; ``7`` and ``"7"`` are different."""

LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
"""The severity of a message according to RFC 5424."""


# --- types without own members


class NotificationParams(PlainParams):
    """Parameters of a notification without members of its own."""


class PaginatedRequestParams(RequestParams):
    """Parameters of a request for one page of a list."""

    cursor: str | None = None
    """The `next_cursor` of the previous page; absent for the first page."""


class EmptyResult(Result):
    """A result without members of its own."""


# --- progress, logging, cancellation


class ProgressNotificationParams(PlainParams):
    """Parameters of `notifications/progress`."""

    progress_token: ProgressToken
    progress: float
    """The progress so far; it increases with each notification."""

    total: float | None = None
    message: Annotated[str | None, Spec("2025-03-26")] = None


class LoggingMessageNotificationParams(PlainParams):
    """Parameters of `notifications/message`: one log record of a server."""

    level: LoggingLevel | str
    """The severity; unknown levels are kept, so that a log record never fails."""

    data: Json
    """Any JSON value, ``None`` included."""

    logger: str | None = None


class SetLevelRequestParams(PlainParams):
    """Parameters of `logging/setLevel` (until 2025-11-25)."""

    level: LoggingLevel


class CancelledNotificationParams(PlainParams):
    """Parameters of `notifications/cancelled`."""

    # Only 2025-11-25 allows its absence, for tasks, which `tasks/cancel` cancels.
    request_id: Annotated[
        RequestId | None,
        Spec(required=("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28")),
    ] = None
    reason: str | None = None


# --- `_meta`; in all other types it is a plain dict


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


# --- completion


class PromptReference(WireObject):
    """The prompt of the argument."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: Title = None


class ResourceTemplateReference(WireObject):
    """The resource or template of the variable."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str


CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference
"""The prompt or template of the argument to complete."""


class CompletionArgument(WireObject):
    """The argument to complete, with its current value."""

    name: str
    value: str


class CompletionContext(WireObject):
    """The context of a completion."""

    arguments: dict[str, str] | None = None
    """The values of other arguments by their names."""


class CompleteRequestParams(RequestParams):
    """Parameters of `completion/complete`."""

    ref: CompletionReference
    argument: CompletionArgument
    context: Annotated[CompletionContext | None, Spec("2025-06-18")] = None


class Completion(WireObject):
    """Possible values of an argument."""

    values: list[str]
    """At most 100, the best first."""

    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """The result of `completion/complete`."""

    completion: Completion


# --- subscriptions


class SubscriptionFilter(WireObject):
    """The notifications that a subscription selects (2026-07-28)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    """The URIs of resources."""

    task_ids: list[str] | None = None
    """The ids of tasks of the extension `io.modelcontextprotocol/tasks`."""


class SubscriptionsListenRequestParams(RequestParams):
    """Parameters of `subscriptions/listen` (2026-07-28)."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(PlainParams):
    """The notifications that the server agrees to send (2026-07-28)."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The result that ends a subscription (2026-07-28); `meta` has its id."""

    meta: RequestMeta = attrs.field(default=None, kw_only=True, metadata=SHARED)
