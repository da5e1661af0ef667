"""Tasks, the extension io.modelcontextprotocol/tasks (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import MODERN, Family, NoAnswer
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases._items import TIMESTAMP, is_integer, with_capabilities
from mcpwire.check.cases._subscriptions import open_subscription, subscribe
from mcpwire.check.cases.tasks import (
    FINAL_STATUSES,
    UNKNOWN_TASK,
    check_task_ignored,
    poll_task,
)
from mcpwire.check.roles import arguments_for, call_params, is_named_like

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("task_extension")

ID: Final = "io.modelcontextprotocol/tasks"
CAPABILITIES: Final[dict[str, Any]] = {"extensions": {ID: {}}}
SOURCE: Final = "extensions/tasks#"
STATUSES: Final = FINAL_STATUSES | {"working", "input_required"}
TASK_CALL: Final = "tool calls that declare the extension, until one becomes a task"

_MISSING: Final = -32021
_MAX_TOOLS: Final = 8
_EXTRA_PARAMS: Final[dict[str, Any]] = {"tasks/update": {"inputResponses": {}}}

case = FAMILY.with_defaults(revisions=MODERN, needs=("extension:tasks", "call:"))
without_calls = case.with_defaults(needs=("extension:tasks",))


def _candidates(subject: Subject) -> list[dict[str, Any]]:
    """Return params of calls that may become tasks, the role `task` first."""
    tools = [t for t in subject.facts.callable_tools if not is_named_like(t, "ask")]
    role = subject.facts.roles.get("task")
    tools.sort(key=lambda tool: tool is not role)
    return [
        call_params(each)
        for each in tools[:_MAX_TOOLS]
        if arguments_for(each) is not None
    ]


async def _start_task(subject: Subject) -> tuple[dict[str, Any], Answer]:
    """Start a task; return the params of its call and the answer."""
    for params in _candidates(subject):
        try:
            answer = await subject.request(
                "tools/call", with_capabilities(CAPABILITIES, params)
            )
        except NoAnswer:
            continue
        result = answer.result or {}
        if result.get("resultType") == "task":
            if not isinstance(result.get("taskId"), str):
                subject.raise_broken("a taskId", answer)
            return params, answer
    return subject.raise_absent("call that becomes a task")


async def _request_task(
    subject: Subject, method: str, answer: Answer, **extra: Any
) -> Answer:
    """Send a request about the task that an answer has started."""
    params = {"taskId": (answer.result or {})["taskId"], **extra}
    return await subject.request(method, with_capabilities(CAPABILITIES, params))


async def _wait_until_final(subject: Subject, task_answer: Answer) -> Answer:
    return await poll_task(
        subject, lambda: _request_task(subject, "tasks/get", task_answer)
    )


@case.must(
    "TX-02.a",
    "a client that does not declare the extension gets no task",
    source=f"{SOURCE}capability-negotiation",
    rules=("TX-04",),
    sends="the call that became a task, without the extension",
    expects="a result, or an error -32021",
    why="the client mistakes the task for the result",
)
async def not_declared(subject: Subject) -> None:
    params, _ = await _start_task(subject)
    answer = await subject.request("tools/call", params)
    is_task = (answer.result or {}).get("resultType") == "task"
    subject.expect(not is_task, "no task", answer)
    if answer.error is not None:
        subject.expect_error(answer, _MISSING)


def _check_task(subject: Subject, result: dict[str, Any], answer: object) -> None:
    for name in ("createdAt", "lastUpdatedAt"):
        fits = TIMESTAMP.fullmatch(str(result.get(name)))
        subject.expect(fits, f"{name} as an ISO 8601 time", answer)
    status = result.get("status")
    subject.expect(status in STATUSES, "a valid task status", answer)
    ttl = result.get("ttlMs", "none")
    subject.expect(
        ttl is None or is_integer(ttl), "ttlMs as an integer or null", answer
    )


@case.must(
    "TX-08.a",
    "a task has an id, a status, times and ttlMs",
    source=f"{SOURCE}tasks",
    sends=TASK_CALL,
    expects="taskId, status, createdAt, lastUpdatedAt and ttlMs in the result itself",
    why="the client cannot poll the task",
)
async def shape(subject: Subject) -> None:
    _, answer = await _start_task(subject)
    _check_task(subject, answer.result or {}, answer)


@case.must(
    "TX-06.a",
    "a task exists when its call is answered",
    source=f"{SOURCE}task-creation",
    sends=f"{TASK_CALL}; then tasks/get at once",
    expects="a result",
    why="clients believe that the task is lost",
)
async def exists_at_once(subject: Subject) -> None:
    _, task_answer = await _start_task(subject)
    answer = await _request_task(subject, "tasks/get", task_answer)
    subject.expect(answer.result is not None, "the task", answer)


@case.must(
    "TX-05.a",
    "results of tasks/get, tasks/update and tasks/cancel have resultType complete",
    source=f"{SOURCE}polymorphic-results",
    sends=f"{TASK_CALL}; then tasks/get, tasks/update and tasks/cancel",
    expects="resultType complete",
    why="the client mistakes the answer for a new task",
)
async def result_types(subject: Subject) -> None:
    _, task_answer = await _start_task(subject)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        answer = await _request_task(
            subject, method, task_answer, **_EXTRA_PARAMS.get(method, {})
        )
        if answer.result is not None:
            kind = answer.result.get("resultType")
            subject.expect(kind == "complete", "resultType complete", answer)


@case.must(
    "TX-09.a",
    "a finished task has its result or its error",
    source=f"{SOURCE}response",
    rules=("TX-10",),
    sends=f"{TASK_CALL}; then tasks/get until it is finished",
    expects="result if it completed, error if it failed",
    why="the client does not get the result",
)
async def has_result(subject: Subject) -> None:
    _, task_answer = await _start_task(subject)
    answer = await _wait_until_final(subject, task_answer)
    task = answer.result or {}
    name = {"completed": "result", "failed": "error"}.get(str(task.get("status")))
    if name is None:
        subject.raise_absent("task that completes or fails")
    subject.expect(isinstance(task.get(name), dict), f"{name} in the task", answer)


@case.must(
    "TX-15.a",
    "tasks/cancel is acknowledged with an empty result",
    source=f"{SOURCE}task-cancellation",
    sends=f"{TASK_CALL}; then tasks/cancel",
    expects="a result with nothing but resultType and _meta",
    why="the client does not know whether the request was accepted",
)
async def cancel_is_acknowledged(subject: Subject) -> None:
    _, task_answer = await _start_task(subject)
    answer = await _request_task(subject, "tasks/cancel", task_answer)
    extra = (answer.result or {"no": "result"}).keys() - {"resultType", "_meta"}
    subject.expect(not extra, "an empty result", answer)


@case.should(
    "TX-15.b",
    "unrequested input for a task is ignored",
    source=f"{SOURCE}response-1",
    sends=f"{TASK_CALL}; then tasks/update with an unrequested answer",
    expects="no error",
    why="clients that answer twice fail",
)
async def unrequested_input(subject: Subject) -> None:
    _, task_answer = await _start_task(subject)
    responses = {"mcpwire-none": {"action": "cancel"}}
    answer = await _request_task(
        subject, "tasks/update", task_answer, inputResponses=responses
    )
    subject.expect(answer.error is None, "no error", answer)


for _id, _add, _method in (
    ("TX-17.a", without_calls.must, "tasks/get"),
    ("TX-17.b", without_calls.should, "tasks/update"),
    ("TX-17.c", without_calls.should, "tasks/cancel"),
):
    add_exchange_case(
        _add,
        _id,
        f"{_method} for an unknown task is answered with -32602",
        source=f"{SOURCE}protocol-errors",
        send=Request(
            _method,
            with_capabilities(
                CAPABILITIES, {**UNKNOWN_TASK, **_EXTRA_PARAMS.get(_method, {})}
            ),
        ),
        expect=Error(-32602),
        why="clients poll a missing task forever",
    )

add_exchange_case(
    without_calls.must,
    "TX-18.a",
    "task requests from a client without the extension are answered with -32021",
    source=f"{SOURCE}protocol-errors",
    rules=("META-10",),
    send=Request("tasks/get", UNKNOWN_TASK),
    expect=Error(
        _MISSING,
        status=(400,),
        data=lambda data: ID in str(data.get("requiredCapabilities")),
        text="whose requiredCapabilities name the extension",
    ),
    why="the client cannot tell which capability is missing",
)


@without_calls.must(
    "TX-18.b",
    "a subscription to tasks from a client without the extension is refused",
    source=f"{SOURCE}task-status-notifications",
    rules=("SUB-17",),
    sends="subscriptions/listen with taskIds, without the extension",
    expects="an error -32021",
    why="the client cannot tell which capability is missing",
)
async def undeclared_subscription(subject: Subject) -> None:
    subscription = await subscribe(subject, {"taskIds": ["mcpwire-no-such-task"]})
    if not subscription.first.is_answer:
        await subscription.cancel()
        subject.raise_broken("an error -32021", subscription.first.raw)
    error = subscription.first.value.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if code == -32601:
        subject.raise_absent("subscriptions/listen")
    subject.expect(code == _MISSING, "an error -32021", subscription.first.raw)


@case.must(
    "TX-20.a",
    "a task notification has the whole task",
    source=f"{SOURCE}task-status-notifications",
    rules=("TX-19",),
    sends=f"{TASK_CALL}; then subscriptions/listen with its id, until it is finished",
    expects="notifications/tasks with the members of the task",
    why="clients that listen get no result",
)
async def notification_has_task(subject: Subject) -> None:
    _, task_answer = await _start_task(subject)
    id = (task_answer.result or {})["taskId"]
    start = len(subject.received)
    requested = {"taskIds": [id]}
    async with open_subscription(
        subject, requested, capabilities=CAPABILITIES
    ) as subscription:
        if id not in (subscription.granted.get("taskIds") or ()):
            subject.raise_absent("subscription to the task")
        await _wait_until_final(subject, task_answer)
        try:
            await subject.wait_for(
                lambda message: (
                    message.method == "notifications/tasks"
                    and message.params.get("status") in FINAL_STATUSES
                ),
                "notifications/tasks",
                timeout=1.0,
                after=start,
            )
        except NoAnswer:
            subject.raise_absent("notification of the task")  # servers need not send it
    for message in subscription.messages:
        if message.method == "notifications/tasks":
            _check_task(subject, message.params, message.raw)
            is_done = message.params.get("status") == "completed"
            has_it = not is_done or isinstance(message.params.get("result"), dict)
            subject.expect(has_it, "the result of the task", message.raw)


@without_calls.must(
    "TX-21.a",
    "the tasks of 2025-11-25 are not supported",
    source=f"{SOURCE}backward-compatibility",
    sends="tasks/result, with the extension; also checks the capabilities",
    expects="an error -32601, and no capability tasks",
    why="the client uses features that this revision does not have",
)
async def no_earlier_tasks(subject: Subject) -> None:
    declares = "tasks" in subject.facts.capabilities
    subject.expect(not declares, "no capability tasks", subject.facts.capabilities)
    answer = await subject.request(
        "tasks/result", with_capabilities(CAPABILITIES, UNKNOWN_TASK)
    )
    subject.expect_error(answer, -32601)


@case.must(
    "TX-21.b",
    "the task member of 2025-11-25 is ignored in a call",
    source=f"{SOURCE}backward-compatibility",
    needs=("extension:tasks", "role:echo"),
    sends="tools/call with task, without the extension",
    expects="the result of the call",
    why="the client mistakes the task for the result",
)
async def task_member_is_ignored(subject: Subject) -> None:
    await check_task_ignored(subject)


@case.robust(
    "F17.a",
    "task ids cannot be guessed",
    rules=("TX-23",),
    sends=f"{TASK_CALL}, twice",
    expects="two different ids of at least 16 characters that are not all digits",
    why="any client can read the results of others",
)
async def unguessable(subject: Subject) -> None:
    _, first = await _start_task(subject)
    _, second = await _start_task(subject)
    ids = [(each.result or {})["taskId"] for each in (first, second)]
    subject.expect(ids[0] != ids[1], "an id that differs from the first", second)
    for id in ids:
        fits = len(id) >= 16 and not id.isdecimal()
        subject.expect(fits, "16 characters or more, not all digits", id)
