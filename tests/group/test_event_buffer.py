"""Pending events for one consumer of a group: bounded, in order for each server."""

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
        found.append(events.pop())
    return found


@pytest.mark.system("A44")
def test_events_of_a_server_are_in_order_and_servers_alternate():
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
def test_oldest_event_over_the_limit_is_dropped_and_counted_per_server():
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
def test_list_changed_is_kept_once_per_server_and_not_dropped():
    events = buffer(limit=2)
    assert events.put("a", TOOLS, None)
    assert not events.put("a", TOOLS, None)
    assert events.put("b", TOOLS, None)
    for number in range(9):
        events.put("a", LOG, {"n": number})
    events_taken = taken(events)
    assert [server for server, method, _ in events_taken if method == TOOLS] == [
        "a",
        "b",
    ]


@pytest.mark.system("A42")
def test_resource_update_is_kept_if_subscribed():
    events = buffer(limit=1, kept={("a", "x:1")})
    for server in ("a", "b"):
        events.put(server, UPDATED, {"uri": "x:1"})
        events.put(server, LOG, {})
    assert [(s, m) for s, m, _ in taken(events)] == [
        ("a", UPDATED),
        ("b", LOG),
        ("a", LOG),
    ]


def test_too_large_event_is_dropped_with_all_before_it():
    events = buffer(room=100)
    assert not events.put("a", LOG, {"n": 0}, 200)
    assert events.put("a", LOG, {"n": 1}, 60)
    assert not events.put("a", LOG, {"n": 2}, 200)
    assert not events
    assert events.dropped == 3
    assert events.put("a", LOG, {"n": 3}, 60)
    assert taken(events) == [("a", LOG, {"n": 3})]


def test_drop_counter_survives_taken_and_cleared_events():
    events = buffer(limit=1)
    for server in ("a", "b"):
        events.put(server, LOG, {})
        events.put(server, LOG, {})
    taken(events)
    events.put("a", LOG, {})
    events.clear()
    assert not events
    assert events.dropped == 2


class Name(str):
    """A name that a weak reference can point to."""

    __slots__ = ("__weakref__",)


def test_taken_events_leave_no_reference_to_server_names():
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
def test_any_event_is_taken_in_order_or_counted_as_dropped(steps):
    events, put, received = buffer(limit=2), Counter(), []
    for number, step in enumerate(steps):
        if step is None:
            if events:
                received.append(events.pop())
            continue
        server, method = step
        put[server, method] += 1
        events.put(server, method, {"uri": str(number), "n": number})
    while events:
        received.append(events.pop())
    logs = [each for each in received if each[1] != TOOLS]
    for server in "abc":
        numbers = [params["n"] for name, _, params in logs if name == server]
        assert numbers == sorted(numbers)
        assert any(m == TOOLS for name, m, *_ in received if name == server) == bool(
            put[server, TOOLS]
        )
    expected = sum(count for (_, method), count in put.items() if method != TOOLS)
    assert len(logs) + events.dropped == expected
