"""The answer to one POST: JSON while there is nothing else to say, else a stream."""

import asyncio

import pytest
from asgi_driver import Visit, scope

from mcpwire import Limits
from mcpwire.server.http.exchange import ClientGone, Exchange, Timeouts
from mcpwire.server.http.streams import Reply, as_event

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def opened(limits=None, timeouts=None, **options):
    visit = Visit(scope())
    limits = limits or Limits()
    exchange = Exchange(visit.scope, visit.receive, visit.send, limits, timeouts)
    lost = []
    return visit, Reply(exchange, lambda: lost.append(1), **options), lost


async def test_an_answer_alone_is_json():
    visit, reply, _ = opened(fields=[("x-more", "1")])
    await reply.finish(b"{}", 400)
    await reply.aclose()
    assert visit.status == 400
    assert visit.headers["x-more"] == "1"
    assert visit.body == b"{}"


async def test_a_stream_that_ends_at_once_is_written_at_once():
    visit, reply, _ = opened()
    reply.push(b"a")
    assert reply.is_stream
    await reply.finish(b"{}", 400)
    await reply.aclose()
    assert visit.status == 200
    assert [event.get("body") for event in visit.events] == [
        None,
        b"a" + as_event(b"{}"),
    ]


async def test_after_the_end_nothing_is_said():
    visit, reply, _ = opened()
    await reply.finish(b"{}")
    reply.push(b"a")
    assert visit.body == b"{}"
    assert not reply.is_stream


async def test_a_stream_may_end_without_an_answer():
    visit, reply, _ = opened()
    reply.begin()
    reply.begin()
    await visit.until(lambda v: v.events[1:])
    await reply.end()
    reply.end_nowait(b"too late")
    await reply.aclose()
    assert visit.is_complete
    assert visit.body == b": \n\n"


async def test_what_must_not_be_lost_is_not_dropped():
    visit, reply, lost = opened(Limits(unwritten=10))
    reply.push(b"1234", may_be_lost=False)
    reply.push(b"5678")
    reply.push(b"90ab", may_be_lost=False)
    await reply.end(b"c")
    assert visit.body == b"123490abc"
    assert lost == []


@pytest.mark.attack("S13")
async def test_a_client_that_does_not_read_what_it_must_counts_as_gone():
    visit, reply, lost = opened(Limits(unwritten=10))
    visit.gate = asyncio.Event()
    reply.push(b"12345678", may_be_lost=False)
    reply.push(b"9012", may_be_lost=False)
    assert lost == [1]
    assert reply.is_lost
    reply.push(b"more")
    with pytest.raises(ClientGone):
        await reply.finish(b"{}")
    await reply.aclose()
    assert visit.events == []


async def test_a_client_that_goes_away_before_the_end_is_told_of():
    visit, reply, lost = opened()
    visit.gate = asyncio.Event()
    reply.push(b"a")
    ending = asyncio.get_running_loop().create_task(reply.finish(b"{}"))
    await asyncio.sleep(0)  # until it waits for the writer
    visit.send_error = OSError()
    visit.gate.set()
    with pytest.raises(ClientGone):
        await ending
    await reply.aclose()
    assert lost == [1]


async def test_an_error_of_the_web_server_is_not_hidden():
    visit, reply, _ = opened()
    visit.send_error = ZeroDivisionError()
    reply.push(b"a")
    with pytest.raises(ZeroDivisionError):
        await reply.finish(b"{}")
    await reply.aclose()


async def test_closing_stops_what_is_being_written():
    visit, reply, _ = opened()
    visit.gate = asyncio.Event()
    reply.push(b"a")
    await asyncio.sleep(0)  # until it is being written
    await reply.aclose()
    assert visit.events == []
    await reply.aclose()


async def test_a_client_that_goes_away_while_nothing_is_said_ends_the_writer():
    visit, reply, lost = opened()
    reply.push(b"a")
    await visit.until(lambda v: v.events[1:])
    await asyncio.sleep(0)  # until the writer waits
    reply._lose()
    reply._lose()
    await asyncio.sleep(0)  # until the writer has ended
    await reply.aclose()
    assert lost == [1]
    assert not visit.is_complete


async def test_a_client_that_goes_away_while_it_is_written_to_ends_the_writer():
    visit, reply, lost = opened()
    visit.gate = asyncio.Event()
    reply.push(b"a")
    await asyncio.sleep(0)  # until it is being written
    reply._lose()
    visit.gate.set()
    with pytest.raises(ClientGone):
        await reply.end()
    await reply.aclose()
    assert lost == [1]


@pytest.mark.attack("S13")
@pytest.mark.parametrize("ends", [True, False])
async def test_a_client_that_never_reads_counts_as_gone(ends):
    visit, reply, lost = opened(timeouts=Timeouts(reading=30, stall=0.001))
    visit.gate = asyncio.Event()
    reply.push(b"a")
    if ends:
        with pytest.raises(ClientGone):
            await reply.finish(b"{}")
    else:
        await asyncio.wait([reply._writer])
        with pytest.raises(ClientGone):
            await reply.finish(b"{}")
    await reply.aclose()
    assert lost == [1]
    assert visit.events == []
