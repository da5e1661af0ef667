"""When the application starts, and how it ends."""

import asyncio

import by_hand
import pytest
from asgi_driver import Visit
from hosted import app, ask, call, echo, post, posted, subscribed, text, tools
from http_hand import Work

from mcpwire.server.notifications import TOOLS

# Its life...


class Counting:
    """An application that counts how often its dispatcher was started and closed."""

    def __init__(self, error=None):
        self.started = self.closed = 0
        self.error = error
        dispatcher = tools(echo)
        dispatcher.start = self.start
        dispatcher.aclose = self.aclose
        self.app = app(dispatcher=dispatcher)

    async def start(self):
        self.started += 1
        await asyncio.sleep(0)  # as who has something to do
        if self.error is not None:
            raise self.error

    async def aclose(self):
        self.closed += 1


def life_of(made):
    seen = Visit({"type": "lifespan"})
    seen.incoming.put_nowait({"type": "lifespan.startup"})
    return seen.begin(made)


async def test_the_first_request_starts_it_once():
    counting = Counting()
    visits = [posted(call(n)).begin(counting.app) for n in range(5)]
    assert [(await v.done()).status for v in visits] == [200] * 5
    assert counting.started == 1
    await counting.app.aclose()
    assert counting.closed == 1
    await counting.app.aclose()
    assert counting.closed == 1


async def test_a_start_that_fails_is_tried_again(caplog):
    counting = Counting(ValueError("no"))
    visits = [posted(call(n)).begin(counting.app) for n in range(2)]
    assert [(await v.done()).status for v in visits] == [500, 500]
    counting.error = None
    assert (await post(counting.app, call())).status == 200
    assert counting.started == 2


async def test_the_lifespan_of_a_web_server_is_used():
    counting = Counting()
    for rounds in (1, 2):
        life = life_of(counting.app)
        await life.until(lambda v: v.sent)
        assert life.sent == [{"type": "lifespan.startup.complete"}]
        assert (await post(counting.app, call())).status == 200
        assert counting.started == rounds
        life.incoming.put_nowait({"type": "lifespan.shutdown"})
        await life.done()
        assert life.sent[1:] == [{"type": "lifespan.shutdown.complete"}]
        assert counting.closed == rounds


async def test_a_lifespan_that_cannot_begin_says_so(caplog):
    life = await life_of(Counting(ValueError("secret")).app).done()
    assert life.sent == [
        {
            "type": "lifespan.startup.failed",
            "message": "the server could not start: ValueError",
        }
    ]


def test_another_loop_starts_it_anew():
    counting = Counting()
    for _ in range(2):
        assert asyncio.run(post(counting.app, call())).status == 200
    assert counting.started == 2


# Its end...


@pytest.mark.case("D17")
async def test_draining_lets_calls_end_and_takes_no_more():
    work = Work()
    made = app(work)
    running = posted(call()).begin(made)
    await work.began.wait()
    draining = asyncio.get_running_loop().create_task(made.drain(30))
    await asyncio.sleep(0)  # until it drains
    refused = await post(made, call())
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert (await ask(made, "GET", "/ready")).status == 503
    assert (await ask(made, "GET", "/health")).status == 200
    assert not draining.done()
    work.go_on.set()
    await asyncio.wait_for(draining, 30)
    assert (await running.done()).status == 200


@pytest.mark.case("D17")
async def test_what_does_not_end_in_time_is_answered_with_an_error():
    work = Work()
    made = app(work)
    running = posted(call()).begin(made)
    await work.began.wait()
    await made.drain(0.01)
    await running.done()
    assert (work.outcomes, work.requests[0].is_cancelled) == (["cancelled"], True)
    assert running.json()["error"]["message"] == "the server is shutting down"
    assert running.task.cancelling() == 0


async def test_what_ends_in_the_turn_in_which_it_is_stopped_is_answered():
    work = Work()
    made = app(work)
    running = posted(call()).begin(made)
    await work.began.wait()
    work.go_on.set()
    made._stateless.stop_all()
    made._stateless.stop_all()
    await running.done()
    assert running.status == 200
    assert running.task.cancelling() == 0


async def test_a_handler_that_stops_the_server_is_answered():
    async def stops(params, request):
        made._stateless.stop_all()
        return {"content": [{"type": "text", "text": "stopped"}]}

    made = app(stops)
    running = await posted(call()).begin(made).done()
    assert text(running.json()) == "stopped"
    assert running.task.cancelling() == 0


async def test_a_handler_that_is_cancelled_while_it_stops_the_server_ends():
    async def stops(params, request):
        made._stateless.stop_all()
        running.task.cancel()
        return {"content": []}

    made = app(stops)
    running = posted(call()).begin(made)
    with pytest.raises(asyncio.CancelledError):
        await running.done()


async def test_a_call_that_is_stopped_twice_stays_cancelled():
    work = Work()
    made = app(work)
    running = posted(call()).begin(made)
    await work.began.wait()
    made._stateless.stop_all()
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.done()


@pytest.mark.case("D17", "D18")
@pytest.mark.rule("SUB-11")
async def test_draining_ends_subscriptions_with_their_result():
    dispatcher = subscribed(echo)
    made = app(dispatcher=dispatcher)
    wanted = {"notifications": {"toolsListChanged": True}}
    listening = posted(by_hand.modern(5, "subscriptions/listen", wanted)).begin(made)
    await listening.until(lambda v: v.sent[1:])
    dispatcher.hub.notify(TOOLS)
    await listening.until(lambda v: len(v.sse()) == 2)
    await made.drain(30)
    await listening.done()
    *_, last = listening.sse()
    assert last["id"] == 5
    assert last["result"]["resultType"] == "complete"


async def test_it_can_be_started_before_the_first_request():
    counting = Counting()
    await counting.app.start()
    await counting.app.start()
    assert (await post(counting.app, call())).status == 200
    assert counting.started == 1
