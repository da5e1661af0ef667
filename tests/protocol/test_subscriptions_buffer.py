"""What waits for one consumer: in order, coalesced, kept, bounded."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proportion import grows_in_proportion

from mcpwire.protocol.methods import METHODS
from mcpwire.protocol.subscriptions import EventBuffer

MESSAGE = "notifications/message"
UPDATED = "notifications/resources/updated"
LISTS = sorted(spec.name for spec in METHODS if spec.name.endswith("/list_changed"))


def taken(buffer):
    """Take out all that waits."""
    return [buffer.pop() for _ in range(len(buffer))]


def log(number):
    return MESSAGE, {"level": "info", "data": number}


def updated(uri, **more):
    return UPDATED, {"uri": uri, **more}


def is_kept(uri):
    return uri.startswith("kept:")


def test_nothing_can_be_taken_from_an_empty_buffer():
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
def test_one_entry_waits_for_each_subject_with_the_newest_params_at_its_place(event):
    method, params = event
    newest = {**(params or {}), "_meta": {"n": 2}}
    buffer = EventBuffer(10)
    buffer.put(*event)
    buffer.put(*log(1))
    assert buffer.put(method, newest) is False
    assert buffer
    assert taken(buffer) == [(method, newest), log(1)]
    assert not buffer
    assert buffer.put(*event) is True


@pytest.mark.system("L-A10")
@pytest.mark.parametrize("method", LISTS)
def test_a_changed_list_is_never_lost(method):
    buffer = EventBuffer(2)
    buffer.put(method, None)
    for number in range(50):
        buffer.put(*log(number))
    assert taken(buffer) == [(method, None), log(48), log(49)]
    assert buffer.dropped == 48


def test_an_update_that_waits_is_kept_from_when_the_consumer_wants_it_and_on():
    wanted = set()
    buffer = EventBuffer(1, wanted.__contains__)
    buffer.put(*updated("a:"))
    wanted.add("a:")
    buffer.put(*updated("a:", n=2))
    wanted.clear()
    buffer.put(*updated("a:", n=3))
    buffer.put(*log(1))
    buffer.put(*log(2))
    assert taken(buffer) == [updated("a:", n=3), log(2)]


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
def test_what_names_no_subject_or_no_list_we_know_is_ordinary(event):
    buffer = EventBuffer(2, is_kept)
    for _ in range(3):
        assert buffer.put(*event) is True
    assert taken(buffer) == [event] * 2
    assert buffer.dropped == 1


def test_what_is_cleared_is_gone_and_the_counters_stay():
    buffer = EventBuffer(1)
    for event in (log(1), log(2), (LISTS[0], None), (LISTS[0], None)):
        buffer.put(*event)
    buffer.clear()
    assert (len(buffer), buffer.dropped) == (0, 1)
    buffer.put(*log(3))
    assert taken(buffer) == [log(3)]


def flooded(count, limit):
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
def test_little_of_a_flood_of_any_kind_is_held():
    buffer = flooded(20_000, 1_024)
    assert len(buffer) <= 1_024 + 10 + 1
    taken(buffer)
    assert not buffer._ordinary


def test_an_event_costs_the_same_with_few_that_wait_and_with_many():
    def put_and_take(count):
        taken(flooded(count, count // 8))

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
    """A step is a notification that comes, or None: one is taken."""
    buffer = EventBuffer(limit, is_kept)
    model = []  # (event, subject or None, is ordinary), oldest first
    came = taken_out = coalesced = 0
    for step in steps:
        if step is None:
            if model:
                assert buffer.pop() == model.pop(0)[0]
                taken_out += 1
            continue
        came += 1
        method, params = step
        subject = None if method == MESSAGE else (method, (params or {}).get("uri"))
        kept = method in LISTS or is_kept((params or {}).get("uri") or "")
        known = subject is not None and subject in [entry[1] for entry in model]
        assert buffer.put(method, params) is not known
        coalesced += known
        if not known:
            model.append((step, subject, not kept))
            ordinary = [entry for entry in model if entry[2]]
            if len(ordinary) > limit:
                model.remove(ordinary[0])
    assert taken(buffer) == [entry[0] for entry in model]
    assert came == taken_out + len(model) + buffer.dropped + coalesced


# Room in bytes...


class Sized:
    """Tells the size of what is put in next."""

    def __init__(self):
        self.bytes = 0

    def __call__(self):
        return self.bytes


def test_beyond_the_room_the_oldest_ordinary_ones_are_dropped_until_it_fits():
    size = Sized()
    buffer = EventBuffer(1_000, max_bytes=100, size=size)
    for number, size.bytes in enumerate([40, 40, 20, 30]):
        buffer.put(*log(number))
    assert buffer.dropped == 1
    assert taken(buffer) == [log(1), log(2), log(3)]
    size.bytes = 101
    buffer.put(*log(9))
    assert (len(buffer), buffer.dropped) == (0, 2)
    size.bytes = 100
    buffer.put(*log(10))
    buffer.clear()
    buffer.put(*log(11))
    assert taken(buffer) == [log(11)]


def test_what_is_coalesced_takes_the_room_of_its_newest():
    size = Sized()
    buffer = EventBuffer(10, max_bytes=100, size=size)
    for size.bytes in (90, 10, 80):
        buffer.put(*updated("a:"))
    size.bytes = 20
    buffer.put(*log(1))
    assert taken(buffer) == [updated("a:"), log(1)]


def test_what_is_kept_takes_no_room_and_is_cut_where_it_is_large():
    size = Sized()
    buffer = EventBuffer(10, is_kept, max_bytes=10, size=size)
    size.bytes = 100_000
    buffer.put(*updated("kept:a", extra="x" * 99_000))
    buffer.put(LISTS[0], {"_meta": {"x": "y" * 99_000}})
    size.bytes = 10
    buffer.put(*updated("kept:b", extra=1))
    buffer.put(*log(1))
    assert taken(buffer) == [
        updated("kept:a"),
        (LISTS[0], None),
        updated("kept:b", extra=1),
        log(1),
    ]


def test_what_becomes_kept_gives_its_room_back():
    size, wanted = Sized(), set()
    buffer = EventBuffer(10, wanted.__contains__, max_bytes=10, size=size)
    size.bytes = 10
    buffer.put(*updated("a:"))
    wanted.add("a:")
    buffer.put(*updated("a:"))
    buffer.put(*log(1))
    assert taken(buffer) == [updated("a:"), log(1)]
