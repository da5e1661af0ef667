"""Which task gives way to a new one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.tasks import (
    HeldTask,
    TaskLimits,
    select_evictions,
    select_to_end,
)


def held(*tasks):
    """Read tasks such as ``a1+`` (of a, finished) and ``b1`` (of b, under way)."""
    return [
        HeldTask(task.removesuffix("+"), task[0], task.endswith("+")) for task in tasks
    ]


@pytest.mark.rule("T11-17")
@pytest.mark.parametrize(
    ("tasks", "limits", "expected"),
    [
        ([], (1, 1), []),
        (["a1"], (9, 1), None),
        (["a1+"], (9, 1), []),
        (["b1"], (9, 1), []),
        (["a1+", "a2+"], (2, 9), ["a1"]),
        (["a1", "a2+"], (2, 9), ["a2"]),
        (["a1", "b1"], (2, 9), None),
        # Of whoever has the most, not of who comes first or asks.
        (["b1+", "a1+", "c1+", "c2"], (4, 9), ["c1"]),
        (["a1+", "b1", "b2"], (3, 9), None),
        (["b1+", "a1", "a2+", "a3+"], (4, 9), ["a2"]),
        # Nobody loses one for a client with as many.
        (["b1+", "a1"], (2, 9), None),
        (["b1", "c1+", "b2", "c2"], (4, 9), ["c1"]),
        # A bound that has become smaller since.
        (["a1+", "b1+", "b2+", "c1"], (2, 9), ["b1", "a1", "b2"]),
    ],
)
def test_a_task_of_whoever_has_the_most_gives_way(tasks, limits, expected):
    assert select_evictions(held(*tasks), "a", TaskLimits(*limits)) == expected


@pytest.mark.attack("X07")
@pytest.mark.parametrize(
    ("tasks", "limits", "expected"),
    [
        (["b1", "b2"], (2, 9), "b1"),
        (["c1+", "b1", "b2"], (3, 9), "b1"),
        (["a1+", "b1", "b2"], (3, 9), "b1"),
        (["b1", "b2+"], (2, 9), None),
        (["a1", "b1"], (2, 9), None),
        (["b1", "a1"], (9, 1), None),
        (["b1"], (9, 9), None),
    ],
)
def test_the_oldest_of_the_most_ends_where_none_of_them_has_finished(
    tasks, limits, expected
):
    assert select_to_end(held(*tasks), "a", TaskLimits(*limits)) == expected


TASKS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12).map(
    lambda made: [HeldTask(str(n), *task) for n, task in enumerate(made)]
)


@given(TASKS, st.integers(1, 12), st.integers(1, 12))
def test_bounds_are_kept_and_nothing_under_way_is_lost(tasks, kept, unfinished):
    leavers = select_evictions(tasks, "a", TaskLimits(kept, unfinished))
    running = {task.id for task in tasks if not task.is_final}
    counts = {owner: sum(task.owner == owner for task in tasks) for owner in "abc"}
    if leavers is None:
        mine = sum(task.owner == "a" for task in tasks if task.id in running)
        assert mine >= unfinished or len(tasks) >= kept
        ended = select_to_end(tasks, "a", TaskLimits(kept, unfinished))
        owners = [task.owner for task in tasks if task.id == ended]
        assert ended is None or ended in running
        # More than one leaves where a bound has become smaller since.
        assert len(tasks) > kept or all(counts[o] > counts["a"] for o in owners)
        return
    for task in tasks:
        is_mine_or_more = task.owner == "a" or counts[task.owner] > counts["a"]
        assert task.id not in leavers or is_mine_or_more or len(leavers) > 1
    assert len(set(leavers)) == len(leavers)
    assert running.isdisjoint(leavers)
    assert len(tasks) - len(leavers) + 1 <= kept
