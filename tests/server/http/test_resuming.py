"""Each message arrives once and in order, however often its stream is resumed."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_client import success
from raw_http_client import Bench, call, content, turns

from mcpwire.server.http.event_store import MemoryEventStore


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
