"""When the application starts, and how it ends."""

import asyncio
import logging

import by_hand
import pytest
from asgi_driver import Visit
from hosted import app, ask, call, echo, post, posted, text, tools

from mcpwire.server.http.app import AsgiApp
from mcpwire.server.notifications import Listens

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


# Its life...


class Counting:
    """Counts how often a dispatcher was started and closed."""

    def __init__(self, dispatcher, error=None):
        self.started = self.closed = 0
        self.error = error
        dispatcher.start = self.start
        dispatcher.aclose = self.aclose

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
    dispatcher = tools(echo)
    counting = Counting(dispatcher)
    made = app(dispatcher=dispatcher)
    visits = [posted(call(n)).begin(made) for n in range(5)]
    assert [(await v.done()).status for v in visits] == [200] * 5
    assert counting.started == 1
    await made.aclose()
    assert counting.closed == 1
    await made.aclose()
    assert counting.closed == 1


async def test_a_start_that_fails_is_tried_again(caplog):
    dispatcher = tools(echo)
    counting = Counting(dispatcher, ValueError("no"))
    made = app(dispatcher=dispatcher)
    visits = [posted(call(n)).begin(made) for n in range(2)]
    assert [(await v.done()).status for v in visits] == [500, 500]
    counting.error = None
    assert (await post(made, call())).status == 200
    assert counting.started == 2


async def test_the_lifespan_of_a_web_server_is_used():
    dispatcher = tools(echo)
    counting = Counting(dispatcher)
    made = app(dispatcher=dispatcher)
    for rounds in (1, 2):
        life = life_of(made)
        await life.until(lambda v: v.events)
        assert life.events == [{"type": "lifespan.startup.complete"}]
        assert (await post(made, call())).status == 200
        assert counting.started == rounds
        life.incoming.put_nowait({"type": "lifespan.shutdown"})
        await life.done()
        assert life.events[1:] == [{"type": "lifespan.shutdown.complete"}]
        assert counting.closed == rounds


async def test_a_lifespan_that_cannot_begin_says_so(caplog):
    dispatcher = tools(echo)
    Counting(dispatcher, ValueError("secret"))
    life = await life_of(app(dispatcher=dispatcher)).done()
    assert life.events == [
        {
            "type": "lifespan.startup.failed",
            "message": "the server could not start: ValueError",
        }
    ]


def test_another_loop_starts_it_anew():
    dispatcher = tools(echo)
    counting = Counting(dispatcher)
    made = app(dispatcher=dispatcher)
    for _ in range(2):
        assert asyncio.run(post(made, call())).status == 200
    assert counting.started == 2


# Its end...


@pytest.mark.case("D17")
async def test_draining_lets_calls_end_and_takes_no_more():
    go_on = asyncio.Event()
    entered = asyncio.Event()

    async def slow(params, request):
        entered.set()
        await go_on.wait()
        return {"content": []}

    made = app(slow)
    running = posted(call()).begin(made)
    await entered.wait()
    draining = asyncio.get_running_loop().create_task(made.drain(30))
    await asyncio.sleep(0)  # until it drains
    refused = await post(made, call())
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert (await ask(made, "GET", "/ready")).status == 503
    assert (await ask(made, "GET", "/health")).status == 200
    assert not draining.done()
    go_on.set()
    await asyncio.wait_for(draining, 30)
    assert (await running.done()).status == 200


@pytest.mark.case("D17")
async def test_what_does_not_end_in_time_is_answered_with_an_error():
    entered = asyncio.Event()
    cancelled = []

    async def hangs(params, request):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request.is_cancelled)
            raise

    made = app(hangs)
    running = posted(call()).begin(made)
    await entered.wait()
    await made.drain(0.01)
    await running.done()
    assert cancelled == [True]
    assert running.json()["error"]["message"] == "the server is shutting down"
    assert running.task.cancelling() == 0


async def test_what_ends_in_the_turn_in_which_it_is_stopped_is_answered():
    entered = asyncio.Event()
    ended = asyncio.get_running_loop().create_future()

    async def quick(params, request):
        entered.set()
        await ended
        return {"content": []}

    made = app(quick)
    running = posted(call()).begin(made)
    await entered.wait()
    ended.set_result(None)
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
    entered = asyncio.Event()

    async def hangs(params, request):
        entered.set()
        await asyncio.Event().wait()

    made = app(hangs)
    running = posted(call()).begin(made)
    await entered.wait()
    made._stateless.stop_all()
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.done()


@pytest.mark.case("D17", "D18")
@pytest.mark.rule("SUB-11")
async def test_draining_ends_subscriptions_with_their_result():
    from mcpwire.server.notifications import TOOLS, Subscriptions

    capabilities = {"tools": {"listChanged": True}}
    dispatcher = tools(echo, capabilities=capabilities)
    subscriptions = Subscriptions(
        dispatcher.hub, listens=Listens(2), capabilities=lambda: capabilities
    )
    dispatcher.declare(capabilities, {"tools/call": echo, **subscriptions.methods()})
    made = app(dispatcher=dispatcher)
    wanted = {"notifications": {"toolsListChanged": True}}
    listening = posted(by_hand.modern(5, "subscriptions/listen", wanted)).begin(made)
    await listening.until(lambda v: v.events[1:])
    dispatcher.hub.tell(TOOLS)
    await listening.until(lambda v: len(v.sse()) == 2)
    await made.drain(30)
    await listening.done()
    *_, last = listening.sse()
    assert last["id"] == 5
    assert last["result"]["resultType"] == "complete"


async def test_the_app_is_made_of_a_dispatcher_and_options():
    made = AsgiApp(tools(echo), cors=None)
    assert (await post(made, call())).status == 200
    assert logging.getLogger("mcpwire.access").name == "mcpwire.access"


async def test_it_can_be_started_before_the_first_request():
    dispatcher = tools(echo)
    counting = Counting(dispatcher)
    made = app(dispatcher=dispatcher)
    await made.start()
    await made.start()
    assert (await post(made, call())).status == 200
    assert counting.started == 1
