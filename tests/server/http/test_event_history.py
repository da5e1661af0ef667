"""Ids of events, and the bounded memory of them."""

import gc
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.server.fair_pool import client_key
from mcpwire.server.http.event_store import (
    Event,
    MemoryEventStore,
    parse_event_id,
)

pytestmark = pytest.mark.anyio

NUMBERS = st.integers(0, 10**15 - 1)


@pytest.mark.rule("LHTTP-20")
@given(
    st.text("abcdef0123456789", min_size=1, max_size=12),
    NUMBERS,
    NUMBERS,
)
def test_an_id_says_its_session_its_stream_and_its_place(mark, stream, sequence):
    assert parse_event_id(f"{mark}.{stream}.{sequence}") == (mark, stream, sequence)


@given(st.text(max_size=30))
def test_what_parses_is_what_was_written(text):
    id = parse_event_id(text)
    assert id is None or ".".join(map(str, id)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.1",
        ".1.2",
        "a.1.",
        "a..2",
        "a.1.2.3",
        "a.01.2",
        "a.1.+2",
        "a.1.-2",
        "a.1. 2",
        "a.1.1_0",
        "a.1.²",
        "a.1.٣",
        "a.1." + "9" * 16,
        "a.1." + "9" * 100_000,
    ],
)
def test_what_is_no_id_of_ours_names_nothing(text):
    assert parse_event_id(text) is None


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def history(**bounds):
    return MemoryEventStore(**{"events": 9, "size": 999, "total_size": 999, **bounds})


def fill(kept, session, *sequences, stream=1, data=b"0123456789"):
    for sequence in sequences:
        kept.append_nowait(session, stream, Event(sequence, data))


async def places(kept, session, stream=1, after=0):
    return [event.sequence for event in await kept.replay(session, stream, after)]


@pytest.mark.rule("LHTTP-22")
@pytest.mark.attack("S09")
async def test_what_is_replayed_is_of_one_stream_of_one_session():
    kept = history()
    fill(kept, "a", 1, 2, 3)
    fill(kept, "a", 1, 2, stream=2)
    fill(kept, "b", 1, 2)
    assert await places(kept, "a", after=1) == [2, 3]
    assert await places(kept, "a", stream=2) == [1, 2]
    assert await places(kept, "b", after=2) == []
    assert await places(kept, "c") == []


async def test_the_oldest_of_a_session_go_first():
    kept = history(events=3)
    fill(kept, "a", 1, 2, 3, 4)
    fill(kept, "b", 1)
    assert await places(kept, "a") == [2, 3, 4]
    assert await places(kept, "b") == [1]
    kept = history(size=25)
    fill(kept, "a", 1, 2, 3)
    assert await places(kept, "a") == [2, 3]
    assert kept.size == 20


async def test_an_event_larger_than_the_bound_is_not_kept():
    kept = history(size=5)
    fill(kept, "a", 1)
    assert (len(kept), kept.size) == (0, 0)


@pytest.mark.attack("X07")
async def test_over_the_bound_on_all_the_oldest_of_the_client_with_the_most_go():
    kept = history(total_size=60)
    mine, first, second = [
        client_key(mark, owner) for mark, owner in [("a", 1), ("b", 2), ("c", 2)]
    ]
    fill(kept, mine, 1, 2)
    for sequence in range(1, 9):
        fill(kept, first, sequence)
        fill(kept, second, sequence)
    # What one client has in several sessions counts together.
    assert (await places(kept, first), await places(kept, second)) == ([7, 8], [7, 8])
    assert await places(kept, mine) == [1, 2]
    fill(kept, mine, 3)
    assert await places(kept, mine) == [1, 2, 3]
    fill(kept, mine, 4)
    assert await places(kept, mine) == [2, 3, 4]
    assert kept.size == 60


async def test_what_is_too_old_goes():
    clock = Clock()
    kept = history(age=10, clock=clock)
    for clock.now, sequence in [(0, 1), (5, 2)]:
        fill(kept, "a", sequence)
    clock.now = 10
    assert await places(kept, "a") == [1, 2]
    clock.now = 11
    assert await places(kept, "a") == [2]
    clock.now = 16
    fill(kept, "b", 1)
    assert len(kept) == 1


async def test_a_stream_and_a_session_can_be_dropped():
    kept = history()
    fill(kept, "a", 1, 2)
    fill(kept, "a", 1, stream=2)
    fill(kept, "b", 1)
    await kept.drop_stream("a", 1)
    assert await places(kept, "a") == []
    assert await places(kept, "a", stream=2) == [1]
    await kept.drop_session("a")
    assert len(kept) == 1
    await kept.drop_stream("a", 1)
    await kept.drop_session("a")
    await kept.drop_session("b")
    assert (len(kept), kept.size) == (0, 0)


def seconds_for_one_more(kept, count):
    """Return how long an event takes where each one has the oldest forgotten."""
    began = time.process_time()
    for sequence in range(count):
        fill(kept, f"{sequence % 100}.c", sequence)
    return (time.process_time() - began) / count


@pytest.mark.attack("X07")
def test_a_full_store_takes_an_event_as_fast_as_a_small_one():
    taken = []
    for most in (100, 60_000):
        kept = history(events=most, size=10 * most, total_size=10 * most)
        gc.disable()
        try:
            seconds_for_one_more(kept, most)
            taken.append(seconds_for_one_more(kept, 20_000))
        finally:
            gc.enable()
    # Where it grew with what is held, it would be 600 times as much.
    assert taken[1] < 30 * taken[0]
