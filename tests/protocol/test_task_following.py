"""Following tasks: what is asked and sent until they end, and what that gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steps import drive

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

STANDING = {
    "taskId": ID,
    "createdAt": "2026-08-01T10:00:00Z",
    "lastUpdatedAt": "2026-08-01T10:00:00Z",
    "ttlMs": None,
}
STANDING_IN_SESSION = {
    "taskId": ID,
    "createdAt": "2025-12-01T10:00:00Z",
    "lastUpdatedAt": "2025-12-01T10:00:01Z",
    "ttl": 60_000,
}


def task(status, **members):
    return {"taskId": ID, "status": status, "pollIntervalMs": 500, **members}


def begun(status="working", **members):
    return {"resultType": "task", **task(status, **members)}


def needs(**questions):
    return task("input_required", inputRequests=questions)


DONE = task("completed", result=RESULT)


def update(*keys):
    answers = {key: {"answer to": key} for key in keys}
    return Call("tasks/update", {"taskId": ID, "inputResponses": answers})


# The way to the end


@pytest.mark.rule("TX-11")
def test_a_task_is_looked_at_until_it_has_ended():
    steps, ended = drive(follow_task(begun()), task("working"), DONE)

    assert steps == [WAIT, GET, WAIT, GET]
    assert ended is DONE


@pytest.mark.parametrize(
    "known", [ID, *map(begun, ("completed", "failed", "cancelled"))], ids=str
)
def test_a_task_that_may_have_ended_is_looked_at_at_once(known):
    assert drive(follow_task(known), DONE) == ([GET], DONE)


@pytest.mark.rule("TX-11")
def test_the_pause_is_what_the_latest_answer_says():
    steps, _ = drive(
        follow_task(begun(pollIntervalMs=20)),
        task("working", pollIntervalMs=30),
        task("working", pollIntervalMs=1_500),
        DONE,
    )

    assert [step.seconds for step in steps if step != GET] == [0.02, 0.03, 1.5]


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
def test_no_server_makes_us_hurry_or_wait_beyond_measure(interval, seconds):
    steps, _ = drive(follow_task(begun(pollIntervalMs=interval)), DONE)

    assert steps[0] == Sleep(seconds)


@pytest.mark.parametrize("interval", ["500", True, [500]])
def test_an_interval_that_is_no_number_is_refused(interval):
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_task(begun(pollIntervalMs=interval)))

    assert caught.value.path == "DetailedTask.pollIntervalMs"
    assert caught.value.expected == "int"


@pytest.mark.parametrize("answer", [{}, {"resultType": "complete"}, begun()])
def test_what_answers_say_they_are_may_be_missing_or_as_in_the_draft(answer):
    ended = {**answer, **DONE}

    assert drive(follow_task(ID), ended)[1] is ended


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
        (
            needs(a={"method": "x"}),
            "DetailedTask.inputRequests['a'].method",
        ),
    ],
)
def test_a_malformed_answer_is_refused_with_its_path(answer, path):
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_task(ID), answer)

    assert caught.value.path == path


def test_a_refusal_shows_no_more_of_an_answer_than_can_be_read():
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_task(ID), {**DONE, "taskId": "x" * 100_000})

    assert len(str(caught.value)) < 300


# What it asks for


@pytest.mark.rule("TX-12")
def test_each_question_is_asked_once_however_long_the_server_shows_it():
    steps, _ = drive(
        follow_task(ID),
        needs(a=FORM),
        needs(a=FORM),
        needs(a=FORM, b=ROOTS),
        needs(b=ROOTS),
        DONE,
    )

    ask_a = HandleInput("a", "elicitation/create", {"message": "Who?"})
    ask_b = HandleInput("b", "roots/list", None)
    assert [step for step in steps if step not in (GET, WAIT)] == [
        ask_a,
        update("a"),
        ask_b,
        update("b"),
    ]


@pytest.mark.rule("TX-12")
def test_all_that_is_asked_at_once_is_answered_at_once():
    steps, _ = drive(follow_task(ID), needs(a=FORM, b=ROOTS), DONE)

    assert [step.key for step in steps[1:3]] == ["a", "b"]
    assert steps[3:] == [update("a", "b"), WAIT, GET]


def test_nobody_is_asked_before_all_questions_are_checked():
    operation = follow_task(ID)
    next(operation)

    with pytest.raises(InvalidMessage):
        operation.send(needs(good=FORM, bad={"method": "tools/call"}))


@pytest.mark.rule("TX-13")
def test_a_task_that_does_not_end_to_ask_is_stopped_as_a_call_is():
    endless = [needs(**{str(number): FORM}) for number in range(3)]

    with pytest.raises(RemoteProtocolError, match="after 2 rounds") as caught:
        drive(follow_task(ID, max_rounds=2), *endless)

    assert "Limits.input_rounds" in caught.value.hint
    assert drive(follow_task(ID, max_rounds=2), *endless[:2], DONE)[1] is DONE


@pytest.mark.attack("X08")
def test_a_task_may_ask_so_many_questions_and_no_more():
    script = [needs(**{f"{n}": FORM, f"{n}b": FORM}) for n in range(3)]

    assert drive(follow_task(ID, max_requests=4), *script[:2], DONE)[1] is DONE
    with pytest.raises(TooManyQuestions, match="more than 5 questions"):
        drive(follow_task(ID, max_requests=5), *script)


QUESTIONS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([FORM, ROOTS]))


@pytest.mark.rule("TX-12")
@given(st.lists(QUESTIONS, max_size=8))
def test_whatever_is_shown_no_key_is_asked_or_answered_twice(shown):
    steps, _ = drive(
        follow_task(ID), *(needs(**questions) for questions in shown), DONE
    )

    asked = [step.key for step in steps if type(step) is HandleInput]
    answered = [
        key
        for step in steps
        if type(step) is Call and step.method == "tasks/update"
        for key in step.params["inputResponses"]
    ]
    assert asked == answered
    assert sorted(asked) == sorted({key for questions in shown for key in questions})


# What it gives


def test_a_completed_task_gives_the_result_of_its_call():
    assert read_outcome(DONE) is RESULT


def test_a_failed_task_raises_the_error_of_its_call():
    error = {"code": -32602, "message": "no such city", "data": {"city": "x"}}

    with pytest.raises(InvalidParams) as caught:
        read_outcome(task("failed", error=error))

    assert (caught.value.message, caught.value.data) == ("no such city", {"city": "x"})
    assert caught.value.method == "tools/call"


def test_a_task_that_failed_with_a_code_of_the_servers_own_says_it():
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
def test_a_cancelled_task_is_a_cancelled_call(members, reason):
    with pytest.raises(CallCancelled) as caught:
        read_outcome(task("cancelled", **members))

    assert (caught.value.method, caught.value.reason) == ("tools/call", reason)


@pytest.mark.parametrize(
    ("ended", "path", "expected", "got"),
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
def test_an_end_that_gives_nothing_is_refused_with_its_path(ended, path, expected, got):
    with pytest.raises(InvalidMessage) as caught:
        read_outcome(ended)

    assert (caught.value.path, caught.value.expected) == (path, expected)
    assert caught.value.got == got


# 2025-11-25


def in_session(status, **members):
    return {**STANDING_IN_SESSION, "status": status, "pollInterval": 500, **members}


FETCH = Call("tasks/result", {"taskId": ID})


@pytest.mark.rule("T11-08")
@pytest.mark.parametrize("status", ["completed", "failed", "input_required"])
def test_in_a_session_the_result_is_asked_for_when_there_is_one_or_input_is_needed(
    status,
):
    shown = [in_session("working"), in_session("working", pollInterval=20)]

    steps, ended = drive(follow_session_task(ID), *shown, in_session(status), RESULT)

    assert steps == [GET, WAIT, GET, Sleep(0.02), GET, FETCH]
    assert ended is RESULT


def test_in_a_session_a_cancelled_task_has_no_result_to_ask_for():
    with pytest.raises(CallCancelled, match="the task was cancelled"):
        drive(follow_session_task(ID), in_session("cancelled"))


def test_in_a_session_an_answer_about_another_task_is_refused():
    with pytest.raises(InvalidMessage) as caught:
        drive(follow_session_task(ID), in_session("working", taskId="t-2"))

    assert (caught.value.expected, caught.value.got) == ("'t-1'", "'t-2'")


def tool(support=None, *, has_execution=True):
    execution = types.ToolExecution(support) if has_execution else None
    return types.Tool("train", {"type": "object"}, execution=execution)


@pytest.mark.rule("T11-02", "T11-03")
@pytest.mark.parametrize(
    ("listed_tool", "asks"),
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
def test_a_call_asks_to_be_a_task_where_the_tool_says_that_it_can(listed_tool, asks):
    assert must_request_task(LATEST_SESSION, listed_tool, is_offered=True) is asks


@pytest.mark.rule("T11-02")
def test_no_call_asks_a_server_that_takes_no_tasks():
    assert not must_request_task(LATEST_SESSION, tool("required"), is_offered=False)


@pytest.mark.rule("TX-22")
@pytest.mark.parametrize("revision", [r for r in REVISIONS if r != LATEST_SESSION])
def test_no_other_revision_has_calls_that_ask(revision):
    assert not must_request_task(revision, tool("required"), is_offered=True)


# Both dialects for users


def test_a_created_task_looks_the_same_in_both_dialects():
    answer = {**STANDING, "resultType": "task", "status": "working"}
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
def test_an_answer_that_is_no_task_is_a_result(answer, revision):
    assert read_created(answer, revision) is None


def test_how_a_task_stands_looks_the_same_in_both_dialects():
    asks = {**STANDING, **needs(a=FORM)}
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    asks["inputRequests"]["a"] = {**FORM, "params": form}

    new = read_detailed(asks, ID, LATEST)
    old = read_detailed(in_session("input_required"), ID, LATEST_SESSION)

    assert new.input_requests["a"].params.message == "Who?"
    assert (new.status, old.status) == ("input_required", "input_required")
    assert (old.ttl_ms, old.poll_interval_ms, old.input_requests) == (60_000, 500, None)


@pytest.mark.parametrize("revision", [LATEST, LATEST_SESSION])
def test_how_another_task_stands_is_refused(revision):
    with pytest.raises(InvalidMessage) as caught:
        read_detailed({**STANDING, **STANDING_IN_SESSION, **DONE}, "t-2", revision)

    assert caught.value.path == "DetailedTask.taskId"


def test_a_page_of_tasks_is_shown_in_the_same_type():
    page = {"tasks": [in_session("working"), in_session("failed", taskId="t-2")]}

    found = read_listed(page)

    assert [(each.task_id, each.status) for each in found] == [
        (ID, "working"),
        ("t-2", "failed"),
    ]
    assert {type(each) for each in found} == {types.DetailedTask}
