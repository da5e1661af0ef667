"""Tasks, in both dialects.

The experimental one is part of 2025-11-25 and of no other revision. The extension
`io.modelcontextprotocol/tasks` goes with 2026-07-28; it uses some names again for
other shapes, so its types have names of ours here: `CreatedTask`, `DetailedTask`.

=================  ==========================  =====================================
what               2025-11-25                  the extension
=================  ==========================  =====================================
answer to a call   `CreateTaskResult`, nested  `CreatedTask`, flat
`tasks/get`        `GetTaskResult`             `DetailedTask`
times              ``ttl``, ``pollInterval``   ``ttlMs``, ``pollIntervalMs``
the result         `tasks/result`              inside `DetailedTask`
input              a request of its own        `UpdateTaskRequestParams`
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
    from mcpwire.types.elicitation import InputRequests, InputResponses

TaskStatus: TypeAlias = Literal[
    "working", "input_required", "completed", "failed", "cancelled"
]
"""The state of a task; the last three are final."""


class TaskMetadata(WireObject):
    """The request to run a call as a task (2025-11-25 only)."""

    ttl: int | None = None
    """For how many milliseconds the task should be kept."""


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
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval: int | None = None


class CreateTaskResult(BareResult):
    """The answer to a call that runs as a task (2025-11-25 only)."""

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
    """Where the next page starts; any string, even an empty one, means there is one."""


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
    """The result of `tasks/result`, of the call's own type (2025-11-25 only)."""

    """The members of that type; decode `raw` as it."""


# --- the extension


class _ExtensionTask(BareResult):
    """The state of a task (the extension)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval_ms: int | None = None


class CreatedTask(_ExtensionTask):
    """The answer to a call that runs as a task (the extension's CreateTaskResult)."""

    result_type: ResultType = "task"


class DetailedTask(_ExtensionTask):
    """The state of a task, with its result, error or requests (the extension)."""

    input_requests: InputRequests | None = None
    """All that is still to be answered, when the status is ``input_required``."""

    result: JsonObject | None = None
    """What the call gave, when the status is ``completed``."""

    error: JsonObject | None = None
    """The JSON-RPC error, when the status is ``failed``."""

    result_type: Annotated[str | None, Spec("2026-07-28")] = None
    """``complete`` in an answer to `tasks/get`; absent in a notification."""


class UpdateTaskRequestParams(RequestParams):
    """Parameters of `tasks/update`: responses that a task waits for (the extension)."""

    task_id: str
    input_responses: InputResponses
