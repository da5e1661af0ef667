"""Progress, logging, completion, cancellation, paging, subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    PlainParams,
    RequestParams,
    Result,
    WireObject,
)

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
"""The severity of a message, as in RFC 5424."""


# --- what has nothing of its own


class NotificationParams(PlainParams):
    """Parameters of a notification that has none of its own."""


class PaginatedRequestParams(RequestParams):
    """Parameters of a request for one page of a list."""

    cursor: str | None = None
    """Where the page starts, as the page before it said; absent for the first one."""


class EmptyResult(Result):
    """A result without members of its own."""


# --- progress, logging, cancelling


class ProgressNotificationParams(PlainParams):
    """Parameters of `notifications/progress`."""

    progress_token: ProgressToken
    progress: float
    """Grows with each notification, even where the total is unknown."""

    total: float | None = None
    message: Annotated[str | None, Spec("2025-03-26")] = None


class LoggingMessageNotificationParams(PlainParams):
    """Parameters of `notifications/message`: one log record of a server."""

    level: LoggingLevel | str
    """How grave it is; unknown levels survive, as a log must not stop the rest."""

    data: Json
    """Any JSON value, ``None`` included."""

    logger: str | None = None


class SetLevelRequestParams(PlainParams):
    """Parameters of `logging/setLevel` (until 2025-11-25)."""

    level: LoggingLevel


class CancelledNotificationParams(PlainParams):
    """Parameters of `notifications/cancelled`."""

    # 2025-11-25 alone lets it be absent, for tasks, which are cancelled otherwise.
    request_id: Annotated[
        RequestId | None,
        Spec(required=("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28")),
    ] = None
    reason: str | None = None


# --- `_meta`; everywhere else it is a plain dict, open to everybody


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
    """The prompt that the argument belongs to."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: Title = None


class ResourceTemplateReference(WireObject):
    """The resource or template that the variable belongs to."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str


CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference
"""The owner of the argument to complete."""


class CompletionArgument(WireObject):
    """The argument to complete, and its value so far."""

    name: str
    value: str


class CompletionContext(WireObject):
    """The values of other arguments."""

    arguments: dict[str, str] | None = None
    """The other arguments that have a value."""


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


# --- listening


class SubscriptionFilter(WireObject):
    """The notifications that a subscription is for (2026-07-28)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    """The URIs of resources."""

    task_ids: list[str] | None = None
    """Tasks; of the extension `io.modelcontextprotocol/tasks`."""


class SubscriptionsListenRequestParams(RequestParams):
    """Parameters of `subscriptions/listen` (2026-07-28)."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(PlainParams):
    """The notifications that the server agrees to send (2026-07-28)."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The end of a subscription (2026-07-28); `meta` has its id."""

    meta: RequestMeta = attrs.field(default=None, kw_only=True, metadata=SHARED)
