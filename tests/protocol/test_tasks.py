"""Tasks of a server: their steps, both dialects, and which calls run as tasks."""

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import (
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    MissingCapability,
)
from mcpwire.protocol import tasks
from mcpwire.protocol.tasks import (
    EVICTED,
    EXPIRED,
    INTERRUPTED,
    TaskRecord,
    check_extension_declared,
    check_task_can_ask,
    runs_as_task,
)
from mcpwire.versions import REVISIONS, find_revision

RESULT = {"content": [{"type": "text", "text": "done"}]}
ERROR = {"code": -32603, "message": "it broke"}


def begin(**changes):
    task = {"id": "t-1", "owner": "me", "tool": "slow", "created_at": 100}
    return TaskRecord(**{**task, "ttl": 60.0, "poll_interval": 1, **changes})


@pytest.mark.rule("T11-06")
def test_a_new_task_works():
    record = begin()
    assert record == TaskRecord(
        id="t-1",
        owner="me",
        tool="slow",
        status="working",
        created_at=100.0,
        updated_at=100.0,
        ttl=60.0,
        poll_interval=1,
    )
    assert not record.is_final


ENDS = {
    "completed": lambda record: record.complete(RESULT, now=105),
    "failed": lambda record: record.fail(ERROR, now=105),
    "cancelled": lambda record: record.cancel(now=105),
    "interrupted": lambda record: record.stop(INTERRUPTED, now=105),
    "evicted": lambda record: record.stop(EVICTED, now=105),
    "expired": lambda record: record.stop(EXPIRED, now=105),
}


@pytest.mark.rule("T11-06")
@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_a_task_that_has_ended_stays_as_it_is(first, second):
    ended = ENDS[first](begin())
    assert ended.is_final
    assert ENDS[second](ended) is ended


def test_ends_keep_what_the_call_gave():
    assert ENDS["completed"](begin()).result is RESULT
    failed = ENDS["failed"](begin())
    assert (failed.error, failed.status_message) == (ERROR, "it broke")
    nameless = begin().fail({"code": 1}, now=105)
    assert nameless.status_message == "the call failed"
    interrupted = ENDS["interrupted"](begin())
    assert interrupted.status == "failed"
    assert interrupted.error == {
        "code": -32603,
        "message": "the server stopped before the task ended",
    }
    assert ENDS["cancelled"](begin()).status_message == "the client cancelled the task"


def test_a_task_says_how_far_its_work_is_until_it_ends():
    record = begin().describe("half of it", now=101)
    assert (record.status, record.status_message) == ("working", "half of it")
    ended = record.complete(RESULT, now=102)
    assert ended.status_message is None
    assert ended.describe("more", now=103) is ended


def test_questions_wait_until_each_is_settled():
    record, first = begin().ask("elicitation/create", {"a": 1}, now=101)
    record, second = record.ask("roots/list", {}, now=102)
    assert record.status == "input_required"
    assert record.inputs == {
        first: {"method": "elicitation/create", "params": {"a": 1}},
        second: {"method": "roots/list", "params": {}},
    }
    record = record.settle([first], now=103)
    assert (record.status, list(record.inputs)) == ("input_required", [second])
    assert record.settle([first, "nobody's"], now=104) is record
    record = record.settle([second], now=105)
    assert (record.status, record.inputs, record.updated_at) == ("working", {}, 105)


def test_an_end_takes_the_open_questions_with_it():
    record, _ = begin().ask("roots/list", {}, now=101)
    assert record.cancel(now=102).inputs == {}


@pytest.mark.parametrize("end", ENDS)
def test_a_task_that_has_ended_asks_nothing(end):
    ended = ENDS[end](begin())
    with pytest.raises(LocalProtocolError, match=f"the task is {ended.status} and"):
        ended.ask("roots/list", {}, now=106)


def test_a_question_may_have_a_name_that_no_open_one_has():
    record, key = begin().ask("elicitation/create", {}, now=101, key="sure")
    assert (key, list(record.inputs)) == ("sure", ["sure"])
    with pytest.raises(LocalProtocolError, match="'sure' of the task is open"):
        record.ask("elicitation/create", {}, now=102, key="sure")
    record, key = record.ask("elicitation/create", {}, now=102)
    assert list(record.inputs) == ["sure", key]


@pytest.mark.rule("TX-14")
@given(st.lists(st.sampled_from(["ask", "settle"]), max_size=30))
def test_no_key_comes_twice_in_a_tasks_life(steps):
    record, keys = begin(), []
    for step in steps:
        if step == "ask":
            record, key = record.ask("elicitation/create", {}, now=101)
            keys.append(key)
        elif record.inputs:
            record = record.settle([next(iter(record.inputs))], now=101)
    assert len(set(keys)) == len(keys)


def test_a_clock_that_was_set_back_makes_no_earlier_update():
    record, _ = begin().ask("roots/list", {}, now=50)
    assert record.updated_at == 100


@pytest.mark.parametrize(
    ("ttl", "now", "is_expired"),
    [(60.0, 159.9, False), (60.0, 160, True), (None, 1e12, False)],
)
def test_a_task_is_kept_for_its_time(ttl, now, is_expired):
    record = begin(ttl=ttl)
    assert record.is_expired(now) is is_expired
    assert record.expires_at == (None if ttl is None else 160.0)


def test_a_repr_shows_nothing_that_was_said():
    record = attrs.evolve(begin(), result={"secret": 1}, error={"secret": 1})
    assert "secret" not in repr(record)


# What the two dialects write and read...

RELATED = "io.modelcontextprotocol/related-task"

FAILURE = {"content": [{"type": "text", "text": "no"}], "isError": True}

TIMES = {
    "createdAt": "1970-01-01T00:00:10.250Z",
    "lastUpdatedAt": "1970-01-01T00:00:12.000Z",
}
FLAT = {"taskId": "t-1", **TIMES, "ttlMs": 60_000, "pollIntervalMs": 500}
LEGACY = {"taskId": "t-1", **TIMES, "ttl": 60_000, "pollInterval": 500}


def early(**changes):
    return begin(**{"created_at": 10.25, "poll_interval": 0.5, **changes})


FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


def asking(*methods):
    record = early()
    for method in methods:
        record, _ = record.ask(method, FORM, now=12)
    return record


@pytest.mark.rule("TX-05", "TX-08")
def test_the_extension_answers_a_call_with_a_flat_task():
    created = tasks.write_created(early())
    assert created == {
        **FLAT,
        "resultType": "task",
        "status": "working",
        "lastUpdatedAt": TIMES["createdAt"],
    }
    assert types.decode(types.CreatedTask, created).task_id == "t-1"


@pytest.mark.rule("T11-05", "T11-07")
def test_the_old_dialect_answers_a_call_with_a_task_inside():
    assert tasks.write_legacy_created(early()) == {
        "task": {**LEGACY, "status": "working", "lastUpdatedAt": TIMES["createdAt"]},
        "_meta": {RELATED: {"taskId": "t-1"}},
    }


COMPLETED = early().complete(RESULT, now=12)
TOOL_FAILED = early().complete(FAILURE, now=12)
FAILED = early().fail({"code": -32603, "message": "it broke"}, now=12)
CANCELLED = early().cancel(now=12)
ASKED = {"elicitation-1": {"method": "elicitation/create", "params": FORM}}


@pytest.mark.rule("TX-09", "TX-10")
@pytest.mark.parametrize(
    ("record", "more"),
    [
        (asking("elicitation/create"), {"inputRequests": ASKED}),
        (COMPLETED, {"result": RESULT}),
        (TOOL_FAILED, {"result": FAILURE, "status": "completed"}),
        (
            FAILED,
            {
                "error": {"code": -32603, "message": "it broke"},
                "statusMessage": "it broke",
            },
        ),
        (CANCELLED, {"statusMessage": "the client cancelled the task"}),
    ],
    ids=["input_required", "completed", "isError", "failed", "cancelled"],
)
def test_the_extension_shows_what_each_status_brings(record, more):
    detailed = tasks.write_detailed(record)
    assert detailed == {**FLAT, "status": record.status, **more}
    assert types.decode(types.DetailedTask, detailed).status == record.status


@pytest.mark.rule("T11-07", "T11-16")
@pytest.mark.parametrize(
    ("record", "more"),
    [
        (asking("roots/list"), {"status": "input_required"}),
        (COMPLETED, {"status": "completed"}),
        (
            TOOL_FAILED,
            {"status": "failed", "statusMessage": "the tool says that it failed"},
        ),
        (FAILED, {"status": "failed", "statusMessage": "it broke"}),
        (
            CANCELLED,
            {"status": "cancelled", "statusMessage": "the client cancelled the task"},
        ),
    ],
    ids=["input_required", "completed", "isError", "failed", "cancelled"],
)
def test_the_old_dialect_shows_a_task_without_its_result(record, more):
    task = tasks.write_legacy_task(record)
    assert task == {**LEGACY, **more}
    assert types.decode(types.Task, task).status == more["status"]


@pytest.mark.rule("T11-07", "TX-08")
def test_a_task_that_is_kept_for_ever_says_so():
    record = early(ttl=None, poll_interval=0.0001)
    assert tasks.write_created(record)["ttlMs"] is None
    assert tasks.write_legacy_task(record)["ttl"] is None
    assert tasks.write_created(record)["pollIntervalMs"] == 1


@pytest.mark.rule("T11-10")
def test_what_belongs_to_a_task_says_so_beside_what_it_says_already():
    message = {"a": 1, "_meta": {"b": 2}}
    expected = {"a": 1, "_meta": {"b": 2, RELATED: {"taskId": "t-1"}}}
    assert tasks.relate_to_task(message, "t-1") == expected
    assert message == {"a": 1, "_meta": {"b": 2}}


# What is read...


def test_a_task_is_named_by_a_string():
    assert tasks.requested_task_id({"taskId": "t-1"}) == "t-1"


@pytest.mark.parametrize("params", [{}, {"taskId": 1}, {"taskId": None}])
def test_a_task_that_is_not_named_is_refused(params):
    with pytest.raises(InvalidParams, match=r"params\.taskId must be a string"):
        tasks.requested_task_id(params)


@pytest.mark.parametrize(
    ("task", "ttl"),
    [({}, None), ({"ttl": None}, None), ({"ttl": 1500}, 1.5), ({"ttl": 0}, 0)],
)
def test_a_client_may_say_how_long_to_keep_its_task(task, ttl):
    assert tasks.read_ttl({"task": task}) == ttl


@pytest.mark.parametrize(
    "task", [None, 5, [], {"ttl": -1}, {"ttl": "1"}, {"ttl": 1.5}, {"ttl": True}]
)
def test_a_task_is_not_asked_for_in_any_other_way(task):
    with pytest.raises(InvalidParams, match=r"^params\.task"):
        tasks.read_ttl({"task": task})


ACCEPT = {"action": "accept", "content": {"name": "Alice"}}
SAMPLED = {
    "role": "assistant",
    "content": {"type": "text", "text": "hi"},
    "model": "m",
}


@pytest.mark.rule("TX-15")
@pytest.mark.parametrize(
    ("given_", "taken"),
    [
        ({}, []),
        ({"nobody's": 5}, []),
        ({"roots-2": {"roots": []}}, ["roots-2"]),
        (
            {"elicitation-1": ACCEPT, "roots-2": {"roots": []}, "sampling-3": SAMPLED},
            ["elicitation-1", "roots-2", "sampling-3"],
        ),
    ],
)
def test_answers_are_taken_where_something_is_asked(given_, taken):
    record = asking("elicitation/create", "roots/list", "sampling/createMessage")
    answers = tasks.read_answers(record, {"inputResponses": given_})
    assert answers == {key: given_[key] for key in taken}


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("elicitation-1", 12345),
        ("elicitation-1", {"content": {}}),
        ("roots-2", {"roots": 5}),
        ("sampling-3", {"role": "assistant"}),
    ],
)
def test_what_cannot_answer_a_question_is_refused(key, answer):
    record = asking("elicitation/create", "roots/list", "sampling/createMessage")
    with pytest.raises(InvalidParams, match=rf"^params\.inputResponses\.{key}: "):
        tasks.read_answers(record, {"inputResponses": {key: answer}})


@pytest.mark.parametrize(
    "params", [{}, {"inputResponses": None}, {"inputResponses": []}]
)
def test_answers_come_in_an_object(params):
    with pytest.raises(InvalidParams, match=r"params\.inputResponses must be"):
        tasks.read_answers(early(), params)


@pytest.mark.rule("T11-12")
def test_a_cursor_names_the_task_that_its_page_comes_after():
    assert tasks.read_cursor({}) is None
    cursor = tasks.cursor_after(early())
    assert tasks.read_cursor({"cursor": cursor}) == (10.25, "t-1")


@pytest.mark.rule("T11-14")
@given(
    st.one_of(
        st.integers(),
        st.text(max_size=300),
        st.sampled_from(["", "W10=", "WzEsMl0=", "e30=", "bnVsbA==", "QUFB" * 65]),
    )
)
@example("QUFB" * 1_000)
@example("")
def test_another_cursor_is_refused(cursor):
    with pytest.raises(InvalidParams, match="the cursor is unknown"):
        tasks.read_cursor({"cursor": cursor})


def test_all_that_is_not_there_is_answered_alike():
    assert tasks.unknown_task().code == -32602
    assert str(tasks.unknown_task()) == str(tasks.unknown_task())


# Which calls run as tasks...

ID = "io.modelcontextprotocol/tasks"
DECLARED = {"extensions": {ID: {}}}
NOV, JUL = find_revision("2025-11-25"), find_revision("2026-07-28")


def decide(support, revision, capabilities=(), **params):
    return runs_as_task(support, "slow", revision, dict(capabilities), params)


@pytest.mark.rule("TX-02", "TX-21")
@pytest.mark.parametrize(
    ("support", "capabilities", "params", "expected"),
    [
        ("forbidden", DECLARED, {}, False),
        ("optional", DECLARED, {}, True),
        ("required", DECLARED, {}, True),
        ("forbidden", {}, {}, False),
        ("optional", {}, {}, False),
        ("optional", {}, {"task": {"ttl": 5}}, False),
        ("optional", {"tasks": {}}, {"task": {}}, False),
        ("optional", {"extensions": {ID: None}}, {}, False),
        ("forbidden", DECLARED, {"task": {}}, False),
    ],
)
def test_at_2026_07_28_the_declaration_on_the_call_decides(
    support, capabilities, params, expected
):
    assert decide(support, JUL, capabilities, **params) is expected


@pytest.mark.rule("TX-04")
def test_a_tool_that_needs_a_task_is_refused_to_who_knows_none():
    with pytest.raises(MissingCapability, match="the tool 'slow' needs") as caught:
        decide("required", JUL, {"tasks": {}})
    assert caught.value.code == -32021
    assert caught.value.data == {"requiredCapabilities": {"extensions": {ID: {}}}}


@pytest.mark.parametrize(
    ("support", "params", "expected"),
    [
        ("forbidden", {}, False),
        ("optional", {}, False),
        ("optional", {"task": {}}, True),
        ("required", {"task": {}}, True),
    ],
)
def test_at_2025_11_25_the_call_asks_for_its_task(support, params, expected):
    assert decide(support, NOV, DECLARED, **params) is expected


@pytest.mark.parametrize(
    ("support", "params", "message"),
    [
        pytest.param(
            "forbidden",
            {"task": {}},
            "the tool 'slow' cannot run as a task",
            marks=pytest.mark.rule("T11-02"),
        ),
        pytest.param(
            "required",
            {},
            "the tool 'slow' runs as a task only",
            marks=pytest.mark.rule("T11-03"),
        ),
    ],
)
def test_at_2025_11_25_a_call_asks_as_its_tool_allows(support, params, message):
    with pytest.raises(MethodNotFound, match=message) as caught:
        decide(support, NOV, **params)
    assert caught.value.code == -32601


@pytest.mark.rule("TX-22")
@pytest.mark.parametrize("support", ["forbidden", "optional", "required"])
@pytest.mark.parametrize("revision", REVISIONS[:3], ids=str)
def test_revisions_without_tasks_run_every_call_at_once(revision, support):
    assert decide(support, revision, DECLARED, task={}) is False


@pytest.mark.rule("TX-18")
def test_who_declared_the_extension_may_use_it():
    check_extension_declared(DECLARED, "'taskIds'")
    with pytest.raises(MissingCapability, match="'taskIds' needs the extension"):
        check_extension_declared({}, "'taskIds'")


@pytest.mark.parametrize(
    ("method", "revision"),
    [("elicitation/create", JUL), ("roots/list", JUL), ("elicitation/create", NOV)],
)
def test_a_task_asks_what_its_revision_lets_servers_ask(method, revision):
    check_task_can_ask(method, revision)


@pytest.mark.parametrize(
    ("method", "revision"),
    [("ping", JUL), ("tools/call", NOV), ("notifications/progress", JUL), ("x", NOV)],
)
def test_a_task_asks_nothing_else(method, revision):
    with pytest.raises(LocalProtocolError, match=f"no task can ask '{method}'"):
        check_task_can_ask(method, revision)
