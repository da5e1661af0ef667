"""Tasks as a client sees them: how they are followed to their end, and what that gives.

::

    the call's answer ──► Sleep ──► Call tasks/get ──► completed | failed | cancelled
                            ▲            │                         │ outcome
                            │ working    │ input_required          ▼
                            ├────────────┤                  result, or error
                            └── Call tasks/update ◄── Ask each new key

That is the extension. In 2025-11-25 `tasks/result` brings the end, and what is asked
meanwhile comes as requests of the server's; both are followed by generators, and both
are shown to users in the extension's types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    CallCancelled,
    InvalidMessage,
    RemoteProtocolError,
    rpc_error,
)
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.multistep import (
    COMPLETE,
    TASK,
    Call,
    Sleep,
    check_count,
    read_questions,
)
from mcpwire.protocol.serving.task_states import (
    CANCELLED,
    FAILED,
    FINAL,
    INPUT_REQUIRED,
    WORKING,
)
from mcpwire.versions import LATEST, LATEST_SESSION, Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.errors import RPCError
    from mcpwire.protocol.multistep import Ask, Steps
    from mcpwire.types import CreatedTask, DetailedTask, Task, Tool
    from mcpwire.types.tasks import GetTaskResult
    from mcpwire.versions import Revision

__all__ = [
    "asks_for_task",
    "created",
    "detailed",
    "follow",
    "follow_session",
    "listed",
    "outcome",
    "read_id",
]

POLL_S: Final = 1.0
"""How long to wait between two looks where the server does not say."""

SHORTEST_POLL_S: Final = 0.01
"""No server makes us ask without a pause."""

LONGEST_POLL_S: Final = 86_400.0

_STATUSES: Final = frozenset({WORKING, INPUT_REQUIRED}) | FINAL

_MS: Final = 1_000


# To its end...


def follow(
    begun: str | Mapping[str, Any],
    *,
    revision: Revision = LATEST,
    limit: int = DEFAULT_LIMITS.input_rounds,
    most: int = DEFAULT_LIMITS.questions,
) -> Steps[dict[str, Any]]:
    """Follow a task of the extension to its end; return it as `tasks/get` shows it.

    Args:
        begun: Its id, or the answer to the call, which was just received.
        revision: The revision spoken.
        limit: How often the task may ask for more.
        most: How many questions it may ask in all.

    Raises:
        InvalidMessage: An answer, or a question in it, is malformed.
        RemoteProtocolError: It does not end to ask.
        TooManyQuestions: It asks more; nobody was asked what is beyond.
    """
    if isinstance(begun, str):
        task_id = begun
    else:
        task_id = read_id(begun)
        if _status(begun) == WORKING:
            yield Sleep(_pause(begun, "pollIntervalMs"))
    answered: set[str] = set()
    rounds = 0
    while True:
        task = _checked((yield Call("tasks/get", {"taskId": task_id})), task_id)
        status = _status(task)
        if status in FINAL:
            return task
        questions = _questions(task, revision) if status == INPUT_REQUIRED else []
        # SEP-2663, "Task Update Requests": a key stays until the server took note of
        # its answer, and nobody is asked twice meanwhile.
        questions = [ask for ask in questions if ask.key not in answered]
        if questions:
            _check_rounds(rounds, limit)
            check_count("tools/call", len(answered) + len(questions), most)
            rounds += 1
            answers = {}
            for question in questions:
                answers[question.key] = yield question
            answered.update(answers)
            yield Call("tasks/update", {"taskId": task_id, "inputResponses": answers})
        yield Sleep(_pause(task, "pollIntervalMs"))


def _questions(task: Mapping[str, Any], revision: Revision) -> list[Ask]:
    found = task.get("inputRequests")
    return read_questions(found, "DetailedTask.inputRequests", revision)


def follow_session(task_id: str) -> Steps[dict[str, Any]]:
    """Follow a task of 2025-11-25 to its end; return the raw result of its call.

    2025-11-25 basic/utilities/tasks, "Getting Tasks": looks until it has ended or
    needs input, at its own pace; then `tasks/result` waits for the rest.

    Raises:
        InvalidMessage: An answer is malformed.
        CallCancelled: The task was cancelled.
    """
    while True:
        task = _checked((yield Call("tasks/get", {"taskId": task_id})), task_id)
        status = _status(task)
        if status == CANCELLED:
            raise _cancelled(task)
        if status != WORKING:
            result: dict[str, Any] = yield Call("tasks/result", {"taskId": task_id})
            return result
        yield Sleep(_pause(task, "pollInterval"))


def _check_rounds(done: int, limit: int) -> None:
    if done >= limit:
        raise RemoteProtocolError(
            f"tools/call: the task still asks for input after {limit} rounds",
            hint="raise Limits.input_rounds if it really needs more",
        )


def outcome(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw result of the call whose task has ended.

    Raises:
        RPCError: It ended with this error.
        CallCancelled: It was cancelled.
        InvalidMessage: It has neither result nor error.
    """
    status = _status(task)
    if status == CANCELLED:
        raise _cancelled(task)
    if status == FAILED:
        raise _failed(task)
    result: dict[str, Any] = _member(task, "result", dict)
    return result


def _failed(task: Mapping[str, Any]) -> RPCError:
    """Return the error that a task says it ended with."""
    error = _member(task, "error", dict)
    path = "DetailedTask.error"
    return rpc_error(
        _member(error, "code", int, path),
        _member(error, "message", str, path),
        data=error.get("data"),
        method="tools/call",
    )


def _cancelled(task: Mapping[str, Any]) -> CallCancelled:
    said = task.get("statusMessage")
    reason = said if type(said) is str else "the task was cancelled"
    return CallCancelled("tools/call", reason=reason)


# What answers say...


def read_id(task: Mapping[str, Any]) -> str:
    """Return the id of a task.

    Raises:
        InvalidMessage: It has none.
    """
    task_id: str = _member(task, "taskId", str)
    return task_id


def _checked(task: dict[str, Any], task_id: str) -> dict[str, Any]:
    """Return what `tasks/get` answered, if it is about that task."""
    # SEP-2663 says that it is `complete`, and shows `task` in an example.
    kind = task.get("resultType")
    if kind not in (None, COMPLETE, TASK):
        expected = f"{COMPLETE!r} or {TASK!r}"
        raise InvalidMessage("Result.resultType", expected=expected, got=_shown(kind))
    if read_id(task) != task_id:
        raise InvalidMessage(
            "DetailedTask.taskId",
            expected=_shown(task_id),
            got=_shown(task["taskId"]),
        )
    return task


def _status(task: Mapping[str, Any]) -> str:
    status: str = _member(task, "status", str)
    if status not in _STATUSES:
        expected = " or ".join(map(repr, sorted(_STATUSES)))
        raise InvalidMessage(
            "DetailedTask.status", expected=expected, got=_shown(status)
        )
    return status


def _pause(task: Mapping[str, Any], member: str) -> float:
    """Return how many seconds to wait before the next look; it may change each time."""
    interval = task.get(member)
    if interval is None:
        return POLL_S
    if isinstance(interval, bool) or not isinstance(interval, int | float):
        raise InvalidMessage(
            f"DetailedTask.{member}", expected="int", got=type(interval).__name__
        )
    return min(max(interval / _MS, SHORTEST_POLL_S), LONGEST_POLL_S)


def _member(
    holder: Mapping[str, Any], member: str, kind: type, path: str = "DetailedTask"
) -> Any:
    found = holder.get(member)
    if type(found) is not kind:
        got = type(found).__name__ if member in holder else "nothing"
        expected = "object" if kind is dict else kind.__name__
        raise InvalidMessage(f"{path}.{member}", expected=expected, got=got)
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


# For users...


def asks_for_task(revision: Revision, tool: Tool | None, *, offers: bool) -> bool:
    """Tell whether a call that may be a task has to ask for that.

    2025-11-25 basic/utilities/tasks, "Tool-Level Negotiation": only where the server
    takes tasks and the tool says that it can be one. In the extension nobody asks.

    Args:
        revision: The revision spoken.
        tool: The tool, as the server lists it; ``None`` where it does not.
        offers: Whether the server declared ``tasks.requests.tools.call``.
    """
    if revision != LATEST_SESSION or not offers or tool is None:
        return False
    execution = tool.execution
    support = None if execution is None else execution.task_support
    return support in {"optional", "required"}


def created(raw: dict[str, Any], revision: Revision) -> CreatedTask | None:
    """Return the task that a call became; ``None``: the answer is its result.

    Raises:
        InvalidMessage: The task is malformed.
    """
    from mcpwire.types import CreatedTask, CreateTaskResult, decode

    if revision.era is Era.STATELESS:
        return decode(CreatedTask, raw) if raw.get("resultType") == TASK else None
    if type(raw.get("task")) is not dict:
        return None
    result = decode(CreateTaskResult, raw)
    return CreatedTask(**_standing(result.task), meta=result.meta, raw=raw)


def detailed(raw: dict[str, Any], task_id: str, revision: Revision) -> DetailedTask:
    """Return what `tasks/get` answered about that task.

    Raises:
        InvalidMessage: It is malformed, or about another task.
    """
    from mcpwire.types import DetailedTask, decode
    from mcpwire.types.tasks import GetTaskResult

    _checked(raw, task_id)
    if revision.era is Era.STATELESS:
        return decode(DetailedTask, raw)
    result = decode(GetTaskResult, raw)
    return DetailedTask(**_standing(result), meta=result.meta, raw=raw)


def listed(page: dict[str, Any]) -> list[DetailedTask]:
    """Return the tasks of one page of `tasks/list`.

    Raises:
        InvalidMessage: It is malformed.
    """
    from mcpwire.types import DetailedTask, ListTasksResult, decode

    found = decode(ListTasksResult, page).tasks
    return [DetailedTask(**_standing(task)) for task in found]


def _standing(task: Task | GetTaskResult) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "status": task.status,
        "created_at": task.created_at,
        "last_updated_at": task.last_updated_at,
        "ttl_ms": task.ttl,
        "status_message": task.status_message,
        "poll_interval_ms": task.poll_interval,
        "extra": task.extra,
    }
