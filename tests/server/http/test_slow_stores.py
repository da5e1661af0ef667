"""Event stores that are slow or fail."""

import asyncio

import pytest
from raw_client import success
from raw_http_client import (
    Bench,
    Steps,
    call,
    called,
    content,
    data_of,
    in_session,
    turns,
)

from mcpwire.limits import Limits
from mcpwire.server.http.event_store import MemoryEventStore

DONE = success(1, content())


class SlowStore(MemoryEventStore):
    append_nowait = None

    def __init__(self):
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.error = None
        self.calls = []
        self.is_closed = False

    async def _wait(self, operation):
        self.calls.append(operation)
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def append(self, session, stream, event):
        await self._wait("append")
        MemoryEventStore.append_nowait(self, session, stream, event)

    async def replay(self, session, stream, after):
        await self._wait("replay")
        return await super().replay(session, stream, after)

    async def drop_stream(self, session, stream):
        await self._wait("drop_stream")
        await super().drop_stream(session, stream)

    async def drop_session(self, session):
        await self._wait("drop_session")
        await super().drop_session(session)

    async def aclose(self):
        self.is_closed = True


async def test_sending_does_not_wait_for_the_store_and_loses_no_event():
    steps, store = Steps(), SlowStore()
    async with called(steps, event_store=store) as (_bench, hand, visit):
        steps.log("a")
        await visit.next()
        store.gate.clear()
        steps.log("b", "c")
        await visit.until(lambda: len(visit.messages) == 3)
        await visit.disconnect()
        steps.log("d")
        await turns()
        again = hand.get(last_event_id=visit.ids[0])
        await turns()
        steps.log("e")
        await turns()
        assert not again.messages
        store.gate.set()
        steps.end()
        await again.done()
        assert data_of(again) == ["a", "b", "c", "d", "e", DONE]
        over = await hand.get(last_event_id=visit.ids[0]).done()
        assert data_of(over) == ["a", "b", "c", "d", "e", DONE]
    assert store.is_closed


async def test_failing_store_does_not_disturb_a_connected_client(caplog):
    steps, store = Steps(), SlowStore()
    async with called(steps, event_store=store) as (bench, hand, visit):
        store.error = OSError("disk full")
        steps.log("a", "b")
        await visit.until(lambda: len(visit.messages) == 2)
        assert "the event store failed" in caplog.text
        assert (await hand.get(last_event_id=visit.ids[0]).done()).status == 400
        store.error = None
        assert (await hand.get(last_event_id=visit.ids[0]).done()).status == 400
        steps.end()
        await bench.sessions.settle(5)


async def test_failing_memory_store_does_not_disturb_a_connected_client(caplog):
    class Broken(MemoryEventStore):
        def append_nowait(self, *_):
            raise ValueError("broken")

    steps = Steps()
    async with called(steps, event_store=Broken()) as (_bench, _hand, visit):
        steps.log("a")
        steps.end()
        await visit.done()
        assert data_of(visit) == ["a", DONE]
        assert "the event store failed" in caplog.text


async def test_events_queued_for_a_slow_store_are_bounded(caplog):
    steps, store = Steps(), SlowStore()
    async with Bench(steps, event_store=store) as bench:
        bench.dispatcher.limits = Limits(unwritten=1_000)
        hand = await bench.open()
        store.gate.clear()
        visit = hand.post(call(1))
        for n in range(4):
            steps.log("x" * 300)
            await visit.until(lambda m=n: len(visit.messages) > m)
        assert "too slow" in caplog.text
        store.gate.set()
        steps.end()
        await visit.done()
        await turns()
        assert (await hand.get(last_event_id=visit.ids[0]).done()).status == 400


async def test_ended_session_is_dropped_from_the_store_after_pending_appends():
    steps, store = Steps(), SlowStore()
    async with called(steps, event_store=store) as (_bench, hand, visit):
        store.gate.clear()
        steps.log("a", "b", "c")
        await visit.until(lambda: len(visit.messages) == 3)
        await hand.delete().done()
        await visit.done()
        assert store.calls == ["append"]
        store.gate.set()
        await turns(10)
        assert store.calls == ["append", "drop_session"]
        assert len(store) == 0


async def test_session_may_end_while_its_stream_is_replayed():
    steps, store = Steps(), SlowStore()
    async with called(steps, event_store=store) as (_bench, hand, visit):
        steps.log("a")
        await visit.next()
        store.gate.clear()
        again = hand.get(last_event_id=visit.ids[0])
        await turns()
        await hand.delete().done()
        store.gate.set()
        assert (await again.done()).status == 400
        await visit.done()


async def test_cancelled_resumption_does_not_block_the_next_stream():
    store = SlowStore()
    async with in_session(event_store=store) as (bench, hand):
        (session,) = bench.sessions
        session.send("notifications/a", {})
        stream = hand.get()
        await stream.next()
        store.gate.clear()
        again = hand.get(last_event_id=stream.ids[0])
        await turns()
        again.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again.task
        store.gate.set()
        await stream.done()
        third = hand.get()
        session.send("notifications/b", {})
        assert (await third.next())["method"] == "notifications/b"
        assert third.status == 200
