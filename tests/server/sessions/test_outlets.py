"""One response that carries a stream for a while."""

import asyncio

import pytest
from http_hand import QUICK, Bench, Visit, call, content, turns

from mcpwire.errors import RequestTimeout
from mcpwire.server.http.exchange import Timeouts
from mcpwire.server.http.streams import SseWriter

pytestmark = pytest.mark.anyio


def carried(room=1_000, **timeouts):
    outlet = SseWriter(room)
    visit = Visit("GET", {}, timeouts=Timeouts(reading=30, **timeouts))
    return outlet, visit, visit.begin(outlet.run(visit.exchange))


@pytest.mark.case("D16")
async def test_a_stream_begins_with_bytes_so_that_its_head_is_sent():
    outlet, visit, _ = carried()
    await visit.until(lambda: visit.body)
    assert visit.body == b": \n\n"
    assert visit.headers["x-accel-buffering"] == "no"
    outlet.put(b"data: 1\n\n")
    outlet.put(b"data: 2\n\n")
    outlet.end()
    outlet.put(b"data: 3\n\n")
    await visit.done()
    assert visit.body == b": \n\ndata: 1\n\ndata: 2\n\n"
    assert visit.is_complete
    assert outlet.is_over


async def test_what_is_put_in_while_something_is_written_follows():
    outlet = SseWriter(1_000)
    visit = Visit("GET", {}, timeouts=Timeouts(reading=30))
    outlet.put(b"data: 1\n\n", 1)
    send = visit.exchange._send

    async def slow(event):
        if event.get("body") == b"data: 1\n\n":
            outlet.put(b"data: 2\n\n", 2)
            assert outlet.unwritten() == [(1, b"data: 1\n\n"), (2, b"data: 2\n\n")]
        await send(event)

    visit.exchange._send = slow
    visit.begin(outlet.run(visit.exchange))
    await visit.until(lambda: b"2" in visit.body)
    assert outlet.unwritten() == []
    outlet.end()
    await visit.done()


async def test_one_that_is_cut_while_it_writes_ends_without_the_rest():
    outlet = SseWriter(1_000)
    visit = Visit("GET", {}, timeouts=Timeouts(reading=30))
    send = visit.exchange._send

    async def slow(event):
        if event.get("body"):
            outlet.cut()
        await send(event)

    visit.exchange._send = slow
    await visit.begin(outlet.run(visit.exchange)).done()
    assert visit.is_complete


async def test_a_web_server_that_raises_when_the_client_is_gone_is_understood():
    outlet, visit, _ = carried()

    async def receive():
        raise ConnectionResetError

    visit.exchange._receive = receive
    await visit.done()
    assert outlet.is_over


async def test_one_that_nobody_carries_any_more_can_be_cancelled():
    outlet, visit, _ = carried(beat=QUICK)
    await visit.until(lambda: visit.body.count(b":") > 2)
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    assert outlet.is_over


async def test_the_server_may_allow_less_time_for_answers_than_the_application():
    outcome = []

    async def ask(params, request):
        try:
            await request.ask("roots/list", {})
        except RequestTimeout as error:
            outcome.append(error.timeout)
        return content()

    for of_app, of_server in [(QUICK, 600.0), (QUICK, None), (None, QUICK)]:
        dispatcher = Bench(ask).dispatcher
        dispatcher.ask_timeout = of_server
        async with Bench(dispatcher=dispatcher, ask_timeout=of_app) as bench:
            hand = await bench.open()
            await hand.post(call(1)).done()
    assert outcome == [QUICK] * 3


async def test_an_error_of_the_kind_of_a_timeout_is_the_clients_answer():
    outcome = []

    async def ask(params, request):
        try:
            await request.ask("roots/list", {})
        except RequestTimeout as error:
            outcome.append(error)
        return content()

    async with Bench(ask) as bench:
        hand = await bench.open()
        visit = hand.post(call(1))
        await visit.next()
        (session,) = bench.sessions._registry
        assert len(session._questions) == 1
        own = RequestTimeout(method="x", timeout=1, elapsed=1)
        session._questions.fail(1, own)
        session._questions.fail(1, own)
        session._questions.close()
        await turns()
        assert outcome == [own]
        await visit.done()
