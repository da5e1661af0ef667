"""The event buffer of one consumer: ordered, coalesced, bounded."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proportion import grows_in_proportion

from mcpwire.protocol.methods import METHODS
from mcpwire.protocol.subscriptions import EventBuffer

MESSAGE = "notifications/message"
UPDATED = "notifications/resources/updated"
LISTS = sorted(spec.name for spec in METHODS if spec.name.endswith("/list_changed"))


def drain(buffer):
    """Remove and return all buffered events."""
    return [buffer.pop() for _ in range(len(buffer))]


def log(number):
    return MESSAGE, {"level": "info", "data": number}


def updated(uri, **more):
    return UPDATED, {"uri": uri, **more}


def is_kept(uri):
    return uri.startswith("kept:")


def test_pop_from_an_empty_buffer_is_an_index_error():
    with pytest.raises(IndexError, match="no notification waits"):
        EventBuffer(1).pop()


@pytest.mark.parametrize(
    "event",
    [
        *((name, None) for name in LISTS),
        updated("a:"),
        ("notifications/tasks", {"taskId": "t"}),
        ("notifications/tasks/status", {"taskId": "t"}),
        ("notifications/elicitation/complete", {"elicitationId": "e"}),
    ],
)
def test_events_of_one_subject_are_coalesced_with_the_newest_params(event):
    method, params = event
    newest = {**(params or {}), "_meta": {"n": 2}}
    buffer = EventBuffer(10)
    buffer.put(*event)
    buffer.put(*log(1))
    assert buffer.put(method, newest) is False
    assert buffer
    assert drain(buffer) == [(method, newest), log(1)]
    assert not buffer
    assert buffer.put(*event) is True


@pytest.mark.system("L-A10")
@pytest.mark.parametrize("method", LISTS)
def test_list_change_is_never_dropped(method):
    buffer = EventBuffer(2)
    buffer.put(method, None)
    for number in range(50):
        buffer.put(*log(number))
    assert drain(buffer) == [(method, None), log(48), log(49)]
    assert buffer.dropped == 48


def test_wanted_update_stays_protected_after_it_is_unwanted():
    wanted_uris = set()
    buffer = EventBuffer(1, wanted_uris.__contains__)
    buffer.put(*updated("a:"))
    wanted_uris.add("a:")
    buffer.put(*updated("a:", n=2))
    wanted_uris.clear()
    buffer.put(*updated("a:", n=3))
    buffer.put(*log(1))
    buffer.put(*log(2))
    assert drain(buffer) == [updated("a:", n=3), log(2)]


@pytest.mark.parametrize(
    "event",
    [
        (UPDATED, None),
        (UPDATED, {}),
        updated(None),
        updated(["kept:a"]),
        ("notifications/tasks", {"taskId": 7}),
        ("notifications/invented/list_changed", None),
    ],
)
def test_event_without_a_known_subject_is_ordinary(event):
    buffer = EventBuffer(2, is_kept)
    for _ in range(3):
        assert buffer.put(*event) is True
    assert drain(buffer) == [event] * 2
    assert buffer.dropped == 1


def test_clear_removes_events_and_keeps_the_counters():
    buffer = EventBuffer(1)
    for event in (log(1), log(2), (LISTS[0], None), (LISTS[0], None)):
        buffer.put(*event)
    buffer.clear()
    assert (len(buffer), buffer.dropped) == (0, 1)
    buffer.put(*log(3))
    assert drain(buffer) == [log(3)]


def flooded_buffer(count, limit):
    """Return a buffer after so many events of all kinds."""
    buffer = EventBuffer(limit, {f"kept:{n}" for n in range(10)}.__contains__)
    kinds = (
        log,
        lambda n: updated(f"kept:{n}"),
        lambda n: (f"notifications/{n}/list_changed", None),
        lambda n: ("notifications/tasks", {"taskId": str(n)}),
        lambda _: (LISTS[0], None),
    )
    for number in range(count):
        buffer.put(*kinds[number % len(kinds)](number))
    return buffer


@pytest.mark.fault("F16")
def test_flood_of_any_kind_is_bounded():
    buffer = flooded_buffer(20_000, 1_024)
    assert len(buffer) <= 1_024 + 10 + 1
    drain(buffer)
    assert not buffer._ordinary


def test_cost_of_an_event_does_not_depend_on_the_buffer_size():
    def put_and_take(count):
        drain(flooded_buffer(count, count // 8))

    assert grows_in_proportion(put_and_take, int, 40_000)


EVENTS = st.one_of(
    st.integers(0, 9).map(log),
    st.sampled_from(["kept:a", "kept:b", "c:", "d:"]).map(updated),
    st.sampled_from(LISTS).map(lambda name: (name, None)),
)


@example(3, [log(1), updated("c:"), None, log(2), log(3), log(4), log(5), log(6)])
@example(2, [*map(updated, ("kept:a", "c:", "kept:b")), *map(log, range(5))])
@example(0, [log(1), (LISTS[0], None)])
@given(st.integers(0, 4), st.lists(st.one_of(EVENTS, st.none()), max_size=40))
def test_order_bounds_and_counters_hold_in_any_sequence(limit, steps):
    """A step is a notification to put, or None to pop one."""
    buffer = EventBuffer(limit, is_kept)
    model = []  # (event, subject or None, is ordinary), oldest first
    put_count = pop_count = coalesced = 0
    for step in steps:
        if step is None:
            if model:
                assert buffer.pop() == model.pop(0)[0]
                pop_count += 1
            continue
        put_count += 1
        method, params = step
        subject = None if method == MESSAGE else (method, (params or {}).get("uri"))
        is_protected = method in LISTS or is_kept((params or {}).get("uri") or "")
        is_coalesced = subject is not None and subject in [entry[1] for entry in model]
        assert buffer.put(method, params) is not is_coalesced
        coalesced += is_coalesced
        if not is_coalesced:
            model.append((step, subject, not is_protected))
            ordinary = [entry for entry in model if entry[2]]
            if len(ordinary) > limit:
                model.remove(ordinary[0])
    assert drain(buffer) == [entry[0] for entry in model]
    assert put_count == pop_count + len(model) + buffer.dropped + coalesced


# Limit in bytes...


class Sized:
    """Returns the size of the next event."""

    def __init__(self):
        self.bytes = 0

    def __call__(self):
        return self.bytes


def test_oldest_ordinary_events_are_dropped_beyond_the_byte_limit():
    size = Sized()
    buffer = EventBuffer(1_000, max_bytes=100, size=size)
    for number, size.bytes in enumerate([40, 40, 20, 30]):
        buffer.put(*log(number))
    assert buffer.dropped == 1
    assert drain(buffer) == [log(1), log(2), log(3)]
    size.bytes = 101
    buffer.put(*log(9))
    assert (len(buffer), buffer.dropped) == (0, 2)
    size.bytes = 100
    buffer.put(*log(10))
    buffer.clear()
    buffer.put(*log(11))
    assert drain(buffer) == [log(11)]


def test_coalesced_event_counts_with_its_newest_size():
    size = Sized()
    buffer = EventBuffer(10, max_bytes=100, size=size)
    for size.bytes in (90, 10, 80):
        buffer.put(*updated("a:"))
    size.bytes = 20
    buffer.put(*log(1))
    assert drain(buffer) == [updated("a:"), log(1)]


def test_protected_events_do_not_count_and_are_trimmed_if_large():
    size = Sized()
    buffer = EventBuffer(10, is_kept, max_bytes=10, size=size)
    size.bytes = 100_000
    buffer.put(*updated("kept:a", extra="x" * 99_000))
    buffer.put(LISTS[0], {"_meta": {"x": "y" * 99_000}})
    size.bytes = 10
    buffer.put(*updated("kept:b", extra=1))
    buffer.put(*log(1))
    assert drain(buffer) == [
        updated("kept:a"),
        (LISTS[0], None),
        updated("kept:b", extra=1),
        log(1),
    ]


def test_event_that_becomes_protected_frees_its_bytes():
    size, wanted_uris = Sized(), set()
    buffer = EventBuffer(10, wanted_uris.__contains__, max_bytes=10, size=size)
    size.bytes = 10
    buffer.put(*updated("a:"))
    wanted_uris.add("a:")
    buffer.put(*updated("a:"))
    buffer.put(*log(1))
    assert drain(buffer) == [updated("a:"), log(1)]
