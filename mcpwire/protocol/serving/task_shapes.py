"""How the two dialects of tasks write them, and what they read from params.

========================  =========================  ===============================
what                      2025-11-25                 the extension of 2026-07-28
========================  =========================  ===============================
answer to the call        ``{"task": {...}}``        flat, ``resultType: "task"``
times                     ``ttl``, ``pollInterval``  ``ttlMs``, ``pollIntervalMs``
result with ``isError``   ``failed``                 ``completed``
the result                `tasks/result`             in the task, as ``result``
what is asked             a request of its own       in the task, ``inputRequests``
========================  =========================  ===============================
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidMessage, InvalidParams
from mcpwire.protocol.methods import find
from mcpwire.protocol.serving.task_states import COMPLETED, FAILED
from mcpwire.types.meta import RELATED_TASK
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.serving.task_states import TaskRecord

__all__ = [
    "created",
    "cursor_of",
    "detailed",
    "legacy_created",
    "legacy_task",
    "read_answers",
    "read_cursor",
    "read_task_id",
    "read_ttl",
    "related",
    "timestamp",
    "unknown_task",
]

_MS: Final = 1_000

_LONGEST_CURSOR: Final = 256


def timestamp(seconds: float) -> str:
    """Return a time as ISO 8601 writes it, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.removesuffix("+00:00") + "Z"


def _standing(record: TaskRecord, status: str, suffix: str) -> dict[str, Any]:
    """Return what every answer says of a task; `suffix` ends the names of its times."""
    standing: dict[str, Any] = {
        "taskId": record.id,
        "status": status,
        "createdAt": timestamp(record.created_at),
        "lastUpdatedAt": timestamp(record.updated_at),
        # Present also where it is null: kept for ever.
        f"ttl{suffix}": None if record.ttl is None else round(record.ttl * _MS),
        f"pollInterval{suffix}": max(1, round(record.poll_interval * _MS)),
    }
    if record.status_message is not None:
        standing["statusMessage"] = record.status_message
    return standing


# The extension...


def created(record: TaskRecord) -> dict[str, Any]:
    """Return the answer to a call that goes on as a task."""
    return {"resultType": "task", **_standing(record, record.status, "Ms")}


def detailed(record: TaskRecord) -> dict[str, Any]:
    """Return a task with what its status brings, as `tasks/get` answers.

    A notification carries the same (SEP-2663, "Task Status Notifications").
    """
    task = _standing(record, record.status, "Ms")
    if record.inputs:
        task["inputRequests"] = dict(record.inputs)
    if record.result is not None:
        task["result"] = record.result
    if record.error is not None:
        task["error"] = record.error
    return task


def read_answers(
    record: TaskRecord, params: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the answers of a `tasks/update` to what is asked still.

    SEP-2663, "Task Update Requests": some of them may be enough for now; keys that
    were never asked or have their answer are passed over.

    Raises:
        InvalidParams: They are no object, or one of them is none for its question.
    """
    given = params.get("inputResponses")
    if type(given) is not dict:
        raise InvalidParams("params.inputResponses must be an object")
    answers = {key: given[key] for key in record.inputs if key in given}
    for key, answer in answers.items():
        _check_answer(key, record.inputs[key]["method"], answer)
    return answers


def _check_answer(key: str, method: str, answer: Any) -> None:
    """Refuse what cannot answer: the question stays, for a better one."""
    from mcpwire import types

    spec = find(method)
    # `check_question` let nothing else be asked.
    assert spec is not None
    assert spec.result is not None
    try:
        types.decode(getattr(types, spec.result), answer)
    except InvalidMessage as error:
        raise InvalidParams(f"params.inputResponses.{key}: {error}") from error


# 2025-11-25...


def legacy_task(record: TaskRecord) -> dict[str, Any]:
    """Return a task as `tasks/get`, `tasks/list` and `tasks/cancel` show it.

    2025-11-25 basic/utilities/tasks, "Task Execution Errors": a result that says the
    tool failed makes the task ``failed``, other than in the extension.
    """
    if record.status == COMPLETED and (record.result or {}).get("isError") is True:
        task = _standing(record, FAILED, "")
        return {**task, "statusMessage": "the tool says that it failed"}
    return _standing(record, record.status, "")


def legacy_created(record: TaskRecord) -> dict[str, Any]:
    """Return the answer to a call that goes on as a task."""
    return related({"task": legacy_task(record)}, record.id)


def related(message: Mapping[str, Any], task_id: str) -> dict[str, Any]:
    """Return params or a result that say which task they belong to.

    2025-11-25 basic/utilities/tasks, "Associating Task-Related Messages": all of them
    must, but for those of `tasks/get`, `tasks/list` and `tasks/cancel`.
    """
    meta = {**(message.get("_meta") or {}), RELATED_TASK: {"taskId": task_id}}
    return {**message, "_meta": meta}


def read_ttl(params: Mapping[str, Any]) -> float | None:
    """Return for how many seconds a client wants its task kept, where it says so.

    Raises:
        InvalidParams: The params do not ask for a task as the schema has it.
    """
    task = params.get("task")
    if type(task) is not dict:
        raise InvalidParams("params.task must be an object")
    ttl = task.get("ttl")
    if ttl is None:
        return None
    if type(ttl) is not int or ttl < 0:
        raise InvalidParams("params.task.ttl must be a number of milliseconds")
    return ttl / _MS


# What both read...


def read_task_id(params: Mapping[str, Any]) -> str:
    """Return which task the params name.

    Raises:
        InvalidParams: They name none.
    """
    task_id = params.get("taskId")
    if type(task_id) is not str:
        raise InvalidParams("params.taskId must be a string")
    return task_id


def unknown_task() -> InvalidParams:
    """Return the answer for an id that nobody has.

    Somebody else's task gets the same, so that nobody learns that it is there.
    """
    return InvalidParams("there is no such task")


def cursor_of(record: TaskRecord) -> str:
    """Return the cursor of the page that comes after a task."""
    return urlsafe_b64encode(encode([record.created_at, record.id])).decode()


def read_cursor(params: Mapping[str, Any]) -> tuple[float, str] | None:
    """Return the creation time and id of the task that a page comes after.

    Raises:
        InvalidParams: The cursor is none of ours.
    """
    cursor = params.get("cursor")
    if cursor is None:
        return None
    after = _decode_cursor(cursor) if type(cursor) is str else None
    # 2025-11-25 basic/utilities/tasks, "Protocol Errors".
    if type(after) is not list or [type(item) for item in after] != [float, str]:
        raise InvalidParams("the cursor is unknown")
    return after[0], after[1]


def _decode_cursor(cursor: str) -> Any:
    if len(cursor) > _LONGEST_CURSOR:
        return None
    try:
        return loads(urlsafe_b64decode(cursor.encode("ascii")))
    except ValueError:  # no ASCII, no base64, no JSON
        return None
