"""The application: its start, drain and end; the paths and checks of its endpoint."""

import asyncio
import json

import pytest
import raw_client
import raw_http_client
from asgi_driver import Visit, scope, visit
from hosted import (
    app,
    asgi_request,
    call,
    echo,
    fields,
    post,
    posted,
    subscribed,
    text,
    tools,
)
from raw_http_client import Work, turns

from mcpwire.server.http.exchange import Timeouts
from mcpwire.server.http.stateless import Stateless
from mcpwire.server.notifications import TOOLS
from mcpwire.wire.jsonrpc import parse_message


class Counting:
    """An application that counts how often its dispatcher was started and closed."""

    def __init__(self, error=None):
        self.started = self.closed = 0
        self.begun = asyncio.Event()
        self.error = error
        dispatcher = tools(echo)
        dispatcher.start = self.start
        dispatcher.aclose = self.aclose
        self.app = app(dispatcher=dispatcher)

    async def start(self):
        self.started += 1
        self.begun.set()
        await asyncio.sleep(0)  # as a start that has to wait
        if self.error is not None:
            raise self.error

    async def aclose(self):
        self.closed += 1


def begin_lifespan(made):
    seen = Visit({"type": "lifespan"})
    seen.incoming.put_nowait({"type": "lifespan.startup"})
    return seen.begin(made)


async def test_first_requests_start_the_application_once():
    counting = Counting()
    visits = [posted(call(n)).begin(counting.app) for n in range(5)]
    assert [(await v.done()).status for v in visits] == [200] * 5
    assert counting.started == 1
    await counting.app.aclose()
    assert counting.closed == 1
    await counting.app.aclose()
    assert counting.closed == 1


async def test_failed_start_is_retried_by_the_next_request(caplog):
    counting = Counting(ValueError("no"))
    visits = [posted(call(n)).begin(counting.app) for n in range(2)]
    assert [(await v.done()).status for v in visits] == [500, 500]
    counting.error = None
    assert (await post(counting.app, call())).status == 200
    assert counting.started == 2


async def test_start_is_undone_if_the_request_that_began_it_was_cancelled():
    counting = Counting()
    starting = posted(call()).begin(counting.app)
    await counting.begun.wait()
    starting.task.cancel()
    await asyncio.wait([starting.task])
    await turns()  # until it has started
    await counting.app.aclose()
    assert counting.closed == 1


async def test_asgi_lifespan_starts_and_closes_the_application():
    counting = Counting()
    for rounds in (1, 2):
        lifespan = begin_lifespan(counting.app)
        await lifespan.until(lambda v: v.sent)
        assert lifespan.sent == [{"type": "lifespan.startup.complete"}]
        assert (await post(counting.app, call())).status == 200
        assert counting.started == rounds
        lifespan.incoming.put_nowait({"type": "lifespan.shutdown"})
        await lifespan.done()
        assert lifespan.sent[1:] == [{"type": "lifespan.shutdown.complete"}]
        assert counting.closed == rounds


async def test_failed_start_is_reported_as_lifespan_startup_failed(caplog):
    lifespan = await begin_lifespan(Counting(ValueError("secret")).app).done()
    assert lifespan.sent == [
        {
            "type": "lifespan.startup.failed",
            "message": "the server could not start: ValueError",
        }
    ]


def test_each_event_loop_starts_the_application_anew():
    counting = Counting()
    for _ in range(2):
        assert asyncio.run(post(counting.app, call())).status == 200
    assert counting.started == 2


def test_application_is_started_once_on_each_of_several_loops():
    counting = Counting()
    with asyncio.Runner() as first, asyncio.Runner() as second:
        for _ in range(3):
            for runner in (first, second):
                assert runner.run(post(counting.app, call())).status == 200
        assert counting.started == 2
        for runner in (first, second):
            runner.run(counting.app.aclose())
    assert counting.closed == 2


async def busy():
    """Return a tool that waits, its application, and a running call of it."""
    work = Work()
    made = app(work)
    running = posted(call()).begin(made)
    await work.began.wait()
    return work, made, running


def begin_stateless(work):
    """Return the part of an application without sessions, and a running call of it."""
    stateless, message = Stateless(tools(work)), call()
    timeouts = Timeouts(body=30, stream_after=30)
    running = raw_http_client.Visit("POST", dict(fields(message)), timeouts=timeouts)
    serving = stateless.serve(running.exchange, parse_message(message))
    return stateless, running.begin(serving)


@pytest.mark.case("D17")
async def test_draining_finishes_calls_and_refuses_new_requests():
    work, made, running = await busy()
    draining = asyncio.get_running_loop().create_task(made.drain(30))
    await asyncio.sleep(0)  # until it drains
    refused = await post(made, call())
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    ready = await asgi_request(made, "GET", "/ready")
    assert (ready.status, ready.headers["retry-after"]) == (503, "1")
    assert (await asgi_request(made, "GET", "/health")).status == 200
    assert not draining.done()
    work.release.set()
    await asyncio.wait_for(draining, 30)
    assert (await running.done()).status == 200


async def test_draining_ends_with_the_calls_that_a_second_drain_cancels():
    _, made, running = await busy()
    first = asyncio.get_running_loop().create_task(made.drain(3_600))
    await asyncio.sleep(0)  # until it drains
    await made.aclose()
    await asyncio.wait_for(first, 30)
    assert "error" in (await running.done()).json()


@pytest.mark.case("D17")
async def test_call_that_outlasts_draining_gets_an_error_response():
    work, made, running = await busy()
    await made.drain(0.01)
    await running.done()
    assert (work.outcomes, work.requests[0].is_cancelled) == (["cancelled"], True)
    assert running.json()["error"]["message"] == "the server is shutting down"
    assert running.task.cancelling() == 0


async def test_call_that_ends_in_the_loop_turn_of_its_stop_is_answered():
    work = Work()
    stateless, running = begin_stateless(work)
    await work.began.wait()
    work.release.set()
    stateless.stop_all()
    stateless.stop_all()
    await running.done()
    assert running.status == 200
    assert running.task.cancelling() == 0


async def test_a_handler_that_stops_the_server_is_answered():
    async def stops(params, request):
        stateless.stop_all()
        return {"content": [{"type": "text", "text": "stopped"}]}

    stateless, running = begin_stateless(stops)
    await running.done()
    assert text(running.json) == "stopped"
    assert running.task.cancelling() == 0


async def test_a_handler_that_is_cancelled_while_it_stops_the_server_ends():
    async def stops(params, request):
        stateless.stop_all()
        running.task.cancel()
        return {"content": []}

    stateless, running = begin_stateless(stops)
    with pytest.raises(asyncio.CancelledError):
        await running.done()


async def test_a_call_that_is_stopped_twice_stays_cancelled():
    work = Work()
    stateless, running = begin_stateless(work)
    await work.began.wait()
    stateless.stop_all()
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.done()


def listen(made, id):
    params = {"notifications": {"toolsListChanged": True}}
    return posted(raw_client.modern(id, "subscriptions/listen", params)).begin(made)


@pytest.mark.case("D17", "D18")
@pytest.mark.rule("SUB-11")
async def test_draining_ends_subscriptions_with_their_result():
    dispatcher, delayed = subscribed(echo), Work()
    made = app(dispatcher=dispatcher)
    listening = listen(made, 5)
    await listening.until(lambda v: v.sent[1:])
    # As if middleware waited before the subscription.
    delays = {"subscriptions/listen": delayed}
    dispatcher.declare({"tools": {"listChanged": True}}, delays)
    waiting = listen(made, 6)
    await delayed.began.wait()
    dispatcher.hub.notify(TOOLS)
    await made.drain(30)
    await listening.done()
    await waiting.done()
    _, changed, last = listening.sse()
    assert changed["method"] == TOOLS
    for id, answer in ((5, last), (6, waiting.json())):
        assert answer["id"] == id
        assert answer["result"]["resultType"] == "complete"


async def test_draining_ends_a_subscription_on_a_loop_of_another_thread():
    made, acknowledged = app(dispatcher=subscribed(echo)), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def work():
        visit = listen(made, 5)
        await visit.until(lambda v: v.sent[1:])
        loop.call_soon_threadsafe(acknowledged.set)
        await asyncio.wait_for(visit.task, 10)  # nothing else wakes its loop
        return visit.sse()[-1]["id"]

    listening = asyncio.create_task(asyncio.to_thread(asyncio.run, work()))
    await acknowledged.wait()
    await made.drain(0)
    assert await listening == 5


async def test_application_can_be_started_before_the_first_request():
    counting = Counting()
    await counting.app.start()
    await counting.app.start()
    assert (await post(counting.app, call())).status == 200
    assert counting.started == 1


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_endpoint_is_served_with_or_without_a_trailing_slash(path):
    seen = await visit(app(), scope(path=path, headers=fields(call())), b"{}")
    assert seen.status == 400


async def test_the_path_can_be_chosen():
    made = app(path="/")
    assert (await asgi_request(made, "GET", "/")).status == 405
    assert (await asgi_request(made, "GET", "/mcp")).status == 404


@pytest.mark.parametrize("path", ["/", "/other", "/mcp/x", "/mcpx", ""])
async def test_other_paths_return_404(path):
    assert (await asgi_request(app(), "POST", path)).status == 404


@pytest.mark.parametrize(
    ("options", "root", "place"),
    [({}, "", "/mcp"), ({"path": "/"}, "", "/"), ({"path": "/x/"}, "/api", "/api/x")],
)
async def test_404_names_the_path_of_the_endpoint(options, root, place):
    seen = await asgi_request(app(**options), "POST", f"{root}/other", root_path=root)
    message = json.loads(seen.body)["error"]["message"]
    assert message == f"nothing is served at this path; the endpoint is {place}"


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("/api", "/api/mcp", 405),
        ("/api", "/api", 405),
        ("/api", "/api/", 405),
        ("/api", "/mcp", 405),
        ("/api", "/", 405),
        ("/api", "", 405),
        ("/api", "/api/health", 200),
        ("/api", "/apimcp", 404),
        ("/api", "/api/other", 404),
    ],
)
async def test_application_can_be_mounted_below_a_root_path(root, path, status):
    seen = await asgi_request(app(), "GET", path, root_path=root)
    assert seen.status == status


@pytest.mark.parametrize("option", ["path", "health", "ready"])
def test_path_option_without_a_leading_slash_is_refused(option):
    with pytest.raises(ValueError, match=option):
        app(**{option: "mcp"})


async def test_health_endpoints_accept_any_host_header():
    made = app()
    for path in ("/health", "/ready"):
        seen = await asgi_request(made, "GET", path, headers=[("host", "evil.example")])
        assert seen.status == 200
        assert (await asgi_request(made, "HEAD", path)).body == b""
        assert (await asgi_request(made, "POST", path)).status == 405
    await made.aclose()


async def test_health_endpoints_can_be_disabled():
    assert (
        await asgi_request(app(health=None, ready=None), "GET", "/health")
    ).status == 404


@pytest.mark.system("O50")
@pytest.mark.case("D01", "D02")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"accept": "*/*"}, 200),
        ({"accept": None}, 200),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/json; charset=latin-1"}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"content_encoding": "gzip"}, 415),
    ],
)
async def test_accept_and_content_headers_are_checked(headers, status):
    assert (await post(app(), call(), **headers)).status == status


@pytest.mark.attack("X12")
async def test_a_body_of_too_many_values_is_refused_and_the_next_is_answered():
    made = app()
    seen = await post(made, call(id=5, arguments={"text": [{}] * 1_000_000}))
    assert (seen.status, seen.json()["id"]) == (400, 5)
    assert seen.json()["error"]["code"] == -32600
    assert "2000000 values (Limits.values)" in seen.json()["error"]["message"]
    assert (await post(made, call())).status == 200


async def test_websockets_are_closed():
    seen = Visit({"type": "websocket"})
    seen.incoming.put_nowait({"type": "websocket.connect"})
    await seen.begin(app()).done()
    assert seen.sent == [{"type": "websocket.close", "code": 1000}]


async def test_unknown_asgi_scope_type_raises():
    with pytest.raises(RuntimeError, match="unknown kind"):
        await app()({"type": "smtp"}, None, None)
