"""The application: paths, Host and Origin, CORS, formats, mounting, its life."""

import asyncio
import logging

import attrs
import by_hand
import pytest
from asgi_driver import Visit, scope, visit
from hosted import app, ask, call, echo, fields, post, posted, text, tools

from mcpwire import Limits
from mcpwire.errors import RPCError
from mcpwire.server.auth.challenges import HttpRefusal
from mcpwire.server.http.app import AsgiApp

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


# Paths...


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_the_endpoint_is_at_its_path(path):
    seen = await visit(app(), scope(path=path, headers=fields(call())), b"{}")
    assert seen.status == 400


async def test_the_path_can_be_chosen():
    made = app(path="/")
    assert (await ask(made, "GET", "/")).status == 405
    assert (await ask(made, "GET", "/mcp")).status == 404


@pytest.mark.parametrize("path", ["/", "/other", "/mcp/x", "/mcpx", ""])
async def test_elsewhere_there_is_nothing(path):
    assert (await ask(app(), "POST", path)).status == 404


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
async def test_it_can_be_mounted(root, path, status):
    seen = await ask(app(), "GET", path, root_path=root)
    assert seen.status == status


@pytest.mark.parametrize("option", ["path", "health", "ready"])
def test_a_path_begins_with_a_slash(option):
    with pytest.raises(ValueError, match=option):
        app(**{option: "mcp"})


async def test_health_is_for_everybody():
    made = app()
    for path in ("/health", "/ready"):
        seen = await ask(made, "GET", path, headers=[("host", "evil.example")])
        assert seen.status == 200
        assert (await ask(made, "HEAD", path)).body == b""
        assert (await ask(made, "POST", path)).status == 405
    await made.aclose()


async def test_health_can_be_left_out():
    assert (await ask(app(health=None, ready=None), "GET", "/health")).status == 404


# Who comes in...


@pytest.mark.case("D06")
@pytest.mark.attack("S11")
@pytest.mark.rule("TR-HTTP-02", "TR-HTTP-03")
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.com"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": None},
    ],
)
async def test_strangers_are_refused_whatever_they_want(verb, headers):
    seen = await ask(app(), verb, headers=fields(call(), **headers))
    assert seen.status == 403
    assert "id" not in seen.json()
    assert "allowed_" in seen.json()["error"]["message"]


@pytest.mark.parametrize(
    ("options", "headers", "status"),
    [
        ({}, {"origin": "http://localhost:5173"}, 200),
        ({"allowed_hosts": ["mcp.example"]}, {"host": "mcp.example"}, 200),
        ({"allowed_hosts": "mcp.example"}, {"host": "mcp.example"}, 200),
        ({"allowed_hosts": ["mcp.example"]}, {}, 403),
        (
            {"allowed_origins": ["https://a.example"]},
            {"origin": "https://a.example"},
            200,
        ),
        ({"bound": "box.example"}, {"host": "box.example:8000"}, 200),
        ({"bound": "box.example"}, {"host": "evil.example"}, 403),
    ],
)
async def test_who_may_come_in_can_be_said(options, headers, status):
    assert (await post(app(**options), call(), **headers)).status == status


async def test_a_server_on_a_socket_has_no_address():
    seen = await visit(app(), scope(headers=fields(), server=None), b"{}")
    assert seen.status == 400


# Browsers...


PREFLIGHT = [
    ("host", "127.0.0.1:8000"),
    ("origin", "http://localhost:5173"),
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "content-type, mcp-param-city,a b,, x-1"),
]


async def test_a_browser_is_told_that_it_may_ask():
    made = app(cors=True)
    seen = await ask(made, "OPTIONS", headers=PREFLIGHT)
    assert seen.status == 204
    assert seen.headers == {
        "access-control-allow-origin": "http://localhost:5173",
        "access-control-expose-headers": (
            "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
        ),
        "vary": "Origin",
        "access-control-allow-methods": "POST, GET, DELETE",
        "access-control-allow-headers": "content-type, mcp-param-city, x-1",
        "access-control-max-age": "600",
    }


async def test_a_page_may_read_answers_and_refusals():
    made = app(cors="https://a.example")
    for headers, status in (({}, 200), ({"content_type": "text/plain"}, 415)):
        seen = await post(made, call(), origin="https://a.example", **headers)
        assert seen.status == status
        assert seen.headers["access-control-allow-origin"] == "https://a.example"
    plain = await post(made, call())
    assert "access-control-allow-origin" not in plain.headers


async def test_pages_that_may_not_ask_are_told_nothing():
    made = app(cors=["https://a.example"])
    seen = await ask(made, "OPTIONS", headers=PREFLIGHT)
    assert seen.status == 403
    assert "access-control-allow-origin" not in seen.headers


async def test_without_cors_there_is_no_preflight():
    assert (await ask(app(), "OPTIONS", headers=PREFLIGHT)).status == 405
    no_preflight = [PREFLIGHT[0], PREFLIGHT[1]]
    assert (await ask(app(cors=True), "OPTIONS", headers=no_preflight)).status == 405
    assert (await ask(app(cors=True), "OPTIONS", headers=PREFLIGHT[:1])).status == 405


# Formats and sizes...


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
async def test_formats_are_looked_at(headers, status):
    assert (await post(app(), call(), **headers)).status == status


@pytest.mark.case("D14")
@pytest.mark.attack("S13")
async def test_a_body_that_is_too_large_or_too_slow_is_refused():
    limits = Limits(body=100, body_timeout=0.01)
    made = app(dispatcher=tools(echo, limits=limits))
    seen = await post(made, b"x" * 101)
    assert seen.status == 413
    assert seen.headers["connection"] == "close"
    assert seen.json()["error"]["code"] == -32600
    slow = Visit(scope(headers=fields()))
    slow.give(b"{", more=True)
    assert (await slow.begin(made).done()).status == 408
    gone = Visit(scope(headers=fields()))
    gone.give(b"{", more=True)
    gone.leave()
    assert (await gone.begin(made).done()).events == []


# Who asks...


@attrs.frozen
class Person:
    name: str


class Refused(RPCError, HttpRefusal):
    default_code = -32600
    http_status = 401
    http_headers = (("www-authenticate", "Bearer"),)


class Guard:
    """A resource server for one person."""

    credential_headers = frozenset({"authorization", "x-key"})

    def __init__(self):
        self.urls = []

    def metadata(self):
        return {"resource": "http://127.0.0.1:8000/mcp"}

    def metadata_paths(self):
        return ("/.well-known/oauth-protected-resource/mcp",)

    async def authenticate(self, headers, verb, url):
        self.urls.append(f"{verb} {url}")
        if headers.all("x-key") != ["open"]:
            raise Refused("no")
        return Person("ada")


async def told(params, request):
    facts = request.facts
    return {"content": [], "seen": [facts.principal.name, sorted(facts.headers)]}


@pytest.mark.rule("TR-HTTP-05")
async def test_who_asks_is_known_and_how_it_was_proved_is_not():
    guard = Guard()
    made = app(dispatcher=tools(told, auth=guard))
    seen = await post(made, call(), x_key="open")
    name, headers = seen.json()["result"]["seen"]
    assert name == "ada"
    assert "x-key" not in headers
    assert "mcp-method" in headers
    assert guard.urls == ["POST http://127.0.0.1:8000/mcp"]


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_who_may_not_ask_is_refused_before_anything_is_read(verb):
    guard = Guard()
    made = app(dispatcher=tools(told, auth=guard))
    seen = await ask(made, verb, query_string=b"a=b")
    assert seen.status == 401
    assert seen.headers["www-authenticate"] == "Bearer"
    assert guard.urls == [f"{verb} http://127.0.0.1:8000/mcp?a=b"]


async def test_what_the_server_says_of_itself_is_for_everybody():
    made = app(dispatcher=tools(told, auth=Guard()))
    path = "/.well-known/oauth-protected-resource/mcp"
    seen = await ask(made, "GET", path)
    assert seen.json() == {"resource": "http://127.0.0.1:8000/mcp"}
    assert seen.headers["access-control-allow-origin"] == "*"


async def test_a_refusal_need_be_no_error_of_json_rpc():
    class Odd(Guard):
        async def authenticate(self, headers, verb, url):
            error = HttpRefusal("why")
            error.http_status = 403
            raise error

    seen = await post(app(dispatcher=tools(told, auth=Odd())), call())
    assert seen.status == 403
    assert seen.json()["error"] == {"code": -32600, "message": "why"}


# What nobody foresaw...


@pytest.mark.attack("S12")
async def test_an_error_of_ours_is_one_answer_and_no_secret(caplog):
    class Broken(Guard):
        async def authenticate(self, headers, verb, url):
            raise ValueError("secret")

    made = app(dispatcher=tools(told, auth=Broken()))
    seen = await post(made, call())
    assert seen.status == 500
    assert seen.json()["error"]["code"] == -32603
    assert b"secret" not in seen.body
    assert "secret" in caplog.text


@pytest.mark.attack("S12")
async def test_an_error_after_the_beginning_is_only_logged(caplog):
    made = app()
    seen = posted(call())
    sent = []

    async def send(event):
        sent.append(event)
        if event["type"] == "http.response.body":
            raise ValueError("broken")

    await made(seen.scope, seen.receive, send)
    assert len(sent) == 2
    assert "could not be answered" in caplog.text


# Other things that web servers bring...


async def test_websockets_are_closed():
    seen = Visit({"type": "websocket"})
    seen.incoming.put_nowait({"type": "websocket.connect"})
    await seen.begin(app()).done()
    assert seen.events == [{"type": "websocket.close", "code": 1000}]


async def test_what_asgi_does_not_have_is_an_error():
    with pytest.raises(RuntimeError, match="unknown kind"):
        await app()({"type": "smtp"}, None, None)


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
    draining = asyncio.get_running_loop().create_task(made.drain(10))
    await asyncio.sleep(0)  # until it drains
    refused = await post(made, call())
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert (await ask(made, "GET", "/ready")).status == 503
    assert (await ask(made, "GET", "/health")).status == 200
    assert not draining.done()
    go_on.set()
    await asyncio.wait_for(draining, 10)
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
    from mcpwire.server.telling.hub import TOOLS
    from mcpwire.server.telling.subscriptions import Subscriptions

    capabilities = {"tools": {"listChanged": True}}
    dispatcher = tools(echo, capabilities=capabilities)
    subscriptions = Subscriptions(
        dispatcher.hub, limit=2, capabilities=lambda: capabilities
    )
    dispatcher.declare(capabilities, {"tools/call": echo, **subscriptions.methods()})
    made = app(dispatcher=dispatcher)
    wanted = {"notifications": {"toolsListChanged": True}}
    listening = posted(by_hand.modern(5, "subscriptions/listen", wanted)).begin(made)
    await listening.until(lambda v: v.events[1:])
    dispatcher.hub.tell(TOOLS)
    await listening.until(lambda v: len(v.sse()) == 2)
    await made.drain(10)
    await listening.done()
    *_, last = listening.sse()
    assert last["id"] == 5
    assert last["result"]["resultType"] == "complete"


async def test_the_app_is_made_of_a_dispatcher_and_options():
    made = AsgiApp(tools(echo), cors=None)
    assert (await post(made, call())).status == 200
    assert logging.getLogger("mcpwire.access").name == "mcpwire.access"
