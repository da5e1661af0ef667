"""The small messages: progress, logging, completion, cancelling, paging, listening."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    PlainParams,
    RequestParams,
    Result,
    WireObject,
    shared_last,
)

if TYPE_CHECKING:
    from mcpwire.types._base import Json, RequestMeta, Spec, Title

__all__ = [
    "CancelledNotificationParams",
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "CompletionReference",
    "EmptyResult",
    "LoggingLevel",
    "LoggingMessageNotificationParams",
    "NotificationParams",
    "PaginatedRequestParams",
    "ProgressNotificationParams",
    "ProgressToken",
    "PromptReference",
    "RequestId",
    "ResourceTemplateReference",
    "SetLevelRequestParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
]

RequestId: TypeAlias = int | str
"""What an answer refers to; ``7`` and ``"7"`` are different."""

ProgressToken: TypeAlias = int | str
"""What progress refers to; ``7`` and ``"7"`` are different."""

LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
"""How grave a message is, as in RFC 5424."""


# --- what has nothing of its own


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class NotificationParams(PlainParams):
    """The parameters of a notification that has none of its own."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class PaginatedRequestParams(RequestParams):
    """What a client sends for a page of a list."""

    cursor: str | None = None
    """Where the page starts, as the page before it said; absent for the first one."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class EmptyResult(Result):
    """A result that says no more than that it worked."""


# --- progress, logging, cancelling


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class ProgressNotificationParams(PlainParams):
    """How far a request has come."""

    progress_token: ProgressToken
    progress: float
    """Grows with each notification, even where the total is unknown."""

    total: float | None = None
    message: Annotated[str | None, Spec("2025-03-26")] = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class LoggingMessageNotificationParams(PlainParams):
    """What a server wants to have logged."""

    level: LoggingLevel | str
    """How grave it is; unknown levels survive, as a log must not stop the rest."""

    data: Json
    """Any JSON value, ``None`` included."""

    logger: str | None = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class SetLevelRequestParams(PlainParams):
    """What a client sends to say how much it wants to hear (until 2025-11-25)."""

    level: LoggingLevel


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class CancelledNotificationParams(PlainParams):
    """That somebody no longer waits for an answer."""

    # 2025-11-25 alone lets it be absent, for tasks, which are cancelled otherwise.
    request_id: Annotated[
        RequestId | None,
        Spec(required=("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28")),
    ] = None
    reason: str | None = None


# --- completion


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class PromptReference(WireObject):
    """The prompt that the argument belongs to."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: Title = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class ResourceTemplateReference(WireObject):
    """The resource or template that the variable belongs to."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str


CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference
"""What is completed."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class CompletionArgument(WireObject):
    """The argument that is completed, and what it is so far."""

    name: str
    value: str


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class CompletionContext(WireObject):
    """What is known already."""

    arguments: dict[str, str] | None = None
    """The other arguments that have a value."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class CompleteRequestParams(RequestParams):
    """What a client sends to have an argument completed."""

    ref: CompletionReference
    argument: CompletionArgument
    context: Annotated[CompletionContext | None, Spec("2025-06-18")] = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class Completion(WireObject):
    """Values that an argument may take."""

    values: list[str]
    """At most 100, the best first."""

    total: int | None = None
    has_more: bool | None = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class CompleteResult(Result):
    """What a server proposes for an argument."""

    completion: Completion


# --- listening


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class SubscriptionFilter(WireObject):
    """What a client wants to hear of (2026-07-28)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    """The URIs of resources."""

    task_ids: list[str] | None = None
    """Tasks; of the extension `io.modelcontextprotocol/tasks`."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class SubscriptionsListenRequestParams(RequestParams):
    """What a client sends to listen (2026-07-28)."""

    notifications: SubscriptionFilter


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class SubscriptionsAcknowledgedNotificationParams(PlainParams):
    """What of it a server will tell (2026-07-28)."""

    notifications: SubscriptionFilter


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class SubscriptionsListenResult(Result):
    """That a server ends a subscription (2026-07-28); `meta` says which."""

    meta: RequestMeta = attrs.field(default=None, kw_only=True, metadata=SHARED)
