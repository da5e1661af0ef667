"""Following tasks to their end: polling, input requests, and the outcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_steps import drive

from mcpwire import types
from mcpwire.errors import (
    CallCancelled,
    InvalidMessage,
    InvalidParams,
    RemoteProtocolError,
    RPCError,
    TooManyQuestions,
)
from mcpwire.protocol.multistep import Call, HandleInput, Sleep
from mcpwire.protocol.tasks import (
    DEFAULT_POLL_S,
    MAX_POLL_S,
    MIN_POLL_S,
    follow_session_task,
    follow_task,
    must_request_task,
    read_created,
    read_detailed,
    read_listed,
    read_outcome,
)
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS

ID = "t-1"
RESULT = {"content": [], "isError": False}
FORM = {"method": "elicitation/create", "params": {"message": "Who?"}}
ROOTS = {"method": "roots/list"}
GET = Call("tasks/get", {"taskId": ID})
WAIT = Sleep(0.5)

TASK_TIMES = {
    "taskId": ID,
    "createdAt": "2026-08-01T10:00:00Z",
    "lastUpdatedAt": "2026-08-01T10:00:00Z",
    "ttlMs": None,
}
SESSION_TASK = {
    "taskId": ID,
    "createdAt": "2025-12-01T10:00:00Z",
    "lastUpdatedAt": "2025-12-01T10:00:01Z",
    "ttl": 60_000,
}


def task(status, **members):
    return {"taskId": ID, "status": status, "pollIntervalMs": 500, **members}


def created(status="working", **members):
    return {"resultType": "task", **task(status, **members)}


def needs(**questions):
    return task("input_required", inputRequests=questions)


DONE = task("completed", result=RESULT)


def update(*keys):
    answers = {key: {"answer to": key} for key in keys}
    return Call("tasks/update", {"taskId": ID, "inputResponses": answers})


@pytest.mark.parametrize(
    "known", [ID, *map(created, ("completed", "failed", "cancelled"))], ids=str
)
def test_task_that_may_have_ended_is_polled_at_once(known):
    assert drive(follow_task(known), DONE) == ([GET], DONE)


@pytest.mark.rule("TX-11")
def test_poll_interval_of_the_latest_response_is_used():
    steps, final = drive(
        follow_task(created(pollIntervalMs=20)),
        task("working", pollIntervalMs=30),
        task("working", pollIntervalMs=1_500),
        DONE,
    )

    assert final is DONE
    assert steps == [Sleep(0.02), GET, Sleep(0.03), GET, Sleep(1.5), GET]


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        (None, DEFAULT_POLL_S),
        (0, MIN_POLL_S),
        (-5, MIN_POLL_S),
        (10**18, MAX_POLL_S),
        (250.0, 0.25),
    ],
)
def test_poll_interval_is_bounded(interval, seconds):
    steps, _ = drive(follow_task(created(pollIntervalMs=interval)), DONE)

    assert steps[0] == Sleep(seconds)


@pytest.mark.parametrize("interval", ["500", True, [500]])
def test_poll_interval_of_another_type_is_refused(interval):
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_task(created(pollIntervalMs=interval)))

    assert caught.value.path == "DetailedTask.pollIntervalMs"
    assert caught.value.expected == "int"


@pytest.mark.parametrize("answer", [{}, {"resultType": "complete"}, created()])
def test_result_type_may_be_missing_or_that_of_the_draft(answer):
    final = {**answer, **DONE}

    assert drive(follow_task(ID), final)[1] is final


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ({**DONE, "resultType": "input_required"}, "Result.resultType"),
        ({**DONE, "resultType": ["task"]}, "Result.resultType"),
        ({**DONE, "taskId": "another"}, "DetailedTask.taskId"),
        ({**DONE, "taskId": 7}, "DetailedTask.taskId"),
        ({"status": "working"}, "DetailedTask.taskId"),
        ({**DONE, "status": "sleeping"}, "DetailedTask.status"),
        ({**DONE, "status": None}, "DetailedTask.status"),
        (task("input_required"), "DetailedTask.inputRequests"),
        (needs(a={"method": "x"}), "DetailedTask.inputRequests['a'].method"),
    ],
)
def test_malformed_response_is_refused_with_its_path(answer, path):
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_task(ID), answer)

    assert caught.value.path == path


def test_long_task_id_is_shortened_in_the_error():
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_task(ID), {**DONE, "taskId": "x" * 100_000})

    assert len(str(caught.value)) < 300


@pytest.mark.rule("TX-12")
def test_simultaneous_input_requests_are_answered_together():
    steps, _ = drive(follow_task(ID), needs(a=FORM, b=ROOTS), DONE)

    assert steps[1:3] == [
        HandleInput("a", "elicitation/create", {"message": "Who?"}),
        HandleInput("b", "roots/list", None),
    ]
    assert steps[3:] == [update("a", "b"), WAIT, GET]


def test_all_input_requests_are_checked_before_any_is_handled():
    operation = follow_task(ID)
    next(operation)

    with pytest.raises(InvalidMessage):
        operation.send(needs(good=FORM, bad={"method": "tools/call"}))


@pytest.mark.rule("TX-13")
def test_endless_input_rounds_end_with_an_error():
    endless = [needs(**{str(number): FORM}) for number in range(3)]

    with pytest.raises(RemoteProtocolError, match="after 2 rounds") as caught:
        drive(follow_task(ID, max_rounds=2), *endless)

    assert "Limits.input_rounds" in caught.value.hint
    assert drive(follow_task(ID, max_rounds=2), *endless[:2], DONE)[1] is DONE


@pytest.mark.attack("X08")
def test_number_of_input_requests_is_limited():
    script = [needs(**{f"{n}": FORM, f"{n}b": FORM}) for n in range(3)]

    assert drive(follow_task(ID, max_requests=4), *script[:2], DONE)[1] is DONE
    with pytest.raises(TooManyQuestions, match="more than 5 requests"):
        drive(follow_task(ID, max_requests=5), *script)


QUESTIONS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([FORM, ROOTS]))


@pytest.mark.rule("TX-12")
@given(st.lists(QUESTIONS, max_size=8))
def test_input_key_is_handled_and_answered_exactly_once(states):
    steps, _ = drive(
        follow_task(ID), *(needs(**questions) for questions in states), DONE
    )

    handled = [step.key for step in steps if type(step) is HandleInput]
    answered = [
        key
        for step in steps
        if type(step) is Call and step.method == "tasks/update"
        for key in step.params["inputResponses"]
    ]
    assert handled == answered
    assert sorted(handled) == sorted({key for questions in states for key in questions})


def test_completed_task_returns_the_result_of_its_call():
    assert read_outcome(DONE) is RESULT


def test_failed_task_raises_the_error_of_its_call():
    error = {"code": -32602, "message": "no such city", "data": {"city": "x"}}

    with pytest.raises(InvalidParams) as caught:
        read_outcome(task("failed", error=error))

    assert (caught.value.message, caught.value.data) == ("no such city", {"city": "x"})
    assert caught.value.method == "tools/call"


def test_unknown_error_code_of_a_failed_task_is_kept():
    with pytest.raises(RPCError) as caught:
        read_outcome(task("failed", error={"code": 7, "message": "out of paper"}))

    assert caught.value.code == 7


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "the task was cancelled"),
        ({"statusMessage": None}, "the task was cancelled"),
        ({"statusMessage": "the operator stopped it"}, "the operator stopped it"),
    ],
)
def test_cancelled_task_raises_call_cancelled(members, reason):
    with pytest.raises(CallCancelled) as caught:
        read_outcome(task("cancelled", **members))

    assert (caught.value.method, caught.value.reason) == ("tools/call", reason)


@pytest.mark.parametrize(
    ("final", "path", "expected", "got"),
    [
        (task("completed"), "DetailedTask.result", "object", "nothing"),
        (task("completed", result=[]), "DetailedTask.result", "object", "list"),
        (task("failed"), "DetailedTask.error", "object", "nothing"),
        (
            task("failed", error={"code": "7", "message": ""}),
            "DetailedTask.error.code",
            "int",
            "str",
        ),
        (
            task("failed", error={"code": 7}),
            "DetailedTask.error.message",
            "str",
            "nothing",
        ),
    ],
)
def test_final_task_without_outcome_is_refused_with_path(final, path, expected, got):
    with pytest.raises(InvalidMessage) as caught:
        read_outcome(final)

    assert (caught.value.path, caught.value.expected) == (path, expected)
    assert caught.value.got == got


# 2025-11-25


def in_session(status, **members):
    return {**SESSION_TASK, "status": status, "pollInterval": 500, **members}


FETCH = Call("tasks/result", {"taskId": ID})


@pytest.mark.rule("T11-08")
@pytest.mark.parametrize("status", ["completed", "failed", "input_required"])
def test_session_result_is_fetched_at_the_end_or_for_input(status):
    states = [in_session("working"), in_session("working", pollInterval=20)]

    steps, final = drive(follow_session_task(ID), *states, in_session(status), RESULT)

    assert steps == [GET, WAIT, GET, Sleep(0.02), GET, FETCH]
    assert final is RESULT


def test_cancelled_session_task_raises_call_cancelled():
    with pytest.raises(CallCancelled, match="the task was cancelled"):
        drive(follow_session_task(ID), in_session("cancelled"))


def test_session_response_about_another_task_is_refused():
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_session_task(ID), in_session("working", taskId="t-2"))

    assert (caught.value.expected, caught.value.got) == ("'t-1'", "'t-2'")


def tool(support=None, *, has_execution=True):
    execution = types.ToolExecution(support) if has_execution else None
    return types.Tool("train", {"type": "object"}, execution=execution)


@pytest.mark.rule("T11-02", "T11-03")
@pytest.mark.parametrize(
    ("listed_tool", "expected"),
    [
        (tool("required"), True),
        (tool("optional"), True),
        (tool("forbidden"), False),
        (tool(), False),
        (tool("sometimes"), False),
        (tool(has_execution=False), False),
        (None, False),
    ],
)
def test_call_requests_a_task_if_the_tool_supports_it(listed_tool, expected):
    assert must_request_task(LATEST_SESSION, listed_tool, is_offered=True) is expected


@pytest.mark.rule("T11-02")
def test_call_requests_no_task_from_a_server_without_tasks():
    assert not must_request_task(LATEST_SESSION, tool("required"), is_offered=False)


@pytest.mark.rule("TX-22")
@pytest.mark.parametrize("revision", [r for r in REVISIONS if r != LATEST_SESSION])
def test_other_revisions_never_request_a_task(revision):
    assert not must_request_task(revision, tool("required"), is_offered=True)


# Both dialects decoded to the same types


def test_created_tasks_of_both_dialects_have_the_same_fields():
    answer = {**TASK_TIMES, "resultType": "task", "status": "working"}
    nested = {"task": in_session("working", statusMessage="so far", vendor=1)}

    new = read_created({**answer, "pollIntervalMs": 5}, LATEST)
    old = read_created(nested, LATEST_SESSION)

    assert (new.task_id, new.status) == (old.task_id, old.status) == (ID, "working")
    assert (new.ttl_ms, new.poll_interval_ms) == (None, 5)
    assert (old.ttl_ms, old.poll_interval_ms) == (60_000, 500)
    assert (old.created_at, old.last_updated_at) == (
        "2025-12-01T10:00:00Z",
        "2025-12-01T10:00:01Z",
    )
    assert (old.status_message, old.extra, old.raw) == ("so far", {"vendor": 1}, nested)


@pytest.mark.parametrize(
    ("answer", "revision"),
    [
        ({"content": []}, LATEST),
        ({"content": [], "resultType": "complete", "task": {}}, LATEST),
        ({"content": []}, LATEST_SESSION),
        ({"content": [], "task": "x"}, LATEST_SESSION),
        ({"content": [], "resultType": "task"}, LATEST_SESSION),
    ],
)
def test_response_without_a_task_is_a_result(answer, revision):
    assert read_created(answer, revision) is None


def test_task_states_of_both_dialects_have_the_same_fields():
    waiting = {**TASK_TIMES, **needs(a=FORM)}
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    waiting["inputRequests"]["a"] = {**FORM, "params": form}

    new = read_detailed(waiting, ID, LATEST)
    old = read_detailed(in_session("input_required"), ID, LATEST_SESSION)

    assert new.input_requests["a"].params.message == "Who?"
    assert (new.status, old.status) == ("input_required", "input_required")
    assert (old.ttl_ms, old.poll_interval_ms, old.input_requests) == (60_000, 500, None)


@pytest.mark.parametrize("revision", [LATEST, LATEST_SESSION])
def test_state_of_another_task_is_refused(revision):
    with pytest.raises(InvalidMessage) as caught:
        read_detailed({**TASK_TIMES, **SESSION_TASK, **DONE}, "t-2", revision)

    assert caught.value.path == "DetailedTask.taskId"


def test_listed_tasks_are_detailed_tasks():
    page = {"tasks": [in_session("working"), in_session("failed", taskId="t-2")]}

    found = read_listed(page)

    assert [(each.task_id, each.status) for each in found] == [
        (ID, "working"),
        ("t-2", "failed"),
    ]
    assert {type(each) for each in found} == {types.DetailedTask}
