"""Which task gives way to a new one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.tasks import (
    StoredTask,
    TaskLimits,
    select_evictions,
)


def held(*tasks):
    """Read tasks such as ``a1+`` (of a, finished) and ``b1`` (of b, under way)."""
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
        # Of the owner with the most, not of the first or the new one.
        (["b1+", "a1+", "c1+", "c2"], (4, 9), ["c1"], None),
        (["b1+", "a1", "a2+", "a3+"], (4, 9), ["a2"], None),
        (["b1", "b2+"], (2, 9), ["b2"], None),
        # If none of those has finished, the oldest has to end.
        (["a1+", "b1", "b2"], (3, 9), None, "b1"),
        (["c1+", "b1", "b2"], (3, 9), None, "b1"),
        (["b1", "b2"], (2, 9), None, "b1"),
        # An owner with as many loses none.
        (["b1+", "a1"], (2, 9), None, None),
        (["b1", "c1+", "b2", "c2"], (4, 9), ["c1"], None),
        # A bound that has become smaller since.
        (["a1+", "b1+", "b2+", "c1"], (2, 9), ["b1", "a1", "b2"], None),
    ],
)
def test_a_task_of_the_owner_with_the_most_gives_way(tasks, limits, evicted, to_end):
    found = select_evictions(held(*tasks), "a", TaskLimits(*limits))
    assert found == (evicted, to_end)


TASKS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12).map(
    lambda made: [StoredTask(str(n), *task) for n, task in enumerate(made)]
)


@given(TASKS, st.integers(1, 12), st.integers(1, 12))
def test_bounds_are_kept_and_nothing_under_way_is_lost(tasks, kept, unfinished):
    evicted, to_end = select_evictions(tasks, "a", TaskLimits(kept, unfinished))
    running = {task.id for task in tasks if not task.is_final}
    counts = {owner: sum(task.owner == owner for task in tasks) for owner in "abc"}
    if evicted is None:
        mine = sum(task.owner == "a" for task in tasks if task.id in running)
        assert mine >= unfinished or len(tasks) >= kept
        owners = [task.owner for task in tasks if task.id == to_end]
        assert to_end is None or to_end in running
        # More than one leaves where a bound has become smaller since.
        assert len(tasks) > kept or all(counts[o] > counts["a"] for o in owners)
        return
    for task in tasks:
        is_mine_or_more = task.owner == "a" or counts[task.owner] > counts["a"]
        assert task.id not in evicted or is_mine_or_more or len(evicted) > 1
    assert len(set(evicted)) == len(evicted)
    assert running.isdisjoint(evicted)
    assert len(tasks) - len(evicted) + 1 <= kept
