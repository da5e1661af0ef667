"""What waits for one consumer of a group: each server's in order, all of it bounded."""

import weakref
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.group.events import GroupBuffer

LOG = "notifications/message"
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


def buffer(limit=3, room=1e9, kept=()):
    return GroupBuffer(
        limit, max_bytes=room, is_subscribed=lambda *about: about in kept
    )


def taken(events):
    found = []
    while events:
        server, method, params, _ = events.pop()
        found.append((server, method, params))
    return found


@pytest.mark.system("A44")
def test_what_one_server_says_comes_in_order_and_servers_take_turns():
    events = buffer()
    for number in range(3):
        assert events.put("a", LOG, {"n": number})
    assert events.put("b", LOG, {"n": 9})
    assert [(server, params["n"]) for server, _, params in taken(events)] == [
        ("a", 0),
        ("b", 9),
        ("a", 1),
        ("a", 2),
    ]


@pytest.mark.system("A44", "L-A10")
def test_beyond_the_limit_a_servers_oldest_is_dropped_and_counted_as_its_own():
    events = buffer(limit=2)
    for number in range(5):
        events.put("a", LOG, {"n": number})
    events.put("b", LOG, {"n": 9})
    assert (events.dropped, events.dropped_of("a"), events.dropped_of("b")) == (3, 3, 0)
    assert events.dropped_of("unknown") == 0
    left = [params["n"] for server, _, params in taken(events) if server == "a"]
    assert left == [3, 4]
    assert events.dropped_of("a") == 3


@pytest.mark.system("A43", "L-A10")
def test_that_a_list_changed_is_one_per_server_and_never_lost():
    events = buffer(limit=2)
    assert events.put("a", TOOLS, None)
    assert not events.put("a", TOOLS, None)
    assert events.put("b", TOOLS, None)
    for number in range(9):
        events.put("a", LOG, {"n": number})
    told = taken(events)
    assert [server for server, method, _ in told if method == TOOLS] == ["a", "b"]


@pytest.mark.system("A42")
def test_an_update_is_kept_where_that_server_was_subscribed_to():
    events = buffer(limit=1, kept={("a", "x:1")})
    for server in ("a", "b"):
        events.put(server, UPDATED, {"uri": "x:1"})
        events.put(server, LOG, {})
    assert [(s, m) for s, m, _ in taken(events)] == [
        ("a", UPDATED),
        ("b", LOG),
        ("a", LOG),
    ]


def test_what_is_too_large_is_dropped_with_all_before_it():
    events = buffer(room=100)
    assert not events.put("a", LOG, {"n": 0}, 200)
    assert events.put("a", LOG, {"n": 1}, 60)
    assert not events.put("a", LOG, {"n": 2}, 200)
    assert not events
    assert events.dropped == 3
    assert events.put("a", LOG, {"n": 3}, 60)
    assert taken(events) == [("a", LOG, {"n": 3})]


def test_what_is_forgotten_stays_counted():
    events = buffer(limit=1)
    for server in ("a", "b"):
        events.put(server, LOG, {})
        events.put(server, LOG, {})
    taken(events)
    events.put("a", LOG, {})
    events.clear()
    events.forget("unknown")
    assert not events
    assert events.dropped == 2


class Name(str):
    """A name that a weak reference can point to."""

    __slots__ = ("__weakref__",)


def test_servers_that_come_and_go_leave_nothing_behind():
    events, references = buffer(), []
    for number in range(100):
        name = Name(f"s{number}")
        references.append(weakref.ref(name))
        events.put(name, LOG, {})
    del name
    taken(events)
    assert [each() for each in references] == [None] * 100


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.tuples(st.sampled_from("abc"), st.sampled_from((LOG, TOOLS, UPDATED))),
        )
    )
)
def test_whatever_comes_is_taken_or_counted_and_each_servers_stays_in_order(steps):
    events, put, told = buffer(limit=2), Counter(), []
    for number, step in enumerate(steps):
        if step is None:
            if events:
                told.append(events.pop())
            continue
        server, method = step
        put[server, method] += 1
        events.put(server, method, {"uri": str(number), "n": number})
    while events:
        told.append(events.pop())
    logs = [each for each in told if each[1] != TOOLS]
    for server in "abc":
        numbers = [params["n"] for name, _, params, _ in logs if name == server]
        assert numbers == sorted(numbers)
        assert any(m == TOOLS for name, m, *_ in told if name == server) == bool(
            put[server, TOOLS]
        )
    asked = sum(count for (_, method), count in put.items() if method != TOOLS)
    assert len(logs) + events.dropped == asked
