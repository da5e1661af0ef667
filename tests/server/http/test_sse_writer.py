"""The writer of an event stream on one response."""

import asyncio

import pytest
from clocks import on_a_clock_by_hand
from proportion import grows_in_proportion
from raw_http_client import QUICK, Bench, Visit, call, content, in_session, turns

from mcpwire.errors import RequestTimeout
from mcpwire.server.http.exchange import Timeouts
from mcpwire.server.http.sessions import ServerRequests
from mcpwire.server.http.streams import DROPPABLE, SseWriter


def made(room=1_000, **timeouts):
    limits = Timeouts(body=30, stream_after=30, **timeouts)
    return SseWriter(room), Visit("GET", {}, timeouts=limits)


def written(**timeouts):
    writer, visit = made(**timeouts)
    return writer, visit.begin(writer.run(visit.exchange))


def never(_):
    """Send nothing, and never return."""
    return asyncio.get_running_loop().create_future()


@pytest.mark.case("D16")
async def test_stream_begins_with_a_comment_so_that_its_head_is_sent():
    writer, visit = written()
    await visit.until(lambda: visit.body)
    assert visit.body == b": \n\n"
    assert visit.headers["x-accel-buffering"] == "no"
    writer.put(b"data: 1\n\n")
    writer.put(b"data: 2\n\n")
    writer.end()
    writer.put(b"data: 3\n\n")
    await visit.done()
    assert visit.body == b": \n\ndata: 1\n\ndata: 2\n\n"
    assert visit.is_complete
    assert writer.is_over


async def test_event_added_during_a_write_follows_it():
    writer, visit = made()
    writer.put(b"data: 1\n\n", 1)
    send = visit.send

    async def slow(event):
        if event.get("body") == b"data: 1\n\n":
            writer.put(b"data: 2\n\n", 2)
            assert writer.unwritten() == [(1, b"data: 1\n\n"), (2, b"data: 2\n\n")]
        await send(event)

    visit.send = slow
    visit.begin(writer.run(visit.exchange))
    await visit.until(lambda: b"2" in visit.body)
    assert writer.unwritten() == []
    writer.end()
    await visit.done()


async def test_stream_stopped_during_a_write_is_completed():
    writer, visit = made()
    send = visit.send

    async def slow(event):
        if event.get("body"):
            writer.stop()
        await send(event)

    visit.send = slow
    await visit.begin(writer.run(visit.exchange)).done()
    assert visit.is_complete


async def test_connection_reset_from_receive_counts_as_a_disconnect():
    writer, visit = written()

    async def receive():
        raise ConnectionResetError

    visit.receive = receive
    await visit.done()
    assert writer.is_over


async def test_writer_can_be_cancelled_between_heartbeats():
    writer, visit = written(heartbeat=QUICK)
    await visit.until(lambda: visit.body.count(b":") > 2)
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    assert writer.is_over


async def test_slow_client_loses_the_oldest_droppable_events():
    writer, visit = made(10)
    for data, sequence in [(b"1234", 0), (b"5678", DROPPABLE), (b"90ab", 0)]:
        writer.put(data, sequence)
    writer.end()
    await visit.begin(writer.run(visit.exchange)).done()
    assert visit.body == b"123490ab"
    assert writer.is_complete


@pytest.mark.attack("S13")
def test_dropping_events_of_a_slow_client_takes_linear_time():
    def overflow(count):
        writer, _ = made(room=count)
        for _ in range(2 * count):
            writer.put(b"x", DROPPABLE)

    assert grows_in_proportion(overflow, int, 8_000)


@pytest.mark.attack("S13")
async def test_unread_undroppable_events_above_the_limit_end_the_stream():
    writer = SseWriter(10)
    writer.put(b"12345678", 1)
    writer.put(b"9012", 2)
    assert writer.is_over
    writer.put(b"more", 3)
    assert writer.unwritten() == [(1, b"12345678"), (2, b"9012")]


@pytest.mark.attack("S13")
@pytest.mark.parametrize("ends", [True, False])
async def test_stalled_write_counts_as_a_disconnect(ends):
    writer, visit = made(stall=QUICK)
    visit.send = never
    writer.put(b"a")
    if ends:
        writer.end()
    await visit.begin(writer.run(visit.exchange)).done()
    assert writer.is_over
    assert not writer.is_complete
    assert asyncio.current_task().cancelling() == 0


async def test_writer_aborted_during_a_write_ends_at_once():
    writer, visit = made()
    visit.send = never
    writer.put(b"a", 1)
    visit.begin(writer.run(visit.exchange))
    await turns()
    writer.abort()
    writer.abort()
    await visit.done()
    assert (writer.unread, writer.unwritten()) == (0, [])


async def test_an_error_of_the_web_server_is_not_hidden():
    writer, visit = made()

    async def send(event):
        raise ZeroDivisionError

    visit.send = send
    with pytest.raises(ZeroDivisionError):
        await writer.run(visit.exchange)


async def test_shorter_ask_timeout_of_server_and_application_applies():
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
        async with in_session(dispatcher=dispatcher, ask_timeout=of_app) as (_, hand):
            await hand.post(call(1)).done()
    assert outcome == [QUICK] * 3


async def test_timeout_error_given_as_the_response_is_raised_unchanged():
    sent = []
    requests = ServerRequests()
    asking = asyncio.ensure_future(requests.ask(sent.append, "roots/list", {}, 60.0))
    await turns()
    assert len(sent) == 1
    own = RequestTimeout(method="x", timeout=1, elapsed=1)
    requests.resolve(1, own)
    requests.resolve(1, own)
    requests.close()
    with pytest.raises(RequestTimeout) as caught:
        await asking
    assert caught.value is own
    assert len(sent) == 1


@pytest.mark.attack("S13")
async def test_stalled_end_of_a_stream_counts_as_a_disconnect():
    writer, visit = written(stall=QUICK)
    await visit.until(lambda: visit.body)
    await turns()
    visit.send = never
    writer.stop()
    await visit.done()
    assert writer.is_over


@on_a_clock_by_hand
async def test_writer_can_be_aborted_in_the_loop_turn_of_its_write_timeout():
    writer, visit = made(stall=60.0)
    visit.send = never
    writer.put(b"a", 1)
    visit.begin(writer.run(visit.exchange))
    await turns()
    loop = asyncio.get_running_loop()
    aborted = loop.create_future()
    loop.call_later(61.0, lambda: aborted.set_result(writer.abort()))
    loop.jump(62.0)  # both timers are due in one turn
    await visit.done()
    assert aborted.done()
    assert (writer.unread, writer.unwritten()) == (0, [])
