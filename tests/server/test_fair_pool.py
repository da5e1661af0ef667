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
        # An owner with no more items than the new item's owner loses none.
        (["b1", "b2", "a1", "a2"], "a", "a1"),
    ],
)
def test_least_recently_used_item_of_largest_owner_is_evicted(items, owner, evicted):
    assert filled(*items).find_evictable(owner) == evicted


def test_touching_an_item_delays_its_eviction():
    pool = filled("b1", "b2")
    pool.touch("b1")
    pool.touch("b3")
    assert pool.find_evictable("a") == "b2"


@pytest.mark.attack("X07")
def test_tied_owners_lose_the_least_recently_used_item():
    pool = filled("a1", "b1", "b2", "c1", "c2", "d1")
    pool.touch("b2")
    pool.touch("a1")
    assert pool.find_evictable("e") == "c1"
    pool.touch("c2")
    assert pool.find_evictable("e") == "b1"
    tied = filled("a1", "b1", "c1")
    tied.touch("a1")
    assert [
        tied.find_evictable("d"),
        tied.find_evictable("d", lambda item: item == "a1"),
    ] == ["b1", "a1"]


def test_items_the_predicate_rejects_are_not_evicted():
    pool = filled("b1", "b2", "b3", "c1", "c2", "a1")
    assert pool.find_evictable("a", lambda item: item[0] == "c") == "c1"
    assert pool.find_evictable("a", lambda item: item[0] == "a") == "a1"
    assert pool.find_evictable("a", lambda _: False) is None


def test_eviction_scan_is_bounded_and_resumes_on_the_next_call():
    busy = [f"b{n}" for n in range(SCAN_LIMIT)]
    pool = filled(*busy, "b-idle")
    checked = []

    def may_evict(item):
        checked.append(item)
        return item == "b-idle"

    assert pool.find_evictable("a", may_evict) is None
    assert checked == busy
    assert pool.find_evictable("a", may_evict) == "b-idle"


@pytest.mark.parametrize(
    ("items", "idle", "fixed", "ends"),
    [
        ("a1", "a1", "", "a1"),
        ("a1", "", "", None),
        ("b1 b2 a1", "a1 b2", "", "b2"),
        # A busy item of a larger owner ends before an idle one of the new item's owner.
        ("b1 b2 a1", "a1", "", "b1"),
        ("b1 b2 a1", "a1", "b1", "b2"),
        ("b1 b2 a1", "a1", "b1 b2", "a1"),
        ("b1 a1", "b1", "", None),
        ("a1 b1 b2 c1 c2 c3", "b1", "c1 c2 c3", "b1"),
    ],
)
def test_find_displaceable_chooses_the_item_to_end(items, idle, fixed, ends):
    pool = filled(*items.split())
    found = pool.find_displaceable(
        "a", lambda item: item in idle.split(), lambda item: item not in fixed.split()
    )
    assert found == ends


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.booleans())))
def test_pool_counts_match_a_list_model(steps):
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


def test_client_key_reveals_the_client_but_no_address():
    one, other = client_key("a1", "192.0.2.1"), client_key("b2", "192.0.2.1")
    assert one.startswith("a1.")
    assert client_of(one) == client_of(other) != client_of(client_key("a1", "ann"))
    assert "192" not in one
    assert client_of("a1") == "a1"
