"""Tasks of 2025-11-25: calls with results that the client fetches later."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family
from mcpwire.check.cases._exchange import Error, Request, add_exchange_case
from mcpwire.check.cases._items import TIMESTAMP, items_of, request_pages
from mcpwire.check.roles import arguments_for, call_params

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("tasks")

REVISION: Final = ("2025-11-25",)
NEEDS: Final = ("tasks.requests.tools.call", "call:")
SOURCE: Final = "basic/utilities/tasks#"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
FINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled"})
TASK_CALL: Final = "tools/call with task, for a tool that supports tasks"

_TTL_MS: Final = 60_000
_POLL_INTERVAL_S: Final = 0.05
UNKNOWN_TASK: Final = {"taskId": "mcpwire-no-such-task"}

case = FAMILY.with_defaults(revisions=REVISION, needs=NEEDS)


def _task_support(tool: dict[str, Any]) -> str:
    execution = tool.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, dict) else None
    return str(support or "forbidden")


def _call_with_support(subject: Subject, support: Collection[str]) -> dict[str, Any]:
    """Return params that call a tool with one of `support` as its `taskSupport`."""
    for tool in subject.facts.callable_tools:
        if _task_support(tool) in support and arguments_for(tool) is not None:
            return call_params(tool)
    return subject.raise_absent(
        f"callable tool with taskSupport {' or '.join(support)}"
    )


async def _start_task(subject: Subject) -> tuple[dict[str, Any], Answer]:
    """Start a task; return the task and the answer."""
    params = _call_with_support(subject, ("optional", "required"))
    answer = await subject.request("tools/call", {**params, "task": {"ttl": _TTL_MS}})
    task = (answer.result or {}).get("task")
    if not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
        subject.raise_broken("a result with a task", answer)
    return task, answer


async def _request_task(subject: Subject, method: str, task: dict[str, Any]) -> Answer:
    return await subject.request(method, {"taskId": task["taskId"]})


async def _wait_until_final(subject: Subject, task: dict[str, Any]) -> Answer:
    return await poll_task(subject, lambda: _request_task(subject, "tasks/get", task))


async def _task_status(subject: Subject, task: dict[str, Any]) -> tuple[Any, Answer]:
    """Return the status of a task and the answer; verdict `absent` if it is gone."""
    answer = await _request_task(subject, "tasks/get", task)
    if answer.result is None:
        subject.raise_absent("task that still exists")
    return answer.result.get("status"), answer


async def poll_task(subject: Subject, get: Callable[[], Awaitable[Answer]]) -> Answer:
    """Poll a task until its end or an error; verdict `absent` after the time limit."""
    began = monotonic()
    while True:
        answer = await get()
        status = (answer.result or {}).get("status")
        if answer.result is None or status in FINAL_STATUSES:
            return answer
        if monotonic() - began > subject.bound_s:
            subject.raise_absent("task that ends in time")
        await asyncio.sleep(_POLL_INTERVAL_S)


@case.must(
    "T11-05.a",
    "a call with task is answered with a task",
    source=f"{SOURCE}result-retrieval",
    sends=TASK_CALL,
    expects="a CreateTaskResult with the id of a task",
    why="the client waits for a task that does not exist",
)
async def task_is_created(subject: Subject) -> None:
    await _start_task(subject)


@case.must(
    "T11-06.a",
    "ids of tasks are unique",
    source=f"{SOURCE}task-ids",
    sends=f"{TASK_CALL}, twice",
    expects="two different ids",
    why="one client reads the result of another",
)
async def unique_ids(subject: Subject) -> None:
    first, _ = await _start_task(subject)
    second, answer = await _start_task(subject)
    differ = first["taskId"] != second["taskId"]
    subject.expect(differ, "an id that differs from that of the first task", answer)


@case.must(
    "T11-06.b",
    "the status of a finished task does not change",
    source=f"{SOURCE}task-status-lifecycle",
    sends=f"{TASK_CALL}, then tasks/get until it is finished, and once more",
    expects="the same status",
    why="clients have acted on the final status",
)
async def final_status_stays(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    final = await _wait_until_final(subject, task)
    again = await _request_task(subject, "tasks/get", task)
    status = [(each.result or {}).get("status") for each in (final, again)]
    subject.expect(status[0] == status[1], f"{status[0]}", again)


@case.must(
    "T11-07.a",
    "a task has the times of its creation and update, and a ttl",
    source=f"{SOURCE}ttl-and-resource-management",
    sends=f"{TASK_CALL}, then tasks/get",
    expects="createdAt and lastUpdatedAt as ISO 8601 times, and ttl",
    why="clients do not know how long the task is kept",
)
async def task_times(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    answer = await _request_task(subject, "tasks/get", task)
    task_state = answer.result
    if task_state is None:
        subject.raise_broken("a task", answer)
    for name in ("createdAt", "lastUpdatedAt"):
        fits = TIMESTAMP.fullmatch(str(task_state.get(name)))
        subject.expect(fits, f"{name} as an ISO 8601 time", answer)
    subject.expect("ttl" in task_state, "ttl", answer)


@case.must(
    "T11-09.a",
    "tasks/result returns the result of the call",
    source=f"{SOURCE}result-retrieval",
    sends=f"{TASK_CALL}, then tasks/result",
    expects="a result with content, or an error, after the task is finished",
    why="the client does not get the result",
)
async def task_result(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    await _wait_until_final(subject, task)
    answer = await _request_task(subject, "tasks/result", task)
    fits = answer.result is None or "content" in answer.result
    subject.expect(fits, "the result of the call", answer)


@case.must(
    "T11-09.b",
    "tasks/result waits for the end of the task",
    source=f"{SOURCE}result-retrieval",
    sends=f"{TASK_CALL}, tasks/result at once, then tasks/get",
    expects="a finished task after its result is sent",
    why="clients take an early answer for the result",
)
async def result_waits_for_end(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    early = await _request_task(subject, "tasks/result", task)
    if early.result is None:
        subject.raise_absent("task with a result")
    status, after = await _task_status(subject, task)
    subject.expect(status in FINAL_STATUSES, "a finished task", after)


@case.must(
    "T11-10.a",
    "the result of a task names the task",
    source=f"{SOURCE}related-task-metadata",
    sends=f"{TASK_CALL}, then tasks/result",
    expects="io.modelcontextprotocol/related-task with its id in _meta",
    why="clients cannot tell which task the result belongs to",
)
async def result_names_task(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    await _wait_until_final(subject, task)
    answer = await _request_task(subject, "tasks/result", task)
    if answer.result is None:
        subject.raise_absent("task with a result")
    meta = answer.result.get("_meta")
    related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
    named = related.get("taskId") if isinstance(related, dict) else None
    subject.expect(named == task["taskId"], f"{RELATED_TASK} {task['taskId']}", answer)


@case.must(
    "T11-12.a",
    "tasks/list contains the existing tasks",
    source=f"{SOURCE}task-listing",
    needs=(*NEEDS, "tasks.list"),
    sends=f"{TASK_CALL}, then tasks/list, page by page",
    expects="the id of the task",
    why="restarted clients do not find their tasks",
)
async def task_is_listed(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    id = task["taskId"]
    async for answer in request_pages(subject, "tasks/list"):
        last = answer
        if id in (each.get("taskId") for each in items_of(answer, "tasks")):
            return
    subject.raise_broken(f"the task {id}", last)


@case.must(
    "T11-13.a",
    "a finished task cannot be cancelled",
    source=f"{SOURCE}task-cancellation",
    needs=(*NEEDS, "tasks.cancel"),
    sends=f"{TASK_CALL}, then tasks/cancel after it is finished",
    expects="an error -32602",
    why="the client believes that the work was cancelled",
)
async def cancel_after_end(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    await _wait_until_final(subject, task)
    answer = await _request_task(subject, "tasks/cancel", task)
    subject.expect_error(answer, -32602)


@case.must(
    "T11-13.b",
    "a cancelled task gets and keeps the status cancelled",
    source=f"{SOURCE}task-cancellation",
    needs=(*NEEDS, "tasks.cancel"),
    sends=f"{TASK_CALL}, then tasks/cancel at once, and tasks/get",
    expects="the status cancelled in both answers",
    why="the client believes that the work continues",
)
async def cancelled_status(subject: Subject) -> None:
    task, _ = await _start_task(subject)
    answer = await _request_task(subject, "tasks/cancel", task)
    if answer.code == -32602:
        subject.raise_absent("task that runs long enough")
    status = (answer.result or {}).get("status")
    subject.expect(status == "cancelled", "the status cancelled", answer)
    status, after = await _task_status(subject, task)
    subject.expect(status == "cancelled", "the status cancelled", after)


for _letter, _method, _more in (
    ("a", "tasks/get", ()),
    ("b", "tasks/result", ()),
    ("c", "tasks/cancel", ("tasks.cancel",)),
):
    add_exchange_case(
        case.must,
        f"T11-14.{_letter}",
        f"{_method} for an unknown task is answered with -32602",
        source=f"{SOURCE}protocol-errors",
        needs=("tasks", *_more),
        send=Request(_method, UNKNOWN_TASK),
        expect=Error(-32602),
        why="clients poll a missing task forever",
    )

add_exchange_case(
    case.must,
    "T11-14.d",
    "an unknown cursor of tasks/list is answered with -32602",
    source=f"{SOURCE}protocol-errors",
    needs=("tasks.list",),
    send=Request("tasks/list", {"cursor": "mcpwire-no-such-cursor"}),
    expect=Error(-32602),
    why="a client with an outdated cursor restarts the list without noticing",
)

add_exchange_case(
    case.must,
    "T11-03.a",
    "a call without task is answered with -32601 if the tool requires tasks",
    source=f"{SOURCE}tool-level-negotiation",
    send=Request(
        "tools/call",
        lambda subject: _call_with_support(subject, ("required",)),
        text="tools/call without task, for a tool whose taskSupport is required",
    ),
    expect=Error(-32601),
    why="the client waits for a long call, or believes that it is done",
)

add_exchange_case(
    case.should,
    "T11-02.a",
    "a call with task is answered with -32601 if the tool does not support tasks",
    source=f"{SOURCE}tool-level-negotiation",
    send=Request(
        "tools/call",
        lambda subject: {
            **_call_with_support(subject, ("forbidden",)),
            "task": {"ttl": _TTL_MS},
        },
        text="tools/call with task, for a tool whose taskSupport is forbidden or "
        "absent",
    ),
    expect=Error(-32601),
    why="the client waits for a task that does not exist",
)


@case.must(
    "T11-04.a",
    "a server without tasks ignores the parameter task",
    source=f"{SOURCE}task-support-and-handling",
    needs=("role:echo",),
    sends="tools/call with task, where tasks.requests.tools.call is not declared",
    expects="the result of the call",
    why="calls of newer clients fail",
)
async def no_tasks(subject: Subject) -> None:
    if subject.facts.declares("tasks.requests.tools.call"):
        subject.raise_absent("need for the rule: the server declares tasks")
    await check_task_ignored(subject)


async def check_task_ignored(subject: Subject) -> None:
    """Check that a call with `task` has a result with content, as without `task`."""
    params = call_params(subject.need_tool("echo"))
    plain = await subject.request("tools/call", params)
    if "content" not in (plain.result or {}):
        subject.raise_absent("`echo` tool that returns content")
    answer = await subject.request("tools/call", {**params, "task": {"ttl": _TTL_MS}})
    fits = "content" in (answer.result or {})
    subject.expect(fits, "the result of the call", answer)
