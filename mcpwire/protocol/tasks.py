"""Tasks: records of a server, encoding, eviction, and following by a client.

A server stores an immutable `TaskRecord` of each task; each step returns a new one::

                  ┌─────────── settle: no input request is open ─────────────┐
                  ▼                                                          │
    created ──► working ───────────────────── ask ──────────────────► input_required
                  │                                                          │
                  └──────────► completed | failed | cancelled ◄──────────────┘
                                         final

A client follows a task of the extension by the steps of `follow_task`::

    the call's result ──► Sleep ──► Call tasks/get ──► completed | failed | cancelled
                            ▲            │                         │ read_outcome
                            │ working    │ input_required          ▼
                            ├────────────┤                  result, or error
                            └── Call tasks/update ◄── HandleInput each new key

`types.tasks` compares the two dialects; users get both as the types of the extension.
In 2025-11-25 a result with ``isError`` makes the task ``failed``; with the extension
the task is ``completed``.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import attrs

from mcpwire.errors import (
    CallCancelled,
    InternalError,
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    MissingCapability,
    RemoteProtocolError,
    TooManyQuestions,
    excerpt,
    rpc_error,
)
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.methods import (
    TASKS,
    available_method,
    declared_extensions,
    find_method,
)
from mcpwire.protocol.multistep import COMPLETE, TASK, Call, Sleep, read_input_requests
from mcpwire.types._base import RELATED_TASK
from mcpwire.versions import LATEST, LATEST_SESSION, Era
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcpwire.protocol.multistep import Steps
    from mcpwire.types import CreatedTask, DetailedTask, Task, Tool
    from mcpwire.types.tasks import GetTaskResult
    from mcpwire.versions import Revision

T = TypeVar("T")

WORKING: Final = "working"
INPUT_REQUIRED: Final = "input_required"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

FINAL: Final = frozenset({COMPLETED, FAILED, CANCELLED})
"""The final statuses (2025-11-25 basic/utilities/tasks, "Task Status Lifecycle";
SEP-2663, "Task Status")."""

_STATUSES: Final = frozenset({WORKING, INPUT_REQUIRED}) | FINAL

INTERRUPTED: Final = "the server stopped before the task ended"
EVICTED: Final = "the task was evicted for a client with fewer tasks"
EXPIRED: Final = "the task exceeded its time to live"

FORBIDDEN: Final = "forbidden"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"

DEFAULT_POLL_S: Final = 1.0
"""The default interval between two polls."""

MIN_POLL_S: Final = 0.01
MAX_POLL_S: Final = 86_400.0

_MAX_CURSOR_CHARS: Final = 256
_MS: Final = 1_000


# --- the record of a task


@attrs.frozen(kw_only=True)
class TaskRecord:
    """A task; times are Unix times in seconds. A final record does not change."""

    id: str
    """Unguessable: it may be the only protection of the task."""

    owner: str
    """The client that owns the task; empty if clients are not distinguished."""

    tool: str
    status: str = WORKING
    created_at: float = attrs.field(converter=float)

    updated_at: float = attrs.field(
        default=attrs.Factory(lambda self: self.created_at, takes_self=True)
    )

    ttl: float | None
    """The lifetime in seconds after creation; ``None``: unlimited."""

    poll_interval: float
    """The interval in seconds at which a client should poll."""

    status_message: str | None = None

    inputs: Mapping[str, dict[str, Any]] = attrs.field(factory=dict, repr=False)
    """The open input requests by key, oldest first."""

    asked: int = 0
    """The number of all input requests so far; no key is used twice."""

    result: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """The result of the call, also with ``isError``."""

    error: dict[str, Any] | None = attrs.field(default=None, repr=False)
    """The JSON-RPC error of the call."""

    @property
    def is_final(self) -> bool:
        """Whether the task has ended."""
        return self.status in FINAL

    @property
    def expires_at(self) -> float | None:
        """The time of expiry; ``None``: never."""
        return None if self.ttl is None else self.created_at + self.ttl

    def is_expired(self, now: float) -> bool:
        """Return whether the task may be deleted."""
        return self.ttl is not None and now >= self.created_at + self.ttl

    def _step(self, now: float, **changes: Any) -> TaskRecord:
        # The system clock may be set back; the times of a task never decrease.
        return attrs.evolve(self, updated_at=max(now, self.updated_at), **changes)

    def _end(self, now: float, **changes: Any) -> TaskRecord:
        if self.is_final:
            return self
        return self._step(now, **{"inputs": {}, "status_message": None, **changes})

    def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        now: float,
        key: str | None = None,
    ) -> tuple[TaskRecord, str]:
        """Add an input request; return the new record and the key of the request."""
        if self.is_final:
            raise LocalProtocolError(
                f"the task is {self.status} and cannot ask {method!r} any more"
            )
        # SEP-2663, "Task Update Requests": keys are unique over a task's lifetime.
        number = self.asked + 1
        if key is None:
            key = f"{method.partition('/')[0]}-{number}"
        if key in self.inputs:
            raise LocalProtocolError(f"the task already has an open request {key!r}")
        inputs = {**self.inputs, key: {"method": method, "params": dict(params)}}
        record = self._step(now, status=INPUT_REQUIRED, inputs=inputs, asked=number)
        return record, key

    def settle(self, keys: Collection[str], *, now: float) -> TaskRecord:
        """Remove input requests that have a response or are withdrawn."""
        remaining = {
            key: request for key, request in self.inputs.items() if key not in keys
        }
        if len(remaining) == len(self.inputs):
            return self
        return self._step(
            now, inputs=remaining, status=INPUT_REQUIRED if remaining else WORKING
        )

    def describe(self, message: str, *, now: float) -> TaskRecord:
        """Set the status message, unless the task has ended."""
        return self if self.is_final else self._step(now, status_message=message)

    def complete(self, result: dict[str, Any], *, now: float) -> TaskRecord:
        """Complete the task with the result of its call."""
        return self._end(now, status=COMPLETED, result=result)

    def fail(self, error: dict[str, Any], *, now: float) -> TaskRecord:
        """Fail the task with the JSON-RPC error of its call.

        SEP-2663, "Task Execution Errors": only for such errors, with a status message.
        """
        message = error.get("message") or "the call failed"
        return self._end(now, status=FAILED, error=error, status_message=message)

    def stop(self, reason: str, *, now: float) -> TaskRecord:
        """Fail the task for a server reason: `INTERRUPTED`, `EVICTED` or `EXPIRED`."""
        error = {"code": InternalError.default_code, "message": reason}
        return self.fail(error, now=now)

    def cancel(self, *, now: float) -> TaskRecord:
        """Cancel the task on request of the client."""
        message = "the client cancelled the task"
        return self._end(now, status=CANCELLED, status_message=message)


# --- which calls run as tasks


def runs_as_task(
    support: str,
    tool: str,
    revision: Revision,
    capabilities: Mapping[str, Any],
    params: Mapping[str, Any],
) -> bool:
    """Return whether a call of a tool runs as a task (server side).

    In 2025-11-25 the client requests a task with each call. With the extension the
    client declares support, and the server decides.
    """
    if revision.era is Era.STATELESS:
        if support == FORBIDDEN:
            return False
        # SEP-2663, "Capability Negotiation": only this request counts; `task` in the
        # params and `tasks` in the capabilities belong to 2025-11-25.
        if TASKS in declared_extensions(capabilities):
            return True
        if support == REQUIRED:
            check_extension_declared(capabilities, f"the tool {tool!r}")
        return False
    # Older revisions have no tasks.
    if revision != LATEST_SESSION:
        return False
    requests_task = "task" in params
    if requests_task and support == FORBIDDEN:
        raise MethodNotFound(f"the tool {tool!r} cannot run as a task")
    if not requests_task and support == REQUIRED:
        raise MethodNotFound(f"the tool {tool!r} runs as a task only")
    return requests_task


def must_request_task(
    revision: Revision, tool: Tool | None, *, is_offered: bool
) -> bool:
    """Return whether a call must request to run as a task (client side).

    2025-11-25 basic/utilities/tasks, "Tool-Level Negotiation": only if the server
    declared ``tasks.requests.tools.call`` (`is_offered`) and the tool supports it.
    """
    if revision != LATEST_SESSION or not is_offered or tool is None:
        return False
    execution = tool.execution
    return execution is not None and execution.task_support in {OPTIONAL, REQUIRED}


def check_extension_declared(capabilities: Mapping[str, Any], what: str) -> None:
    """Raise `MissingCapability` if a request did not declare the extension."""
    if TASKS not in declared_extensions(capabilities):
        raise MissingCapability(
            f"{what} needs the extension {TASKS!r}",
            data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


def check_task_can_ask(method: str, revision: Revision) -> None:
    """Raise `LocalProtocolError` if the revision has no such server request."""
    spec = available_method(method, revision, "server")
    if spec is None or spec.result is None:
        raise LocalProtocolError(f"a task cannot send {method!r} at {revision}")


# --- encoding and decoding by a server


def _timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.removesuffix("+00:00") + "Z"


def _common_fields(record: TaskRecord, status: str, suffix: str) -> dict[str, Any]:
    """Return the common fields of a task; `suffix` ends the names of durations."""
    fields: dict[str, Any] = {
        "taskId": record.id,
        "status": status,
        "createdAt": _timestamp(record.created_at),
        "lastUpdatedAt": _timestamp(record.updated_at),
        # Required; null means an unlimited lifetime.
        f"ttl{suffix}": None if record.ttl is None else round(record.ttl * _MS),
        f"pollInterval{suffix}": max(1, round(record.poll_interval * _MS)),
    }
    if record.status_message is not None:
        fields["statusMessage"] = record.status_message
    return fields


def write_created(record: TaskRecord) -> dict[str, Any]:
    """Return the result of a call that became a task, in the extension."""
    return {"resultType": TASK, **_common_fields(record, record.status, "Ms")}


def write_detailed(record: TaskRecord) -> dict[str, Any]:
    """Return a task for `tasks/get` and for notifications of the extension."""
    task = _common_fields(record, record.status, "Ms")
    if record.inputs:
        task["inputRequests"] = dict(record.inputs)
    if record.result is not None:
        task["result"] = record.result
    if record.error is not None:
        task["error"] = record.error
    return task


def write_legacy_created(record: TaskRecord) -> dict[str, Any]:
    """Return the result of a call that became a task, in 2025-11-25."""
    return relate_to_task({"task": write_legacy_task(record)}, record.id)


def write_legacy_task(record: TaskRecord) -> dict[str, Any]:
    """Return a task for the methods of 2025-11-25.

    2025-11-25 basic/utilities/tasks, "Task Execution Errors": a task with the result of
    a failed tool is ``failed``, unlike in the extension.
    """
    if record.status == COMPLETED and (record.result or {}).get("isError") is True:
        task = _common_fields(record, FAILED, "")
        return {**task, "statusMessage": "the tool says that it failed"}
    return _common_fields(record, record.status, "")


def relate_to_task(message: Mapping[str, Any], task_id: str) -> dict[str, Any]:
    """Return params or a result with their task in `_meta`.

    2025-11-25 basic/utilities/tasks, "Associating Task-Related Messages": required for
    all but `tasks/get`, `tasks/list` and `tasks/cancel`.
    """
    meta = {**(message.get("_meta") or {}), RELATED_TASK: {"taskId": task_id}}
    return {**message, "_meta": meta}


def read_answers(
    record: TaskRecord, params: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the validated responses of a `tasks/update` to open input requests.

    SEP-2663, "Task Update Requests": partial responses are allowed; unknown and settled
    keys are ignored. An input request with a malformed response stays open.
    """
    from mcpwire import types

    responses = params.get("inputResponses")
    if type(responses) is not dict:
        raise InvalidParams("params.inputResponses must be an object")
    answers = {key: responses[key] for key in record.inputs if key in responses}
    for key, answer in answers.items():
        spec = find_method(record.inputs[key]["method"])
        # `check_task_can_ask` has checked both.
        assert spec is not None
        assert spec.result is not None
        try:
            types.decode(getattr(types, spec.result), answer)
        except InvalidMessage as error:
            raise InvalidParams(f"params.inputResponses.{key}: {error}") from error
    return answers


def read_ttl(params: Mapping[str, Any]) -> float | None:
    """Return the requested lifetime of a task in seconds, or ``None`` (2025-11-25)."""
    task = params.get("task")
    if type(task) is not dict:
        raise InvalidParams("params.task must be an object")
    ttl = task.get("ttl")
    if ttl is None:
        return None
    if type(ttl) is not int or ttl < 0:
        raise InvalidParams("params.task.ttl must be a number of milliseconds")
    return ttl / _MS


def unknown_task() -> InvalidParams:
    """Return the error for unknown tasks, and for tasks of other clients."""
    return InvalidParams("unknown task")


def cursor_after(record: TaskRecord) -> str:
    """Return the cursor of the page after a task."""
    return urlsafe_b64encode(encode([record.created_at, record.id])).decode()


def read_cursor(params: Mapping[str, Any]) -> tuple[float, str] | None:
    """Return creation time and id of the last task before the page, or ``None``."""
    cursor = params.get("cursor")
    if cursor is None:
        return None
    position: Any = None
    if type(cursor) is str and len(cursor) <= _MAX_CURSOR_CHARS:
        with suppress(ValueError):  # not ASCII, not base64, not JSON
            position = loads(urlsafe_b64decode(cursor.encode("ascii")))
    # 2025-11-25 basic/utilities/tasks, "Protocol Errors".
    if type(position) is not list or [type(item) for item in position] != [float, str]:
        raise InvalidParams("the cursor is unknown")
    return position[0], position[1]


# --- eviction


class TaskLimits(NamedTuple):
    """Limits on the number of tasks of one server."""

    total: int
    """The maximum number of tasks, finished or not."""

    unfinished: int
    """The maximum number of unfinished tasks of one owner."""


class StoredTask(NamedTuple):
    """A stored task, with the fields that eviction needs."""

    id: str
    owner: str
    is_final: bool


def select_evictions(
    tasks: Collection[StoredTask], owner: str, limits: TaskLimits
) -> tuple[list[str] | None, str | None]:
    """Select the tasks to evict for a new task of an owner.

    A finished task is kept for its lifetime, as its client expects. Only if the limit
    is reached, the client with the most tasks loses its oldest finished task, or
    without one its oldest task, which must be ended first. A client with no more tasks
    than the owner loses none; then the owner loses its oldest finished task.

    `tasks` are all stored tasks, the oldest first. Returns the ids to evict; or
    ``None`` and the unfinished task to end first, if any.
    """
    unfinished = sum(task.owner == owner and not task.is_final for task in tasks)
    if unfinished >= limits.unfinished:
        return None, None
    evicted: list[str] = []
    to_end: str | None = None
    remaining = list(tasks)
    while len(remaining) >= limits.total:
        counts = Counter(task.owner for task in remaining)
        largest = max(counts.values())
        is_other = largest > counts[owner]
        candidates = [
            task
            for task in remaining
            if (counts[task.owner] == largest if is_other else task.owner == owner)
        ]
        finished = (task for task in candidates if task.is_final)
        task = next(finished, candidates[0] if is_other else None)
        if task is None:
            return None, None
        if not task.is_final and to_end is None:
            to_end = task.id
        remaining.remove(task)
        evicted.append(task.id)
    return (None if to_end else evicted), to_end


# --- following a task by a client


def follow_task(
    task_or_id: str | Mapping[str, Any],
    *,
    revision: Revision = LATEST,
    max_rounds: int = DEFAULT_LIMITS.input_rounds,
    max_requests: int = DEFAULT_LIMITS.questions,
) -> Steps[dict[str, Any]]:
    """Follow a task of the extension to its end; return the result of `tasks/get`."""
    if isinstance(task_or_id, str):
        task_id = task_or_id
    else:
        task_id = read_task_id(task_or_id)
        if _status(task_or_id) == WORKING:
            yield Sleep(_poll_delay(task_or_id, "pollIntervalMs"))
    answered: set[str] = set()
    rounds = 0
    while True:
        task = _check_task((yield Call("tasks/get", {"taskId": task_id})), task_id)
        status = _status(task)
        if status in FINAL:
            return task
        requests = task.get("inputRequests") if status == INPUT_REQUIRED else {}
        path = "DetailedTask.inputRequests"
        # SEP-2663, "Task Update Requests": a key stays until the server has processed
        # its response; do not run the handler twice.
        inputs = [
            request
            for request in read_input_requests(requests, path, revision)
            if request.key not in answered
        ]
        if inputs:
            if rounds >= max_rounds:
                raise RemoteProtocolError(
                    "tools/call: the task still requests input after "
                    f"{max_rounds} rounds",
                    hint="raise Limits.input_rounds if the call needs more",
                )
            rounds += 1
            if len(answered) + len(inputs) > max_requests:
                raise TooManyQuestions("tools/call", limit=max_requests)
            answers = {}
            for request in inputs:
                answers[request.key] = yield request
            answered.update(answers)
            yield Call("tasks/update", {"taskId": task_id, "inputResponses": answers})
        yield Sleep(_poll_delay(task, "pollIntervalMs"))


def follow_session_task(task_id: str) -> Steps[dict[str, Any]]:
    """Follow a task of 2025-11-25 to its end; return the raw result of its call.

    2025-11-25 basic/utilities/tasks, "Getting Tasks": polls until the task has ended or
    needs input; then `tasks/result` blocks until the end.
    """
    while True:
        task = _check_task((yield Call("tasks/get", {"taskId": task_id})), task_id)
        status = _status(task)
        if status == CANCELLED:
            raise _cancellation(task)
        if status != WORKING:
            result: dict[str, Any] = yield Call("tasks/result", {"taskId": task_id})
            return result
        yield Sleep(_poll_delay(task, "pollInterval"))


def read_outcome(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw result of the call of a completed task, or raise its error."""
    status = _status(task)
    if status == CANCELLED:
        raise _cancellation(task)
    if status == FAILED:
        error = _member(task, "error", dict)
        path = "DetailedTask.error"
        raise rpc_error(
            _member(error, "code", int, path),
            _member(error, "message", str, path),
            data=error.get("data"),
            method="tools/call",
        )
    return _member(task, "result", dict)


def _cancellation(task: Mapping[str, Any]) -> CallCancelled:
    message = task.get("statusMessage")
    reason = message if type(message) is str else "the task was cancelled"
    return CallCancelled("tools/call", reason=reason)


# --- decoding by a client


def read_task_id(task: Mapping[str, Any]) -> str:
    """Return the id of a task, or raise `InvalidMessage`."""
    return _member(task, "taskId", str)


def read_created(raw: dict[str, Any], revision: Revision) -> CreatedTask | None:
    """Return the task that a call became; ``None``: `raw` is the call's result."""
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
    """Decode the result of `tasks/get` for a task, or raise `InvalidMessage`."""
    from mcpwire.types import DetailedTask, decode
    from mcpwire.types.tasks import GetTaskResult

    _check_task(raw, task_id)
    if revision.era is Era.STATELESS:
        return decode(DetailedTask, raw)
    result = decode(GetTaskResult, raw)
    return DetailedTask(**_common_members(result), meta=result.meta, raw=raw)


def read_listed(page: dict[str, Any]) -> list[DetailedTask]:
    """Decode the tasks of one page of `tasks/list`, or raise `InvalidMessage`."""
    from mcpwire.types import DetailedTask, ListTasksResult, decode

    tasks = decode(ListTasksResult, page).tasks
    return [DetailedTask(**_common_members(task)) for task in tasks]


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


def _check_task(task: dict[str, Any], task_id: str) -> dict[str, Any]:
    """Check that a result of `tasks/get` has the given task id; return the result."""
    # SEP-2663 requires `complete`, and has `task` in an example.
    kind = task.get("resultType")
    if kind not in (None, COMPLETE, TASK):
        expected = f"{COMPLETE!r} or {TASK!r}"
        raise InvalidMessage("Result.resultType", expected=expected, got=excerpt(kind))
    got = read_task_id(task)
    if got != task_id:
        raise InvalidMessage(
            "DetailedTask.taskId", expected=excerpt(task_id), got=excerpt(got)
        )
    return task


def _status(task: Mapping[str, Any]) -> str:
    status = _member(task, "status", str)
    if status not in _STATUSES:
        expected = " or ".join(map(repr, sorted(_STATUSES)))
        raise InvalidMessage(
            "DetailedTask.status", expected=expected, got=excerpt(status)
        )
    return status


def _poll_delay(task: Mapping[str, Any], member: str) -> float:
    """Return the seconds until the next poll; each result may change them."""
    interval = task.get(member)
    if interval is None:
        return DEFAULT_POLL_S
    if isinstance(interval, bool) or not isinstance(interval, int | float):
        raise InvalidMessage(
            f"DetailedTask.{member}", expected="int", got=type(interval).__name__
        )
    return min(max(interval / _MS, MIN_POLL_S), MAX_POLL_S)


def _member(
    holder: Mapping[str, Any], member: str, kind: type[T], path: str = "DetailedTask"
) -> T:
    value = holder.get(member)
    if type(value) is not kind:
        got = type(value).__name__ if member in holder else "nothing"
        expected = "object" if kind is dict else kind.__name__
        raise InvalidMessage(f"{path}.{member}", expected=expected, got=got)
    return value
