"""What the two dialects of tasks write and read."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import InvalidParams
from mcpwire.protocol import tasks

RELATED = "io.modelcontextprotocol/related-task"

RESULT = {"content": [{"type": "text", "text": "done"}]}
FAILURE = {"content": [{"type": "text", "text": "no"}], "isError": True}

TIMES = {
    "createdAt": "1970-01-01T00:00:10.250Z",
    "lastUpdatedAt": "1970-01-01T00:00:12.000Z",
}
FLAT = {"taskId": "t-1", **TIMES, "ttlMs": 60_000, "pollIntervalMs": 500}
LEGACY = {"taskId": "t-1", **TIMES, "ttl": 60_000, "pollInterval": 500}


def begin(**changes):
    task = {"id": "t-1", "owner": "me", "tool": "t", "created_at": 10.25}
    return tasks.TaskRecord(**{**task, "ttl": 60.0, "poll_interval": 0.5, **changes})


FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


def asking(*methods):
    record = begin()
    for method in methods:
        record, _ = record.ask(method, FORM, now=12)
    return record


@pytest.mark.rule("TX-05", "TX-08")
def test_the_extension_answers_a_call_with_a_flat_task():
    created = tasks.write_created(begin())
    assert created == {
        **FLAT,
        "resultType": "task",
        "status": "working",
        "lastUpdatedAt": TIMES["createdAt"],
    }
    assert types.decode(types.CreatedTask, created).task_id == "t-1"


@pytest.mark.rule("T11-05", "T11-07")
def test_the_old_dialect_answers_a_call_with_a_task_inside():
    assert tasks.write_legacy_created(begin()) == {
        "task": {**LEGACY, "status": "working", "lastUpdatedAt": TIMES["createdAt"]},
        "_meta": {RELATED: {"taskId": "t-1"}},
    }


COMPLETED = begin().complete(RESULT, now=12)
TOOL_FAILED = begin().complete(FAILURE, now=12)
FAILED = begin().fail({"code": -32603, "message": "it broke"}, now=12)
CANCELLED = begin().cancel(now=12)
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
    record = begin(ttl=None, poll_interval=0.0001)
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
        tasks.read_answers(begin(), params)


@pytest.mark.rule("T11-12")
def test_a_cursor_names_the_task_that_its_page_comes_after():
    assert tasks.read_cursor({}) is None
    cursor = tasks.cursor_after(begin())
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
