"""The small messages: progress, logging, completion, cancelling, paging, listening."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import WireType

if TYPE_CHECKING:
    from mcpwire.types._base import (
        Extra,
        Json,
        Meta,
        Raw,
        RequestMeta,
        ResultType,
        Spec,
        Title,
    )

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
    "RequestParams",
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


@attrs.define(repr=False, eq=False)
class RequestParams(WireType):
    """The parameters of a request that has none of its own."""

    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class NotificationParams(WireType):
    """The parameters of a notification that has none of its own."""

    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class PaginatedRequestParams(WireType):
    """What a client sends for a page of a list."""

    cursor: str | None = None
    """Where the page starts, as the page before it said; absent for the first one."""

    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class EmptyResult(WireType):
    """A result that says no more than that it worked."""

    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


# --- progress, logging, cancelling


@attrs.define(repr=False, eq=False)
class ProgressNotificationParams(WireType):
    """How far a request has come."""

    progress_token: ProgressToken
    progress: float
    """Grows with each notification, even where the total is unknown."""

    total: float | None = None
    message: Annotated[str | None, Spec("2025-03-26")] = None
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class LoggingMessageNotificationParams(WireType):
    """What a server wants to have logged."""

    level: LoggingLevel | str
    """How grave it is; unknown levels survive, as a log must not stop the rest."""

    data: Json
    """Any JSON value, ``None`` included."""

    logger: str | None = None
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class SetLevelRequestParams(WireType):
    """What a client sends to say how much it wants to hear (until 2025-11-25)."""

    level: LoggingLevel
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class CancelledNotificationParams(WireType):
    """That somebody no longer waits for an answer."""

    # 2025-11-25 alone lets it be absent, for tasks, which are cancelled otherwise.
    request_id: Annotated[
        RequestId | None,
        Spec(required=("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28")),
    ] = None
    reason: str | None = None
    meta: Meta = None
    extra: Extra = None


# --- completion


@attrs.define(repr=False, eq=False)
class PromptReference(WireType):
    """The prompt whose argument is completed."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: Title = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ResourceTemplateReference(WireType):
    """The resource or template whose variable is completed."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str
    extra: Extra = None


CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference
"""What is completed."""


@attrs.define(repr=False, eq=False)
class CompletionArgument(WireType):
    """The argument that is completed, and what it is so far."""

    name: str
    value: str
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class CompletionContext(WireType):
    """What is known already."""

    arguments: dict[str, str] | None = None
    """The other arguments that have a value."""

    extra: Extra = None


@attrs.define(repr=False, eq=False)
class CompleteRequestParams(WireType):
    """What a client sends to have an argument completed."""

    ref: CompletionReference
    argument: CompletionArgument
    context: Annotated[CompletionContext | None, Spec("2025-06-18")] = None
    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class Completion(WireType):
    """Values that an argument may take."""

    values: list[str]
    """At most 100, the best first."""

    total: int | None = None
    has_more: bool | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class CompleteResult(WireType):
    """What a server proposes for an argument."""

    completion: Completion
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


# --- listening


@attrs.define(repr=False, eq=False)
class SubscriptionFilter(WireType):
    """What a client wants to hear of (2026-07-28)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    """The URIs of resources."""

    task_ids: list[str] | None = None
    """Tasks; of the extension `io.modelcontextprotocol/tasks`."""

    extra: Extra = None


@attrs.define(repr=False, eq=False)
class SubscriptionsListenRequestParams(WireType):
    """What a client sends to listen (2026-07-28)."""

    notifications: SubscriptionFilter
    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class SubscriptionsAcknowledgedNotificationParams(WireType):
    """What of it a server will tell (2026-07-28)."""

    notifications: SubscriptionFilter
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class SubscriptionsListenResult(WireType):
    """That a server ends a subscription (2026-07-28); `meta` says which."""

    result_type: ResultType = "complete"
    meta: RequestMeta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)
