"""Tasks of a server: state changes, dialects, which calls run as tasks, eviction."""

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
    StoredTask,
    TaskLimits,
    TaskRecord,
    check_extension_declared,
    check_task_can_ask,
    runs_as_task,
    select_evictions,
)
from mcpwire.versions import REVISIONS, find_revision

RESULT = {"content": [{"type": "text", "text": "done"}]}
ERROR = {"code": -32603, "message": "it broke"}


def begin(**changes):
    task = {"id": "t-1", "owner": "me", "tool": "slow", "created_at": 100}
    return TaskRecord(**{**task, "ttl": 60.0, "poll_interval": 1, **changes})


@pytest.mark.rule("T11-06")
def test_new_task_is_working():
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
def test_final_task_never_changes(first, second):
    final = ENDS[first](begin())
    assert final.is_final
    assert ENDS[second](final) is final


def test_final_task_keeps_result_error_or_message():
    assert ENDS["completed"](begin()).result is RESULT
    failed = ENDS["failed"](begin())
    assert (failed.error, failed.status_message) == (ERROR, "it broke")
    without_message = begin().fail({"code": 1}, now=105)
    assert without_message.status_message == "the call failed"
    interrupted = ENDS["interrupted"](begin())
    assert interrupted.status == "failed"
    assert interrupted.error == {
        "code": -32603,
        "message": "the server stopped before the task ended",
    }
    assert ENDS["cancelled"](begin()).status_message == "the client cancelled the task"


def test_status_message_can_change_until_the_end():
    record = begin().describe("half of it", now=101)
    assert (record.status, record.status_message) == ("working", "half of it")
    final = record.complete(RESULT, now=102)
    assert final.status_message is None
    assert final.describe("more", now=103) is final


def test_task_waits_for_input_until_each_request_is_settled():
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


def test_end_of_a_task_drops_its_input_requests():
    record, _ = begin().ask("roots/list", {}, now=101)
    assert record.cancel(now=102).inputs == {}


@pytest.mark.parametrize("end", ENDS)
def test_final_task_cannot_request_input(end):
    final = ENDS[end](begin())
    with pytest.raises(LocalProtocolError, match=f"the task is {final.status} and"):
        final.ask("roots/list", {}, now=106)


def test_input_request_may_have_an_unused_key():
    record, key = begin().ask("elicitation/create", {}, now=101, key="sure")
    assert (key, list(record.inputs)) == ("sure", ["sure"])
    with pytest.raises(LocalProtocolError, match="already has an open request 'sure'"):
        record.ask("elicitation/create", {}, now=102, key="sure")
    record, key = record.ask("elicitation/create", {}, now=102)
    assert list(record.inputs) == ["sure", key]


@pytest.mark.rule("TX-14")
@given(st.lists(st.sampled_from(["ask", "settle"]), max_size=30))
def test_input_keys_of_a_task_are_unique(steps):
    record, keys = begin(), []
    for step in steps:
        if step == "ask":
            record, key = record.ask("elicitation/create", {}, now=101)
            keys.append(key)
        elif record.inputs:
            record = record.settle([next(iter(record.inputs))], now=101)
    assert len(set(keys)) == len(keys)


def test_update_time_never_goes_backwards():
    record, _ = begin().ask("roots/list", {}, now=50)
    assert record.updated_at == 100


@pytest.mark.parametrize(
    ("ttl", "now", "is_expired"),
    [(60.0, 159.9, False), (60.0, 160, True), (None, 1e12, False)],
)
def test_task_expires_after_its_ttl(ttl, now, is_expired):
    record = begin(ttl=ttl)
    assert record.is_expired(now) is is_expired
    assert record.expires_at == (None if ttl is None else 160.0)


def test_repr_shows_no_payload():
    record = attrs.evolve(begin(), result={"secret": 1}, error={"secret": 1})
    assert "secret" not in repr(record)


# Encoding in the two dialects...

RELATED = "io.modelcontextprotocol/related-task"

FAILURE = {"content": [{"type": "text", "text": "no"}], "isError": True}

TIMES = {
    "createdAt": "1970-01-01T00:00:10.250Z",
    "lastUpdatedAt": "1970-01-01T00:00:12.000Z",
}
FLAT = {"taskId": "t-1", **TIMES, "ttlMs": 60_000, "pollIntervalMs": 500}
LEGACY = {"taskId": "t-1", **TIMES, "ttl": 60_000, "pollInterval": 500}


def new_task(**changes):
    return begin(**{"created_at": 10.25, "poll_interval": 0.5, **changes})


FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}


def waiting_for(*methods):
    record = new_task()
    for method in methods:
        record, _ = record.ask(method, FORM, now=12)
    return record


@pytest.mark.rule("TX-05", "TX-08")
def test_extension_answers_a_call_with_a_flat_task():
    created = tasks.write_created(new_task())
    assert created == {
        **FLAT,
        "resultType": "task",
        "status": "working",
        "lastUpdatedAt": TIMES["createdAt"],
    }
    assert types.decode(types.CreatedTask, created).task_id == "t-1"


@pytest.mark.rule("T11-05", "T11-07")
def test_session_dialect_answers_a_call_with_a_nested_task():
    assert tasks.write_legacy_created(new_task()) == {
        "task": {**LEGACY, "status": "working", "lastUpdatedAt": TIMES["createdAt"]},
        "_meta": {RELATED: {"taskId": "t-1"}},
    }


COMPLETED = new_task().complete(RESULT, now=12)
TOOL_FAILED = new_task().complete(FAILURE, now=12)
FAILED = new_task().fail({"code": -32603, "message": "it broke"}, now=12)
CANCELLED = new_task().cancel(now=12)
INPUT_REQUESTS = {"elicitation-1": {"method": "elicitation/create", "params": FORM}}


@pytest.mark.rule("TX-09", "TX-10")
@pytest.mark.parametrize(
    ("record", "more"),
    [
        (waiting_for("elicitation/create"), {"inputRequests": INPUT_REQUESTS}),
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
def test_extension_task_has_the_members_of_its_status(record, more):
    detailed = tasks.write_detailed(record)
    assert detailed == {**FLAT, "status": record.status, **more}
    assert types.decode(types.DetailedTask, detailed).status == record.status


@pytest.mark.rule("T11-07", "T11-16")
@pytest.mark.parametrize(
    ("record", "more"),
    [
        (waiting_for("roots/list"), {"status": "input_required"}),
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
def test_session_task_is_encoded_without_its_result(record, more):
    task = tasks.write_legacy_task(record)
    assert task == {**LEGACY, **more}
    assert types.decode(types.Task, task).status == more["status"]


@pytest.mark.rule("T11-07", "TX-08")
def test_task_without_expiry_has_a_null_ttl():
    record = new_task(ttl=None, poll_interval=0.0001)
    assert tasks.write_created(record)["ttlMs"] is None
    assert tasks.write_legacy_task(record)["ttl"] is None
    assert tasks.write_created(record)["pollIntervalMs"] == 1


@pytest.mark.rule("T11-10")
def test_related_task_is_added_to_the_meta_of_a_message():
    message = {"a": 1, "_meta": {"b": 2}}
    expected = {"a": 1, "_meta": {"b": 2, RELATED: {"taskId": "t-1"}}}
    assert tasks.relate_to_task(message, "t-1") == expected
    assert message == {"a": 1, "_meta": {"b": 2}}


# Decoding...


@pytest.mark.parametrize(
    ("task", "ttl"),
    [({}, None), ({"ttl": None}, None), ({"ttl": 1500}, 1.5), ({"ttl": 0}, 0)],
)
def test_requested_ttl_is_read_in_seconds(task, ttl):
    assert tasks.read_ttl({"task": task}) == ttl


@pytest.mark.parametrize(
    "task", [None, 5, [], {"ttl": -1}, {"ttl": "1"}, {"ttl": 1.5}, {"ttl": True}]
)
def test_malformed_task_request_is_refused(task):
    with pytest.raises(InvalidParams, match=r"^params\.task"):
        tasks.read_ttl({"task": task})


ACCEPT = {"action": "accept", "content": {"name": "Alice"}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}


@pytest.mark.rule("TX-15")
@pytest.mark.parametrize(
    ("answers_given", "accepted_keys"),
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
def test_only_answers_to_open_input_requests_are_read(answers_given, accepted_keys):
    record = waiting_for("elicitation/create", "roots/list", "sampling/createMessage")
    answers = tasks.read_answers(record, {"inputResponses": answers_given})
    assert answers == {key: answers_given[key] for key in accepted_keys}


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("elicitation-1", 12345),
        ("elicitation-1", {"content": {}}),
        ("roots-2", {"roots": 5}),
        ("sampling-3", {"role": "assistant"}),
    ],
)
def test_answer_of_the_wrong_type_is_refused(key, answer):
    record = waiting_for("elicitation/create", "roots/list", "sampling/createMessage")
    with pytest.raises(InvalidParams, match=rf"^params\.inputResponses\.{key}: "):
        tasks.read_answers(record, {"inputResponses": {key: answer}})


@pytest.mark.parametrize(
    "params", [{}, {"inputResponses": None}, {"inputResponses": []}]
)
def test_input_responses_must_be_an_object(params):
    with pytest.raises(InvalidParams, match=r"params\.inputResponses must be"):
        tasks.read_answers(new_task(), params)


@pytest.mark.rule("T11-12")
def test_cursor_holds_time_and_id_of_the_last_task():
    assert tasks.read_cursor({}) is None
    cursor = tasks.cursor_after(new_task())
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
def test_unknown_cursor_is_refused(cursor):
    with pytest.raises(InvalidParams, match="the cursor is unknown"):
        tasks.read_cursor({"cursor": cursor})


def test_unknown_task_error_is_always_the_same():
    assert tasks.unknown_task().code == -32602
    assert str(tasks.unknown_task()) == str(tasks.unknown_task())


# Which calls run as tasks...

ID = "io.modelcontextprotocol/tasks"
DECLARED = {"extensions": {ID: {}}}
NOV, JUL = find_revision("2025-11-25"), find_revision("2026-07-28")


def runs_as(support, revision, capabilities=(), **params):
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
def test_declared_extension_decides_at_2026_07_28(
    support, capabilities, params, expected
):
    assert runs_as(support, JUL, capabilities, **params) is expected


@pytest.mark.rule("TX-04")
def test_task_only_tool_requires_the_extension():
    with pytest.raises(MissingCapability, match="the tool 'slow' needs") as caught:
        runs_as("required", JUL, {"tasks": {}})
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
def test_task_param_decides_at_2025_11_25(support, params, expected):
    assert runs_as(support, NOV, DECLARED, **params) is expected


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
def test_task_param_against_the_tool_is_refused_at_2025_11_25(support, params, message):
    with pytest.raises(MethodNotFound, match=message) as caught:
        runs_as(support, NOV, **params)
    assert caught.value.code == -32601


@pytest.mark.rule("TX-22")
@pytest.mark.parametrize("support", ["forbidden", "optional", "required"])
@pytest.mark.parametrize("revision", REVISIONS[:3], ids=str)
def test_revisions_without_tasks_never_run_a_call_as_a_task(revision, support):
    assert runs_as(support, revision, DECLARED, task={}) is False


@pytest.mark.rule("TX-18")
def test_task_filter_requires_the_declared_extension():
    check_extension_declared(DECLARED, "'taskIds'")
    with pytest.raises(MissingCapability, match="'taskIds' needs the extension"):
        check_extension_declared({}, "'taskIds'")


@pytest.mark.parametrize(
    ("method", "revision"),
    [("elicitation/create", JUL), ("roots/list", JUL), ("elicitation/create", NOV)],
)
def test_task_may_send_the_input_requests_of_its_revision(method, revision):
    check_task_can_ask(method, revision)


@pytest.mark.parametrize(
    ("method", "revision"),
    [("ping", JUL), ("tools/call", NOV), ("notifications/progress", JUL), ("x", NOV)],
)
def test_task_may_send_no_other_request(method, revision):
    with pytest.raises(LocalProtocolError, match=f"a task cannot send '{method}'"):
        check_task_can_ask(method, revision)


# Which stored task is evicted for a new one...


def stored(*tasks):
    """Read tasks such as ``a1+`` (of a, finished) and ``b1`` (of b, running)."""
    return [
        StoredTask(task.removesuffix("+"), task[0], task.endswith("+"))
        for task in tasks
    ]


@pytest.mark.rule("T11-17")
@pytest.mark.attack("X07")
@pytest.mark.parametrize(
    ("tasks", "limits", "evicted", "to_end"),
    [
        ([], (1, 1), [], None),
        (["a1"], (9, 1), None, None),
        (["a1+"], (9, 1), [], None),
        (["b1"], (9, 1), [], None),
        (["a1+", "a2+"], (2, 9), ["a1"], None),
        (["a1", "a2+"], (2, 9), ["a2"], None),
        (["a1", "b1"], (2, 9), None, None),
        (["b1", "a1"], (9, 1), None, None),
        # Of the owner with the most tasks, not of the first or the new one.
        (["b1+", "a1+", "c1+", "c2"], (4, 9), ["c1"], None),
        (["b1+", "a1", "a2+", "a3+"], (4, 9), ["a2"], None),
        (["b1", "b2+"], (2, 9), ["b2"], None),
        # If no task of that owner has finished, the oldest must be ended.
        (["a1+", "b1", "b2"], (3, 9), None, "b1"),
        (["c1+", "b1", "b2"], (3, 9), None, "b1"),
        (["b1", "b2"], (2, 9), None, "b1"),
        # An owner with as many tasks loses none.
        (["b1+", "a1"], (2, 9), None, None),
        (["b1", "c1+", "b2", "c2"], (4, 9), ["c1"], None),
        # A limit that was lowered since.
        (["a1+", "b1+", "b2+", "c1"], (2, 9), ["b1", "a1", "b2"], None),
    ],
)
def test_task_of_the_largest_owner_is_evicted(tasks, limits, evicted, to_end):
    evictions = select_evictions(stored(*tasks), "a", TaskLimits(*limits))
    assert evictions == (evicted, to_end)


TASKS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12).map(
    lambda tasks: [StoredTask(str(n), *task) for n, task in enumerate(tasks)]
)


@given(TASKS, st.integers(1, 12), st.integers(1, 12))
def test_limits_are_kept_and_running_tasks_survive(tasks, max_tasks, max_running):
    evicted, to_end = select_evictions(tasks, "a", TaskLimits(max_tasks, max_running))
    running = {task.id for task in tasks if not task.is_final}
    counts = {owner: sum(task.owner == owner for task in tasks) for owner in "abc"}
    if evicted is None:
        own_running = sum(task.owner == "a" for task in tasks if task.id in running)
        assert own_running >= max_running or len(tasks) >= max_tasks
        owners = [task.owner for task in tasks if task.id == to_end]
        assert to_end is None or to_end in running
        # More than one is evicted where a limit was lowered since.
        assert len(tasks) > max_tasks or all(counts[o] > counts["a"] for o in owners)
        return
    for task in tasks:
        is_own_or_more = task.owner == "a" or counts[task.owner] > counts["a"]
        assert task.id not in evicted or is_own_or_more or len(evicted) > 1
    assert len(set(evicted)) == len(evicted)
    assert running.isdisjoint(evicted)
    assert len(tasks) - len(evicted) + 1 <= max_tasks
