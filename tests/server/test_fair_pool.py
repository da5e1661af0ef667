"""How clients share one bounded pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.server.fair_pool import SCAN_LIMIT, FairPool, client_key, client_of


def filled(*items):
    """Return a pool of items such as ``a1``, of owner ``a``."""
    pool = FairPool()
    for item in items:
        pool.add(item, item[0])
    return pool


@pytest.mark.parametrize(
    ("items", "owner", "evicted"),
    [
        ([], "a", None),
        (["a1"], "a", "a1"),
        (["b1"], "a", "b1"),
        (["b1", "a1"], "a", "a1"),
        (["b1", "b2", "a1"], "a", "b1"),
        (["a1", "a2", "b1"], "a", "a1"),
        (["c1", "b1", "b2", "b3", "a1", "a2"], "c", "b1"),
        # An owner that has no more than the newcomer's loses nothing.
        (["b1", "b2", "a1", "a2"], "a", "a1"),
    ],
)
def test_the_longest_unused_of_the_greediest_leaves(items, owner, evicted):
    assert filled(*items).find_evictable(owner) == evicted


def test_a_used_item_leaves_later():
    pool = filled("b1", "b2")
    pool.touch("b1")
    pool.touch("b3")
    assert pool.find_evictable("a") == "b2"


@pytest.mark.attack("X07")
def test_of_clients_with_as_many_the_one_that_uses_its_own_loses_none():
    pool = filled("a1", "b1", "b2", "c1", "c2", "d1")
    pool.touch("b2")
    pool.touch("a1")
    assert pool.find_evictable("e") == "c1"
    pool.touch("c2")
    assert pool.find_evictable("e") == "b1"
    ones = filled("a1", "b1", "c1")
    ones.touch("a1")
    assert [
        ones.find_evictable("d"),
        ones.find_evictable("d", lambda item: item == "a1"),
    ] == [
        "b1",
        "a1",
    ]


def test_what_may_not_leave_is_passed_over():
    pool = filled("b1", "b2", "b3", "c1", "c2", "a1")
    assert pool.find_evictable("a", lambda item: item[0] == "c") == "c1"
    assert pool.find_evictable("a", lambda item: item[0] == "a") == "a1"
    assert pool.find_evictable("a", lambda _: False) is None


def test_each_look_for_a_evicted_is_bounded_and_the_next_goes_on():
    busy = [f"b{n}" for n in range(SCAN_LIMIT)]
    pool = filled(*busy, "b-idle")
    looked = []

    def may_evict(item):
        looked.append(item)
        return item == "b-idle"

    assert pool.find_evictable("a", may_evict) is None
    assert looked == busy
    assert pool.find_evictable("a", may_evict) == "b-idle"


@pytest.mark.parametrize(
    ("items", "idle", "fixed", "ends"),
    [
        ("a1", "a1", "", "a1"),
        ("a1", "", "", None),
        ("b1 b2 a1", "a1 b2", "", "b2"),
        # A busy one of a greedier owner ends before an idle one of the newcomer's.
        ("b1 b2 a1", "a1", "", "b1"),
        ("b1 b2 a1", "a1", "b1", "b2"),
        ("b1 b2 a1", "a1", "b1 b2", "a1"),
        ("b1 a1", "b1", "", None),
        ("a1 b1 b2 c1 c2 c3", "b1", "c1 c2 c3", "b1"),
    ],
)
def test_an_item_ends_for_a_new_one(items, idle, fixed, ends):
    pool = filled(*items.split())
    found = pool.find_displaceable(
        "a", lambda item: item in idle.split(), lambda item: item not in fixed.split()
    )
    assert found == ends


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.booleans())))
def test_the_pool_counts_as_a_list_does(steps):
    pool, items = FairPool(), []
    for owner, number, is_added in steps:
        item = f"{owner}{number}"
        if not is_added:
            pool.discard(item)
            items = [each for each in items if each != item]
        elif item not in pool:
            pool.add(item, owner)
            items.append(item)
        counts = {each: sum(i[0] == each for i in items) for each in "abc"}
        assert all(each in pool for each in items)
        assert len(pool) == len(items)
        assert {each: pool.count(each) for each in "abc"} == counts
        for each in "abc":
            evicted = pool.find_evictable(each)
            if evicted is None:
                assert not items
            elif evicted[0] != each:
                assert counts[evicted[0]] == max(counts.values()) > counts[each]
            else:
                assert counts[each] == max(counts.values())
    pool.clear()
    assert len(pool) == 0
    assert pool.find_evictable("a") is None


def test_a_key_says_its_client_and_no_address():
    one, other = client_key("a1", "192.0.2.1"), client_key("b2", "192.0.2.1")
    assert one.startswith("a1.")
    assert client_of(one) == client_of(other) != client_of(client_key("a1", "ann"))
    assert "192" not in one
    assert client_of("a1") == "a1"
