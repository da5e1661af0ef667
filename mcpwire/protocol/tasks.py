"""Tasks of both dialects: their records, how they are written, read and followed."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from mcpwire.errors import (
    CallCancelled,
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    MissingCapability,
    RemoteProtocolError,
    rpc_error,
)
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.methods import TASKS, available, declared_extensions, find
from mcpwire.protocol.multistep import (
    COMPLETE,
    TASK,
    Call,
    Sleep,
    check_count,
    read_questions,
)
from mcpwire.types.meta import RELATED_TASK
from mcpwire.versions import LATEST, LATEST_SESSION, Era
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcpwire.errors import RPCError
    from mcpwire.protocol.multistep import Ask, Steps
    from mcpwire.types import CreatedTask, DetailedTask, Task, Tool
    from mcpwire.types.tasks import GetTaskResult
    from mcpwire.versions import Revision


__all__ = [
    "CANCELLED",
    "COMPLETED",
    "FAILED",
    "FINAL",
    "FORBIDDEN",
    "INPUT_REQUIRED",
    "OPTIONAL",
    "REQUIRED",
    "WORKING",
    "HeldTask",
    "TaskLimits",
    "TaskRecord",
    "ask",
    "begin",
    "cancel",
    "check_extension_declared",
    "check_task_can_ask",
    "complete",
    "cursor_of",
    "describe",
    "evict",
    "expire",
    "fail",
    "follow_session_task",
    "follow_task",
    "interrupt",
    "must_request_task",
    "read_answers",
    "read_created",
    "read_cursor",
    "read_detailed",
    "read_listed",
    "read_task_id",
    "read_ttl",
    "relate_to_task",
    "requested_task_id",
    "runs_as_task",
    "select_evictions",
    "select_to_end",
    "settle",
    "task_outcome",
    "timestamp",
    "unknown_task",
    "write_created",
    "write_detailed",
    "write_legacy_created",
    "write_legacy_task",
]


# === task_states


WORKING: Final = "working"
INPUT_REQUIRED: Final = "input_required"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

FINAL: Final = frozenset({COMPLETED, FAILED, CANCELLED})
"""No step leads out of these (2025-11-25 basic/utilities/tasks, "Task Status
Lifecycle"; SEP-2663, "Task Status")."""

_INTERNAL_ERROR: Final = -32603


@attrs.frozen(kw_only=True)
class TaskRecord:
    """One task as it stands; times are seconds since the epoch."""

    id: str
    """How the client names it: unguessable, for it may be all that protects it."""

    owner: str
    """The client that it counts to; empty where clients are not told apart."""

    tool: str
    """The tool that runs in it."""

    status: str = WORKING

    created_at: float

    updated_at: float

    ttl: float | None
    """For how many seconds from its creation it is kept; ``None`` is for ever."""

    poll_interval: float
    """How many seconds a client should let pass between two looks at it."""

    status_message: str | None = None

    inputs: Mapping[str, dict[str, Any]] = attrs.field(factory=dict, repr=False)
    """What is to be answered still: requests of ours by key, oldest first."""

    asked: int = 0
    """How much was asked ever; no key comes twice."""

    result: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """What the call gave, also where that says that the tool failed."""

    error: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """The JSON-RPC error that the call ended with."""

    @property
    def is_final(self) -> bool:
        """Whether nothing of it changes any more."""
        return self.status in FINAL

    @property
    def expires_at(self) -> float | None:
        """When it may be forgotten; ``None``: never."""
        return None if self.ttl is None else self.created_at + self.ttl

    def is_expired(self, now: float) -> bool:
        """Tell whether its time is over."""
        return self.ttl is not None and now >= self.created_at + self.ttl


def begin(
    id: str,
    *,
    owner: str,
    tool: str,
    now: float,
    ttl: float | None,
    poll_interval: float,
) -> TaskRecord:
    """Return a task that has just been created, and is ``working``."""
    return TaskRecord(
        id=id,
        owner=owner,
        tool=tool,
        created_at=float(now),
        updated_at=float(now),
        ttl=ttl,
        poll_interval=poll_interval,
    )


def _step(record: TaskRecord, now: float, **changes: Any) -> TaskRecord:
    # A clock that was set back makes no update that comes before the last one.
    updated_at = max(now, record.updated_at)
    return attrs.evolve(record, updated_at=updated_at, **changes)


def _end(record: TaskRecord, now: float, **changes: Any) -> TaskRecord:
    if record.is_final:
        return record
    return _step(record, now, **{"inputs": {}, "status_message": None, **changes})


def ask(
    record: TaskRecord,
    method: str,
    params: Mapping[str, Any],
    *,
    now: float,
    key: str | None = None,
) -> tuple[TaskRecord, str]:
    """Ask the client for something; return the record and the key of the question.

    Args:
        record: The task.
        method: What is asked for.
        params: With what.
        now: Seconds since the epoch.
        key: A name that no other question of the task has; one is made without it.

    Raises:
        LocalProtocolError: The task has ended, so nobody would answer; or a question
            of that name is open.
    """
    if record.is_final:
        raise LocalProtocolError(
            f"the task is {record.status} and cannot ask {method!r} any more"
        )
    # SEP-2663, "Task Update Requests": a key is unique for the task's whole life.
    number = record.asked + 1
    if key is None:
        key = f"{method.partition('/')[0]}-{number}"
    if key in record.inputs:
        raise LocalProtocolError(f"a question {key!r} of the task is open already")
    inputs = {**record.inputs, key: {"method": method, "params": dict(params)}}
    changes = {"status": INPUT_REQUIRED, "inputs": inputs, "asked": number}
    return _step(record, now, **changes), key


def settle(record: TaskRecord, keys: Collection[str], *, now: float) -> TaskRecord:
    """Take questions away that have their answers, or are not asked any more."""
    left = {key: asked for key, asked in record.inputs.items() if key not in keys}
    if len(left) == len(record.inputs):
        return record
    return _step(record, now, inputs=left, status=INPUT_REQUIRED if left else WORKING)


def describe(record: TaskRecord, message: str, *, now: float) -> TaskRecord:
    """Say how far the work of a task is, unless it has ended."""
    if record.is_final:
        return record
    return _step(record, now, status_message=message)


def complete(record: TaskRecord, result: dict[str, Any], *, now: float) -> TaskRecord:
    """End a task with the result of its call, or leave it as it ended before."""
    return _end(record, now, status=COMPLETED, result=result)


def fail(record: TaskRecord, error: dict[str, Any], *, now: float) -> TaskRecord:
    """End a task with the JSON-RPC error of its call, or leave it as it ended before.

    SEP-2663, "Task Execution Errors": for nothing else, and with a status message.
    """
    message = error.get("message") or "the call failed"
    return _end(record, now, status=FAILED, error=error, status_message=message)


def cancel(record: TaskRecord, *, now: float) -> TaskRecord:
    """End a task that the client wants no more, or leave it as it ended before."""
    message = "the client cancelled the task"
    return _end(record, now, status=CANCELLED, status_message=message)


def interrupt(record: TaskRecord, *, now: float) -> TaskRecord:
    """End a task whose server stopped before it, or leave it as it ended before."""
    return _stop(record, "the server stopped before the task ended", now)


def evict(record: TaskRecord, *, now: float) -> TaskRecord:
    """End a task for one of another client, or leave it as it ended before."""
    return _stop(record, "the task gave way to one of a client with fewer tasks", now)


def expire(record: TaskRecord, *, now: float) -> TaskRecord:
    """End a task that took longer than it is kept, or leave it as it ended before."""
    return _stop(record, "the task took longer than it is kept", now)


def _stop(record: TaskRecord, message: str, now: float) -> TaskRecord:
    return fail(record, {"code": _INTERNAL_ERROR, "message": message}, now=now)


# === task_calls


FORBIDDEN: Final = "forbidden"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"


def runs_as_task(
    support: str,
    tool: str,
    revision: Revision,
    capabilities: Mapping[str, Any],
    params: Mapping[str, Any],
) -> bool:
    """Tell whether a call runs as a task.

    Args:
        support: What the tool says of tasks: one of the three words above.
        tool: Its name, for the refusal.
        revision: The revision of the call.
        capabilities: What the client declared for the call, or for its session.
        params: The params of the call.

    Raises:
        RPCError: The client did not ask as this tool must be asked.
    """
    if revision.era is Era.STATELESS:
        if support == FORBIDDEN:
            return False
        # SEP-2663, "Capability Negotiation": what counts is this very request. A
        # `task` in the params, or `tasks` among the capabilities, is of another time.
        if TASKS in declared_extensions(capabilities):
            return True
        if support == REQUIRED:
            check_extension_declared(capabilities, f"the tool {tool!r}")
        return False
    # Tasks are in no revision before it, so no client of those can ask for one.
    if revision != LATEST_SESSION:
        return False
    wants = "task" in params
    if wants and support == FORBIDDEN:
        raise MethodNotFound(f"the tool {tool!r} cannot run as a task")
    if not wants and support == REQUIRED:
        raise MethodNotFound(f"the tool {tool!r} runs as a task only")
    return wants


def check_extension_declared(capabilities: Mapping[str, Any], what: str) -> None:
    """Refuse what a request without the extension may not have.

    Raises:
        MissingCapability: The client did not declare the extension on it.
    """
    if TASKS not in declared_extensions(capabilities):
        raise MissingCapability(
            f"{what} needs the extension {TASKS!r}",
            data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


def check_task_can_ask(method: str, revision: Revision) -> None:
    """Refuse a question that no client of that revision could be asked in a task.

    Raises:
        LocalProtocolError: A server asks no such thing.
    """
    spec = available(method, revision, "server")
    if spec is None or spec.result is None:
        raise LocalProtocolError(f"no task can ask {method!r} at {revision}")


# === task_shapes


_LONGEST_CURSOR: Final = 256


def timestamp(seconds: float) -> str:
    """Return a time as ISO 8601 writes it, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.removesuffix("+00:00") + "Z"


def _common_fields(record: TaskRecord, status: str, suffix: str) -> dict[str, Any]:
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


def write_created(record: TaskRecord) -> dict[str, Any]:
    """Return the answer to a call that goes on as a task."""
    return {"resultType": "task", **_common_fields(record, record.status, "Ms")}


def write_detailed(record: TaskRecord) -> dict[str, Any]:
    """Return a task with what its status brings, as `tasks/get` answers.

    A notification carries the same (SEP-2663, "Task Status Notifications").
    """
    task = _common_fields(record, record.status, "Ms")
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


def write_legacy_task(record: TaskRecord) -> dict[str, Any]:
    """Return a task as `tasks/get`, `tasks/list` and `tasks/cancel` show it.

    2025-11-25 basic/utilities/tasks, "Task Execution Errors": a result that says the
    tool failed makes the task ``failed``, other than in the extension.
    """
    if record.status == COMPLETED and (record.result or {}).get("isError") is True:
        task = _common_fields(record, FAILED, "")
        return {**task, "statusMessage": "the tool says that it failed"}
    return _common_fields(record, record.status, "")


def write_legacy_created(record: TaskRecord) -> dict[str, Any]:
    """Return the answer to a call that goes on as a task."""
    return relate_to_task({"task": write_legacy_task(record)}, record.id)


def relate_to_task(message: Mapping[str, Any], task_id: str) -> dict[str, Any]:
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


def requested_task_id(params: Mapping[str, Any]) -> str:
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


# === task_room


class TaskLimits(NamedTuple):
    """Bounds on the tasks of one server."""

    kept: int
    """How many are kept in all, finished or not."""

    unfinished: int
    """How many of one owner may be under way."""


class HeldTask(NamedTuple):
    """What matters of a task that is kept."""

    id: str
    owner: str
    is_final: bool


def select_evictions(
    held: Collection[HeldTask], owner: str, limits: TaskLimits
) -> list[str] | None:
    """Return which finished tasks give way to a new one; ``None``: not enough do.

    Args:
        held: The tasks that are kept, the oldest first.
        owner: Whose the new one is.
        limits: The bounds.
    """
    leavers = _evictions(held, owner, limits)
    if leavers is None or not all(task.is_final for task in leavers):
        return None
    return [task.id for task in leavers]


def select_to_end(
    held: Collection[HeldTask], owner: str, limits: TaskLimits
) -> str | None:
    """Return the task under way that has to end first; ``None``: none may.

    Args:
        held: The tasks that are kept, the oldest first.
        owner: Whose the new one is.
        limits: The bounds.
    """
    leavers = _evictions(held, owner, limits) or ()
    return next((task.id for task in leavers if not task.is_final), None)


def _evictions(
    held: Collection[HeldTask], owner: str, limits: TaskLimits
) -> list[HeldTask] | None:
    under_way = sum(task.owner == owner and not task.is_final for task in held)
    if under_way >= limits.unfinished:
        return None
    leavers: list[HeldTask] = []
    left = list(held)
    while len(left) >= limits.kept:
        leaver = _next_eviction(left, owner)
        if leaver is None:
            return None
        left.remove(leaver)
        leavers.append(leaver)
    return leavers


def _next_eviction(held: Collection[HeldTask], owner: str) -> HeldTask | None:
    kept = Counter(task.owner for task in held)
    most = max(kept.values())
    is_greedier = most > kept[owner]
    may_leave = [
        task
        for task in held
        if (kept[task.owner] == most if is_greedier else task.owner == owner)
    ]
    finished = (task for task in may_leave if task.is_final)
    return next(finished, may_leave[0] if is_greedier else None)


# === tasks


POLL_S: Final = 1.0
"""How long to wait between two looks where the server does not say."""

SHORTEST_POLL_S: Final = 0.01
"""No server makes us ask without a pause."""

LONGEST_POLL_S: Final = 86_400.0

_STATUSES: Final = frozenset({WORKING, INPUT_REQUIRED}) | FINAL

_MS: Final = 1_000


# To its end...


def follow_task(
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
        task_id = read_task_id(begun)
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


def follow_session_task(task_id: str) -> Steps[dict[str, Any]]:
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
            raise _cancelled_error(task)
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


def task_outcome(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw result of the call whose task has ended.

    Raises:
        RPCError: It ended with this error.
        CallCancelled: It was cancelled.
        InvalidMessage: It has neither result nor error.
    """
    status = _status(task)
    if status == CANCELLED:
        raise _cancelled_error(task)
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


def _cancelled_error(task: Mapping[str, Any]) -> CallCancelled:
    said = task.get("statusMessage")
    reason = said if type(said) is str else "the task was cancelled"
    return CallCancelled("tools/call", reason=reason)


# What answers say...


def read_task_id(task: Mapping[str, Any]) -> str:
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
    if read_task_id(task) != task_id:
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


def must_request_task(revision: Revision, tool: Tool | None, *, offers: bool) -> bool:
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


def read_created(raw: dict[str, Any], revision: Revision) -> CreatedTask | None:
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
    return CreatedTask(**_common_members(result.task), meta=result.meta, raw=raw)


def read_detailed(
    raw: dict[str, Any], task_id: str, revision: Revision
) -> DetailedTask:
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
    return DetailedTask(**_common_members(result), meta=result.meta, raw=raw)


def read_listed(page: dict[str, Any]) -> list[DetailedTask]:
    """Return the tasks of one page of `tasks/list`.

    Raises:
        InvalidMessage: It is malformed.
    """
    from mcpwire.types import DetailedTask, ListTasksResult, decode

    found = decode(ListTasksResult, page).tasks
    return [DetailedTask(**_common_members(task)) for task in found]


def _common_members(task: Task | GetTaskResult) -> dict[str, Any]:
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
