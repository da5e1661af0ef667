"""How a task stands: every step, and that the last one stays."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.tasks import EVICTED, EXPIRED, INTERRUPTED, TaskRecord

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
