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

from mcpwire.types._base import WireType

if TYPE_CHECKING:
    from mcpwire.types._base import (
        Extra,
        JsonObject,
        Meta,
        Raw,
        RequestMeta,
        ResultType,
        Spec,
    )
    from mcpwire.types.input import InputRequests, InputResponses

__all__ = [
    "CancelTaskRequestParams",
    "CancelTaskResult",
    "CreateTaskResult",
    "CreatedTask",
    "DetailedTask",
    "GetTaskPayloadRequestParams",
    "GetTaskPayloadResult",
    "GetTaskRequestParams",
    "GetTaskResult",
    "ListTasksResult",
    "RelatedTaskMetadata",
    "Task",
    "TaskMetadata",
    "TaskStatus",
    "TaskStatusNotificationParams",
    "UpdateTaskRequestParams",
]

TaskStatus: TypeAlias = Literal[
    "working", "input_required", "completed", "failed", "cancelled"
]
"""How a task stands; the last three are final."""


@attrs.define(repr=False, eq=False)
class TaskMetadata(WireType):
    """That a request should run as a task (2025-11-25 only)."""

    ttl: int | None = None
    """For how many milliseconds the task should be kept."""

    extra: Extra = None


@attrs.define(repr=False, eq=False)
class RelatedTaskMetadata(WireType):
    """The task that a message belongs to, in its `meta` (2025-11-25 only)."""

    task_id: str
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class Task(WireType):
    """How a task stands (2025-11-25 only)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval: int | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class CreateTaskResult(WireType):
    """That a request runs as a task (2025-11-25 only)."""

    task: Task
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class GetTaskResult(WireType):
    """How a task stands, as a result (2025-11-25 only)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval: int | None = None
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class CancelTaskResult(WireType):
    """How a task stands after it was cancelled (2025-11-25 only)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval: int | None = None
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class TaskStatusNotificationParams(WireType):
    """How a task stands, without being asked (2025-11-25 only)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval: int | None = None
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ListTasksResult(WireType):
    """One page of tasks (2025-11-25 only)."""

    tasks: list[Task]
    next_cursor: str | None = None
    """Where the next page starts; any string, even an empty one, means there is one."""

    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class GetTaskRequestParams(WireType):
    """What is sent to learn how a task stands (both dialects)."""

    task_id: str
    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class CancelTaskRequestParams(WireType):
    """What is sent to cancel a task (both dialects)."""

    task_id: str
    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class GetTaskPayloadRequestParams(WireType):
    """What is sent to wait for a task's result (2025-11-25 only)."""

    task_id: str
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class GetTaskPayloadResult(WireType):
    """A task's result, of the type that the request has otherwise (2025-11-25 only)."""

    meta: Meta = None
    extra: Extra = None
    """The members of that type; decode `raw` as it."""

    raw: Raw = attrs.field(default=None, eq=False)


# --- the extension


@attrs.define(repr=False, eq=False)
class CreatedTask(WireType):
    """That a call runs as a task (the extension's CreateTaskResult)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval_ms: int | None = None
    result_type: ResultType = "task"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class DetailedTask(WireType):
    """How a task stands, with what its status brings (the extension)."""

    task_id: str
    status: TaskStatus | str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    """For how many milliseconds it is kept; ``None`` is for ever."""

    status_message: str | None = None
    poll_interval_ms: int | None = None
    input_requests: InputRequests | None = None
    """All that is still to be answered, when the status is ``input_required``."""

    result: JsonObject | None = None
    """What the call gave, when the status is ``completed``."""

    error: JsonObject | None = None
    """The JSON-RPC error, when the status is ``failed``."""

    result_type: Annotated[str | None, Spec("2026-07-28")] = None
    """``complete`` in an answer to `tasks/get`; absent in a notification."""

    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class UpdateTaskRequestParams(WireType):
    """What is sent to give a task its input (the extension)."""

    task_id: str
    input_responses: InputResponses
    meta: RequestMeta = None
    extra: Extra = None
