"""Tasks in both dialects: the experimental tasks of 2025-11-25, and the extension.

The experimental tasks exist in 2025-11-25 only. The extension
`io.modelcontextprotocol/tasks` for 2026-07-28 reuses some of their names for other
structures, so two of its types have other names here: `CreatedTask`, `DetailedTask`.

=================  ==========================  =====================================
subject            2025-11-25                  the extension
=================  ==========================  =====================================
result of a call   `CreateTaskResult`, nested  `CreatedTask`, flat
`tasks/get`        `GetTaskResult`             `DetailedTask`
times              ``ttl``, ``pollInterval``   ``ttlMs``, ``pollIntervalMs``
final result       `tasks/result`              in `DetailedTask`
input              a separate request          `UpdateTaskRequestParams`
=================  ==========================  =====================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    BareResult,
    PlainParams,
    RequestParams,
    WireObject,
)

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Meta, ResultType, Spec
    from mcpwire.types.client_features import InputRequests, InputResponses

TaskStatus: TypeAlias = Literal[
    "working", "input_required", "completed", "failed", "cancelled"
]
"""The state of a task; the last three are final."""


class TaskMetadata(WireObject):
    """The parameter that makes a call run as a task (2025-11-25 only)."""

    ttl: int | None = None
    """The requested lifetime of the task in milliseconds."""


class RelatedTaskMetadata(WireObject):
    """The task of a message, in its `meta` (2025-11-25 only)."""

    task_id: str


class Task(WireObject):
    """The state of a task (2025-11-25 only)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl: int | None
    """The lifetime of the task in milliseconds; ``None``: unlimited."""

    status_message: str | None = None
    poll_interval: int | None = None


class CreateTaskResult(BareResult):
    """The result of a call that runs as a task (2025-11-25 only)."""

    task: Task


class GetTaskResult(Task):
    """The result of `tasks/get` (2025-11-25 only)."""

    meta: Meta = attrs.field(default=None, kw_only=True, metadata=SHARED)
    raw: JsonObject | None = attrs.field(
        default=None, eq=False, kw_only=True, metadata=SHARED
    )


class CancelTaskResult(GetTaskResult):
    """The result of `tasks/cancel` (2025-11-25 only)."""


class TaskStatusNotificationParams(Task):
    """Parameters of `notifications/tasks/status` (2025-11-25 only)."""

    meta: Meta = attrs.field(default=None, kw_only=True, metadata=SHARED)


class ListTasksResult(BareResult):
    """One page of tasks (2025-11-25 only)."""

    tasks: list[Task]
    next_cursor: str | None = None
    """The cursor of the next page; any string, even an empty one, means more pages."""


class GetTaskRequestParams(RequestParams):
    """Parameters of `tasks/get` (both dialects)."""

    task_id: str


class CancelTaskRequestParams(RequestParams):
    """Parameters of `tasks/cancel` (both dialects)."""

    task_id: str


class GetTaskPayloadRequestParams(PlainParams):
    """Parameters of `tasks/result` (2025-11-25 only)."""

    task_id: str


class GetTaskPayloadResult(BareResult):
    """The result of `tasks/result` (2025-11-25 only); `raw` is the call's result."""


# --- the extension


class _ExtensionTask(BareResult):
    """The state of a task (the extension)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    """The lifetime of the task in milliseconds; ``None``: unlimited."""

    status_message: str | None = None
    poll_interval_ms: int | None = None


class CreatedTask(_ExtensionTask):
    """The result of a call that runs as a task (CreateTaskResult of the extension)."""

    result_type: ResultType = "task"


class DetailedTask(_ExtensionTask):
    """The state of a task, with its result, error or requests (the extension)."""

    input_requests: InputRequests | None = None
    """The pending input requests, if the status is ``input_required``."""

    result: JsonObject | None = None
    """The result of the call, if the status is ``completed``."""

    error: JsonObject | None = None
    """The JSON-RPC error, if the status is ``failed``."""

    result_type: Annotated[str | None, Spec("2026-07-28")] = None
    """``complete`` in the result of `tasks/get`; absent in a notification."""


class UpdateTaskRequestParams(RequestParams):
    """Parameters of `tasks/update`: responses to input requests (the extension)."""

    task_id: str
    input_responses: InputResponses
