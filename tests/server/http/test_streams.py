"""The streams of a session: each message on one stream, resumed; slow stores."""

import asyncio
import gc
import weakref

import pytest
from living import living
from raw_client import notice, success
from raw_http_client import (
    QUICK,
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
from mcpwire.server.http.event_store import MemoryEventStore, parse_event_id
from mcpwire.server.http.exchange import Timeouts
from mcpwire.server.http.sessions import MAX_ENDED_STREAMS

CHANGED = "notifications/tools/list_changed"


DONE = success(1, content())


@pytest.mark.rule("LHTTP-01", "LHTTP-15", "LHTTP-17", "LHTTP-19")
@pytest.mark.case("D07", "D08")
async def test_notification_outside_of_calls_goes_only_to_the_get_stream():
    steps = Steps()
    async with in_session(steps) as (bench, hand):
        other = await bench.open()
        streams = [h.get() for h in (hand, other)]
        for stream in streams:
            await stream.until(lambda s=stream: s.events)
            assert stream.status == 200
        visit = hand.post(call(1))
        steps.log("mine")
        await visit.next()
        bench.dispatcher.hub.notify(CHANGED)
        for stream in streams:
            assert (await stream.next())["method"] == CHANGED
        steps.end()
        await visit.done()
        assert data_of(visit) == ["mine", DONE]
        assert [len(stream.messages) for stream in streams] == [1, 1]


@pytest.mark.system("O56")
@pytest.mark.attack("S09")
@pytest.mark.case("D07")
async def test_second_get_is_refused_and_takes_no_messages():
    async with in_session() as (bench, hand):
        first = await hand.listen()
        second = await hand.get().done()
        assert (second.status, second.json["error"]["code"]) == (409, -32600)
        bench.dispatcher.hub.notify(CHANGED)
        assert (await first.next())["method"] == CHANGED
        await first.disconnect()
        third = await hand.listen()
        assert third.status == 200


async def test_messages_sent_before_the_get_stream_wait_for_it():
    async with in_session() as (bench, hand):
        (session,) = bench.sessions
        session.send("notifications/a", {})
        session.send("notifications/b", {})
        stream = hand.get()
        assert (await stream.next())["method"] == "notifications/a"
        assert (await stream.next())["method"] == "notifications/b"
        # The first event has an id, so that the stream can be resumed from its start.
        await stream.disconnect()
        again = hand.get(last_event_id=stream.ids[0])
        assert (await again.next())["method"] == "notifications/a"


async def test_replayed_message_is_not_sent_again_on_a_new_stream():
    async with in_session() as (bench, hand):
        (session,) = bench.sessions
        first = await hand.listen()
        await first.disconnect()
        session.send("notifications/a", {})
        again = hand.get(last_event_id=first.ids[0])
        await again.next()
        await again.disconnect()
        session.send("notifications/b", {})
        last = hand.get()
        assert (await last.next())["method"] == "notifications/b"


async def test_waiting_messages_are_bounded_and_the_oldest_are_dropped():
    async with Bench() as bench:
        bench.dispatcher.limits = Limits(notifications=3)
        hand = await bench.open()
        (session,) = bench.sessions
        for n in range(5):
            session.send(f"notifications/{n}", {})
        stream = hand.get()
        got = [(await stream.next())["method"][-1] for _ in range(3)]
        assert got == ["2", "3", "4"]


@pytest.mark.parametrize("store", [None, False], ids=["store", "none"])
async def test_unwritten_messages_go_to_the_next_stream(store):
    async with in_session(event_store=store, version="2025-06-18") as (bench, hand):
        (session,) = bench.sessions
        first = hand.get()
        await first.until(lambda: first.body)
        session.send("notifications/a", {})
        await first.next()
        first.send_error = OSError("the client is gone")
        session.send("notifications/b", {})
        session.send("notifications/c", {})
        await first.done()
        second = hand.get()
        assert (await second.next())["method"] == "notifications/b"
        assert (await second.next())["method"] == "notifications/c"
        session.send("notifications/d", {})
        assert (await second.next())["method"] == "notifications/d"


async def test_unwritten_messages_survive_a_refused_resumption():
    store = MemoryEventStore(events=3)
    async with in_session(event_store=store) as (bench, hand):
        (session,) = bench.sessions
        first = await hand.listen()
        first.gate = asyncio.Event()  # it does not read
        for name in "abcd":
            session.send(f"notifications/{name}", {})
        # The client has noticed the broken connection before the server.
        assert (await hand.get(last_event_id=first.ids[0]).done()).status == 400
        second = hand.get()
        for name in "abcd":
            assert (await second.next())["method"] == f"notifications/{name}"
        first.gate.set()
        await first.done()


async def test_client_that_does_not_read_loses_its_stream_but_no_message():
    async with Bench() as bench:
        bench.dispatcher.limits = Limits(unwritten=2_000)
        hand = await bench.open()
        (session,) = bench.sessions
        stream = await hand.listen()
        for _ in range(3):
            session.send("notifications/a", {"text": "x" * 900})
        await stream.done()
        assert stream.is_complete
        assert len(stream.messages) == 0
        again = hand.get(last_event_id=stream.ids[-1])
        for _ in range(3):
            await again.next()


@pytest.mark.system("O56", "L-O3")
@pytest.mark.rule("LHTTP-20", "LHTTP-22")
@pytest.mark.case("D09")
async def test_stream_is_resumed_after_the_given_event_id():
    steps = Steps()
    async with called(steps) as (_bench, hand, visit):
        steps.log("a", "b", "c")
        await visit.until(lambda: len(visit.messages) == 3)
        # Events sent meanwhile are replayed; then the stream continues as before.
        await visit.disconnect()
        steps.log("d")
        await turns()
        for index in (0, 1, 2, 3):
            again = hand.get(last_event_id=visit.ids[index])
            await again.until(lambda v=again, n=4 - index: len(v.messages) == n)
            assert data_of(again) == ["a", "b", "c", "d"][index:]
            await again.disconnect()
        last = hand.get(last_event_id=visit.ids[1])
        steps.log("e")
        steps.end()
        await last.done()
        assert data_of(last) == ["b", "c", "d", "e", DONE]
        assert last.is_complete
        # It can be replayed after its end too, any number of times.
        for _ in range(2):
            over = await hand.get(last_event_id=last.ids[-2]).done()
            assert data_of(over) == [DONE]
            assert over.ids == last.ids[-1:]
        empty = await hand.get(last_event_id=last.ids[-1]).done()
        assert (empty.status, empty.messages, empty.is_complete) == (200, [], True)


@pytest.mark.rule("LHTTP-16")
@pytest.mark.case("D07")
async def test_get_stream_can_be_resumed_beside_the_stream_of_a_call():
    steps = Steps()
    async with in_session(steps) as (bench, hand):
        (session,) = bench.sessions
        stream = hand.get()
        session.send("notifications/a", {})
        await stream.next()
        await stream.disconnect()
        session.send("notifications/b", {})
        visit = hand.post(call(1))
        steps.log("x")
        await visit.next()
        again = hand.get(last_event_id=stream.ids[-1])
        assert (await again.next())["method"] == "notifications/b"
        session.send("notifications/c", {})
        assert (await again.next())["method"] == "notifications/c"
        steps.end()
        await visit.done()
        assert len(again.messages) == 2


@pytest.mark.rule("LHTTP-19")
async def test_resuming_replaces_a_connection_that_still_seems_alive():
    steps = Steps()
    async with called(steps) as (_bench, hand, visit):
        steps.log("a")
        await visit.next()
        again = hand.get(last_event_id=visit.ids[0])
        await again.next()
        await visit.done()
        assert visit.is_complete
        steps.log("b")
        steps.end()
        await again.done()
        assert data_of(again) == ["a", "b", DONE]
        assert data_of(visit) == ["a"]


@pytest.mark.rule("LHTTP-22")
@pytest.mark.attack("S09")
@pytest.mark.case("D09")
async def test_event_id_that_is_unknown_or_of_another_session_is_refused():
    steps = Steps()
    async with Bench(steps) as bench:
        ada, bob = await bench.open(), await bench.open()
        visit = ada.post(call(1))
        steps.log("secret")
        await visit.next()
        mark, stream, sequence = parse_event_id(visit.ids[-1])
        foreign = [
            f"{mark}.{stream}.{sequence + 1}",
            f"{mark}.{stream + 1}.0",
            f"{mark}.0.1",
            f"{mark}.{stream}",
            f"x{mark}.1.0",
            "0",
            "x" * 5_000,
            "../..",
        ]
        for hand, event_id in [(bob, visit.ids[0]), *((ada, text) for text in foreign)]:
            refused = await hand.get(last_event_id=event_id).done()
            assert refused.status == 400, event_id
            assert b"secret" not in refused.body
        steps.log("more")
        assert (await visit.next())["params"]["data"] == "more"


async def test_resuming_after_an_evicted_event_is_refused():
    steps = Steps()
    async with called(steps, event_store=MemoryEventStore(events=2)) as (
        _bench,
        hand,
        visit,
    ):
        steps.log("a", "b", "c")
        await visit.until(lambda: len(visit.messages) == 3)
        await visit.disconnect()
        assert (await hand.get(last_event_id=visit.ids[0]).done()).status == 400
        again = hand.get(last_event_id=visit.ids[1])
        await again.until(lambda: len(again.messages) == 2)
        assert data_of(again) == ["b", "c"]


async def test_oldest_ended_streams_are_forgotten():
    async def log(params, request):
        request.log("info", "x")
        return content()

    async with in_session(log) as (_bench, hand):
        made = [await hand.post(call(1)).done() for _ in range(MAX_ENDED_STREAMS + 1)]
        replayed = [
            await hand.get(last_event_id=each.ids[0]).done() for each in made[:2]
        ]
        assert [each.status for each in replayed] == [400, 200]


@pytest.mark.rule("LHTTP-06", "LHTTP-07")
@pytest.mark.case("D10")
async def test_handler_can_close_the_stream_and_the_client_can_resume_it():
    steps = Steps()
    async with called(steps) as (_bench, hand, visit):
        steps.pause(0.5)
        await visit.done()
        assert visit.is_complete
        (priming,) = visit.events
        assert (priming.data, priming.retry) == (b"", 1_000)
        assert visit.body.endswith(b"retry: 500\n\n")
        steps.pause()  # there is no open stream
        steps.log("a")
        again = hand.get(last_event_id=priming.id)
        await again.next()
        steps.end()
        await again.done()
        assert data_of(again) == ["a", DONE]


@pytest.mark.rule("LHTTP-20")
@pytest.mark.case("D10")
async def test_response_arrives_once_after_500_resumptions():
    steps = Steps()
    async with called(steps) as (_, hand, first):
        steps.pause()
        await first.done()
        event_id, got = first.ids[-1], []
        for turn in range(500):
            visit = hand.get(last_event_id=event_id)
            steps.log(turn)
            steps.pause()
            await visit.until(lambda v=visit: v.is_complete or v.messages)
            await visit.done()
            got += data_of(visit)
            event_id = visit.ids[-1] if visit.ids else event_id
        steps.end()
        visit = await hand.get(last_event_id=event_id).done()
        got += data_of(visit)
        assert got == [*range(500), DONE]


@pytest.mark.rule("LHTTP-10")
@pytest.mark.parametrize(
    ("version", "store"),
    [("2025-06-18", None), ("2025-03-26", None), ("2025-11-25", False)],
    ids=["2025-06-18", "2025-03-26", "no store"],
)
async def test_handlers_cannot_close_streams_in_old_revisions_or_without_store(
    version, store
):
    steps = Steps()
    async with in_session(steps, event_store=store, version=version) as (_, hand):
        visit = hand.post(call(1))
        await turns()
        assert steps.request.info.close_stream is None
        steps.end()
        await visit.done()


async def test_closing_the_stream_after_the_response_does_nothing():
    steps = Steps()
    async with called(steps) as (_bench, _hand, visit):
        steps.end()
        await visit.done()
        steps.request.info.close_stream(1)
        assert visit.headers["content-type"] == "application/json"


@pytest.mark.pain("P40")
@pytest.mark.case("D15")
async def test_thousand_closed_sessions_leave_no_tasks_and_no_objects():
    async def log(params, request):
        request.log("info", "x")
        return content()

    bench = Bench(log, maximum=2_000)
    alive = weakref.WeakSet()
    before = len(asyncio.all_tasks())

    async def one(bench):
        hand = await bench.open()
        visit = await hand.post(call(1)).done()
        assert visit.messages[-1] == DONE
        return hand

    hands = [await one(bench) for _ in range(1_000)]
    alive.update(bench.sessions)
    assert len(alive) == len(bench.sessions) == 1_000
    for n, hand in enumerate(hands):
        if n % 2:
            assert (await hand.delete().done()).status == 204
    streams = [hand.get() for hand in hands[:20:2]]
    await turns()
    await bench.sessions.aclose()
    for stream in streams:
        assert (await stream.done()).is_complete
    await turns()
    assert len(bench.sessions) == len(bench.dispatcher.hub) == 0
    assert len(bench.sessions.store) == 0
    assert len(asyncio.all_tasks()) == before
    ended = [task.get_name() for task in living(asyncio.Task) if task.done()]
    assert "mcpwire-events" not in ended
    await bench.sessions.aclose()
    alive.add(bench.sessions)
    del bench, hands, streams, hand, stream
    gc.collect()
    assert len(alive) == 0  # no timer refers to them


async def test_idle_stream_gets_heartbeats_and_its_disconnect_is_noticed():
    async with Bench() as bench:
        hand = await bench.open(
            timeouts=Timeouts(body=30, stream_after=30, heartbeat=QUICK)
        )
        stream = hand.get()
        await stream.until(lambda: stream.body.count(b"\n: \n") >= 2)
        (session,) = bench.sessions
        assert not session.is_idle()
        await stream.disconnect()
        assert session.is_idle()
        await hand.post_accepted(notice("x/y"))
        assert await hand.ask(1, "ping") == success(1, {})


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
