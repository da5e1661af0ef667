"""How a task stands, as a value: each step makes a new one, and the last one stays.

::

                 ┌──────────── settle: nothing is asked any more ───────────┐
                 ▼                                                          │
    begin ──► working ───────────────────── ask ──────────────────► input_required
                 │                                                          │
                 └──────────► completed | failed | cancelled ◄──────────────┘
                                        final

The same record serves both dialects of tasks, the experimental one of 2025-11-25 and
the extension of 2026-07-28; how each writes it down stands in `task_shapes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "CANCELLED",
    "COMPLETED",
    "FAILED",
    "FINAL",
    "INPUT_REQUIRED",
    "WORKING",
    "TaskRecord",
    "ask",
    "begin",
    "cancel",
    "complete",
    "describe",
    "evict",
    "expire",
    "fail",
    "interrupt",
    "settle",
]

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
