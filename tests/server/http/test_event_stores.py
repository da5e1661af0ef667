"""Event stores; any breaks and resumptions neither lose nor repeat an event."""

import asyncio
import gc
import json
import sqlite3
import time
from contextlib import closing

import pytest
from clocks import Clock
from hosted import opening, posted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_polling import until
from raw_client import request, success
from raw_http_client import Bench, call, content, in_session, turns
from traced_memory import traced_memory

from mcpwire import Context, Server
from mcpwire.server.fair_pool import client_key
from mcpwire.server.http.event_store import (
    EVENT_COST,
    Event,
    MemoryEventStore,
    SQLiteEventStore,
    parse_event_id,
)

NUMBERS = st.integers(0, 10**15 - 1)
SMALL = 1 + EVENT_COST
"""The counted size of a message of one byte."""


@pytest.mark.rule("LHTTP-20")
@given(st.text("abcdef0123456789", min_size=1, max_size=12), NUMBERS, NUMBERS)
def test_event_id_holds_its_session_stream_and_sequence(mark, stream, sequence):
    assert parse_event_id(f"{mark}.{stream}.{sequence}") == (mark, stream, sequence)


@given(st.text(max_size=30))
def test_parsed_event_id_round_trips(text):
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
def test_malformed_event_id_is_not_parsed(text):
    assert parse_event_id(text) is None


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    def build(clock=None, **options):
        if clock is not None:
            options["clock"] = clock
        if request.param == "memory":
            return MemoryEventStore(**options)
        return SQLiteEventStore(tmp_path / "events.db", **options)

    return build


async def fill(store, session, *sequences, stream=1):
    for sequence in sequences:
        await store.append(session, stream, Event(sequence, b"%d" % sequence))


async def replayed(store, session, after=0, stream=1):
    events = await store.replay(session, stream, after)
    assert all(event.data == b"%d" % event.sequence for event in events)
    return [event.sequence for event in events]


@pytest.mark.rule("LHTTP-22")
@pytest.mark.attack("S09")
@pytest.mark.case("D09")
async def test_store_replays_one_stream_of_one_session_in_order(make):
    store = make()
    await fill(store, "a", 1, 2, 3)
    await fill(store, "a", 1, stream=2)
    await fill(store, "b", 1)
    assert await replayed(store, "a", after=1) == [2, 3]
    assert await replayed(store, "a", stream=2) == [1]
    assert await replayed(store, "c") == []
    await store.drop_stream("a", 1)
    assert await replayed(store, "a") == []
    assert await replayed(store, "a", stream=2) == [1]
    await store.drop_session("a")
    assert await replayed(store, "a", stream=2) == []
    assert await replayed(store, "b") == [1]
    for _ in range(2):
        await store.drop_stream("a", 1)
        await store.drop_session("b")
    assert await replayed(store, "b") == []
    if isinstance(store, MemoryEventStore):
        assert (len(store), store.size) == (0, 0)
    await store.aclose()
    await store.aclose()


async def test_store_drops_events_above_the_maximum_age(make):
    clock = Clock(0.0)
    store = make(clock, age=10)
    await fill(store, "a", 1)
    clock.now = 5
    await fill(store, "a", 2)
    clock.now = 10
    assert await replayed(store, "a") == [1, 2]
    clock.now = 11
    assert await replayed(store, "a") == [2]
    await store.aclose()


def test_method_of_a_store_can_be_replaced_by_a_users_own(make, monkeypatch):
    store = make()
    monkeypatch.setattr(store, "append", "own")
    assert store.append == "own"


@pytest.mark.parametrize("bounds", [{"age": 0}, {"events": -1}, {"age": float("nan")}])
def test_bounds_must_be_above_zero(make, bounds):
    with pytest.raises(ValueError, match="must be above zero"):
        make(**bounds)


async def test_memory_is_bounded_by_events_and_bytes():
    store = MemoryEventStore(events=2)
    await fill(store, "a", 1, 2, 3)
    assert await replayed(store, "a") == [2, 3]
    store = MemoryEventStore(size=2 * SMALL, total_size=3 * SMALL)
    await fill(store, "a", 1, 2, 3)
    await fill(store, "b", 1, 2)
    assert await replayed(store, "a") == [3]
    assert await replayed(store, "b") == [1, 2]
    assert len(store) == 3


def test_memory_of_small_events_matches_their_counted_size():
    store = MemoryEventStore(events=10_000)
    with traced_memory() as memory:
        for sequence in range(1, 5_001):
            store.append_nowait("a.b", 1, Event(sequence, b"%075d" % sequence))
    assert 0.5 < memory.held / store.size < 1.5


async def test_an_event_larger_than_the_bound_is_not_kept():
    store = MemoryEventStore(size=EVENT_COST + 5)
    store.append_nowait("a", 1, Event(1, b"0123456789"))
    assert (len(store), store.size) == (0, 0)


@pytest.mark.attack("X07")
async def test_total_bound_evicts_the_oldest_events_of_the_largest_client():
    store = MemoryEventStore(total_size=6 * SMALL)
    own, first, second = [
        client_key(mark, owner) for mark, owner in [("a", 1), ("b", 2), ("c", 2)]
    ]
    await fill(store, own, 1, 2)
    for sequence in range(1, 9):
        await fill(store, first, sequence)
        await fill(store, second, sequence)
    # Events of one client in several sessions count together.
    assert (await replayed(store, first), await replayed(store, second)) == (
        [7, 8],
        [7, 8],
    )
    assert await replayed(store, own) == [1, 2]
    await fill(store, own, 3)
    assert await replayed(store, own) == [1, 2, 3]
    await fill(store, own, 4)
    assert await replayed(store, own) == [2, 3, 4]
    assert store.size == 6 * SMALL


def seconds_for_one_more(store, count):
    """Return the seconds per event while each new one evicts the oldest."""
    began = time.process_time()
    for sequence in range(count):
        store.append_nowait(f"{sequence % 100}.c", 1, Event(sequence, b"0123456789"))
    return (time.process_time() - began) / count


@pytest.mark.attack("X07")
def test_full_store_appends_as_fast_as_a_small_one():
    seconds = []
    for maximum in (100, 60_000):
        room = maximum * (10 + EVENT_COST)
        store = MemoryEventStore(events=maximum, size=room, total_size=room)
        gc.disable()
        try:
            seconds_for_one_more(store, maximum)
            seconds.append(seconds_for_one_more(store, 20_000))
        finally:
            gc.enable()
    # If it grew with the number of events, it would be 600 times as much.
    assert seconds[1] < 30 * seconds[0]


async def test_file_store_keeps_its_events_after_closing(tmp_path):
    path = tmp_path / "events.db"
    store = SQLiteEventStore(path)
    await fill(store, "a", 1, 2)
    await fill(store, "a", 2)
    await store.aclose()
    for again in (store, SQLiteEventStore(str(path))):
        assert await replayed(again, "a") == [1, 2]
        await again.aclose()


async def test_new_file_is_private_and_existing_permissions_are_kept(tmp_path):
    store = SQLiteEventStore(tmp_path / "events.db")
    await fill(store, "a", 1)
    names = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert names["events.db"] == 0o600
    assert set(names.values()) == {0o600}
    await store.aclose()
    (tmp_path / "events.db").chmod(0o640)
    await fill(store, "a", 2)
    assert (tmp_path / "events.db").stat().st_mode & 0o777 == 0o640
    await store.aclose()


async def test_file_in_a_missing_folder_raises_file_not_found(tmp_path):
    store = SQLiteEventStore(tmp_path / "none" / "events.db")
    with pytest.raises(FileNotFoundError):
        await fill(store, "a", 1)
    await store.aclose()


async def test_several_stores_can_write_to_one_file(tmp_path):
    stores = [SQLiteEventStore(tmp_path / "events.db") for _ in range(3)]
    await asyncio.gather(
        *(fill(store, str(n), *range(1, 20)) for n, store in enumerate(stores))
    )
    for n in range(3):
        assert len(await replayed(stores[0], str(n))) == 19
    for store in stores:
        await store.aclose()


async def test_file_store_can_be_used_while_it_closes(tmp_path):
    store = SQLiteEventStore(tmp_path / "events.db")
    for n in range(0, 20, 2):
        await fill(store, "a", n)
        # Two applications share the store, and one of them is closed.
        await asyncio.gather(store.aclose(), fill(store, "a", n + 1))
    assert await replayed(store, "a", after=-1) == list(range(20))
    await store.aclose()


def count(path):
    with closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT count(*) FROM events").fetchone()[0]


async def test_file_is_pruned_at_intervals(tmp_path, monkeypatch):
    monkeypatch.setattr("mcpwire.server.http.event_store.PRUNE_INTERVAL", 4)
    path, clock = tmp_path / "events.db", Clock(0.0)
    store = SQLiteEventStore(path, age=10, events=5, clock=clock)
    for sequence in range(1, 9):
        clock.now += 0.1
        await fill(store, "a", sequence)
    assert count(path) <= 9
    clock.now += 0.1
    await fill(store, "a", *range(9, 13))
    assert count(path) <= 9
    assert (await replayed(store, "a"))[-1] == 12
    clock.now += 20
    await fill(store, "b", *range(1, 9))
    await store.aclose()
    assert count(path) <= 9
    assert await replayed(store, "a") == []
    await store.aclose()


@pytest.mark.attack("X07")
async def test_full_file_evicts_the_oldest_events_of_the_largest_client(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("mcpwire.server.http.event_store.PRUNE_INTERVAL", 1)
    clock = Clock(0.0)
    store = SQLiteEventStore(tmp_path / "events.db", events=6, clock=clock)
    await fill(store, "a.mine", 1, 2)
    for sequence in range(1, 9):
        clock.now += 0.1
        await fill(store, "b.other", sequence)
        await fill(store, "c.other", sequence)
    assert await replayed(store, "a.mine") == [1, 2]
    assert await replayed(store, "b.other") == [7, 8]
    assert await replayed(store, "c.other") == [7, 8]
    await store.aclose()


@pytest.mark.attack("X07")
async def test_events_are_grouped_by_session_and_client_address():
    keys = []

    class Store(MemoryEventStore):
        def append_nowait(self, session, stream, event):
            keys.append(session)
            super().append_nowait(session, stream, event)

    server = Server("x")

    @server.tool
    async def tell(ctx: Context) -> None:
        ctx.info("begun")

    app = server.asgi(event_store=Store())

    async def post(address, message, **fields):
        visit = posted(message, mcp_protocol_version=None, **fields)
        visit.scope["client"] = (address, 50_000)
        return await visit.begin(app).done()

    tool_call = request(1, "tools/call", {"name": "tell", "arguments": {}})
    for address in ("192.0.2.1", "192.0.2.1", "198.51.100.1"):
        id = (await post(address, opening())).headers["mcp-session-id"]
        await post(address, tool_call, mcp_session_id=id)
    await app.aclose()
    clients = [key.partition(".")[2] for key in dict.fromkeys(keys)]
    assert len(clients) == 3
    assert clients[0] == clients[1] != clients[2]


async def test_file_that_is_not_a_database_raises_database_error(tmp_path):
    path = tmp_path / "events.db"
    path.write_bytes(b"no database, but a text of some length" * 100)
    store = SQLiteEventStore(path)
    with pytest.raises(sqlite3.DatabaseError):
        await fill(store, "a", 1)
    await store.aclose()


@pytest.mark.rule("LHTTP-20")
async def test_stream_of_a_session_is_replayed_from_a_file(tmp_path):
    async def log(params, request):
        for n in range(3):
            request.log("info", n)
        return content()

    store = SQLiteEventStore(tmp_path / "events.db")
    async with in_session(log, event_store=store) as (_bench, hand):
        visit = await hand.post(call(1)).done()
        again = await hand.get(last_event_id=visit.ids[1]).done()
        assert again.messages == visit.messages[1:]
        assert again.ids == visit.ids[2:]
        await hand.delete().done()
        # The session's events are dropped after its pending events are stored.
        await until(lambda: count(tmp_path / "events.db") == 0, 0.001)


class WaitingStore(MemoryEventStore):
    """Yields to the event loop in each of its methods."""

    append_nowait = None

    async def append(self, session, stream, event):
        await asyncio.sleep(0)
        MemoryEventStore.append_nowait(self, session, stream, event)

    async def replay(self, session, stream, after):
        await asyncio.sleep(0)
        found = await super().replay(session, stream, after)
        await asyncio.sleep(0)
        return found


class Reader:
    """A client of one call that remembers the last event id."""

    def __init__(self, hand):
        self.hand = hand
        self.visit = hand.post(call(1))
        self.taken = 0
        self.last_event_id = None
        self.got = []

    def collect(self):
        for event in self.visit.events[self.taken :]:
            self.taken += 1
            self.last_event_id = event.id
            if event.data:
                self.got.append(json.loads(event.data))

    async def resume(self):
        """Close the connection, collect its events, and resume the stream."""
        await self.visit.disconnect()
        self.collect()
        self.visit, self.taken = self.hand.get(last_event_id=self.last_event_id), 0

    async def finish(self):
        """Resume the stream until it has no more events; return all messages."""
        for _ in range(3):
            await self.visit.done()
            self.collect()
            self.visit, self.taken = self.hand.get(last_event_id=self.last_event_id), 0
        await self.visit.done()
        assert not self.visit.messages
        return self.got


async def play(steps, store):
    todo = asyncio.Queue()

    async def work(params, request):
        while (step := await todo.get()) is not None:
            step(request)
        return content()

    async with Bench(work, event_store=store) as bench:
        reader = Reader(await bench.open())
        todo.put_nowait(lambda request: request.log("info", 0))
        await reader.visit.until(lambda: len(reader.visit.events) == 2)
        sent = 1
        for step in steps:
            if step == "send":
                todo.put_nowait(lambda request, n=sent: request.log("info", n))
                sent += 1
            elif step == "pause":
                todo.put_nowait(lambda request: request.info.close_stream(None))
            elif step == "turn":
                await turns(3)
            elif step == "leave":
                reader.visit.leave()
            else:
                await reader.resume()
        todo.put_nowait(None)
        await bench.sessions.settle(5)
        *logs, answer = await reader.finish()
        assert [log["params"]["data"] for log in logs] == list(range(sent))
        assert answer == success(1, content())


STEPS = st.lists(
    st.sampled_from(["send", "send", "pause", "turn", "leave", "resume"]), max_size=25
)


@pytest.mark.rule("LHTTP-19", "LHTTP-20", "LHTTP-22")
@pytest.mark.case("D08", "D09", "D10")
@pytest.mark.parametrize("store", [MemoryEventStore, WaitingStore])
@settings(suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_each_message_arrives_once_and_in_order_however_often_resumed(store, steps):
    asyncio.run(play(steps, store()))
