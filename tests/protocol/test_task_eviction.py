"""Which stored task is evicted for a new one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.protocol.tasks import StoredTask, TaskLimits, select_evictions


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
