"""A server that sends requests during a call, also endless ones."""

import asyncio
import contextlib
import inspect
import itertools
import json

import pytest
from clocks import on_a_virtual_clock
from fakes import SILENCE, FakeServer, text
from http_bytes import chunk, sse_event, sse_head
from legacy_server import legacy_server
from mcp_methods import SAMPLING
from mcp_server import scripted_mcp
from scripted import ECHO_LOOP, scripted

import mcpwire
from mcpwire import types

BOUND_S = 50.0
FEW = 7

# Sends the next request after each response until cancelled; then it echoes.
CHILD = f"""
QUESTION = {json.dumps(SAMPLING)}
handshake()
told = []
while True:
    m = recv()
    if m.get("method") != "tools/call": continue
    if m["params"]["name"] != "greedy":
        text(m, json.dumps(told))
        continue
    for n in range(10**9):
        send({{"jsonrpc": "2.0", "id": f"q{{n}}"}} | QUESTION)
        while True:
            heard = recv()
            if heard.get("method") == "notifications/cancelled": break
            if heard.get("id") == f"q{{n}}": break
        if heard.get("method"): break
    told.append(heard["params"])
"""


@contextlib.contextmanager
def by_stdio():
    yield scripted(CHILD), {}


@contextlib.contextmanager
def by_memory():
    server = mcpwire.Server("greedy")
    ended = []

    @server.tool
    async def greedy(ctx: mcpwire.Context) -> None:
        try:
            while True:
                await ctx.sample("?")
        except asyncio.CancelledError:
            ended.append({"reason": "too many questions"})
            raise

    @server.tool
    async def echo() -> str:
        return json.dumps(ended)

    yield server, {"mode": "2025-11-25"}


def question(n):
    return {"jsonrpc": "2.0", "id": f"q{n}", **SAMPLING}


@contextlib.contextmanager
def by_http(over):
    with scripted_mcp() as server:

        def call_tool(request, conn):
            message = request.json
            if message["params"]["name"] != "greedy":
                return False
            is_own = over == "call"
            conn.send(sse_head())

            def waits(n):
                # Refused: the call is over, and its cancellation arrives soon.
                is_answered = "result" in server.answered.get(f"q{n}", {})
                return not is_answered and message["id"] not in server.cancelled

            for n in itertools.count():
                if message["id"] in server.cancelled:
                    break
                if is_own:
                    with contextlib.suppress(OSError):
                        conn.send(chunk(sse_event(question(n))))
                else:
                    server.push({"id": f"q{n}", **SAMPLING})
                server.wait_until(lambda n=n: not waits(n))
            conn.close()
            return True

        server.on["tools/call"] = call_tool
        yield server, {}


@contextlib.contextmanager
def by_legacy():
    with legacy_server() as server:

        def call_tool(request, conn):
            message = request.json
            if message["params"]["name"] != "greedy":
                return False
            conn.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            server.push(question(0))
            return True

        def ask_again(request, conn):
            if request.method is None and request.json.get("result"):
                with contextlib.suppress(IndexError):  # the client has left
                    server.push(question(int(request.json["id"][1:]) + 1))
            return False

        server.on["tools/call"] = call_tool
        server.on[None] = ask_again
        server.cancelled = []
        server.on["notifications/cancelled"] = lambda request, _: (
            server.cancelled.append(request.json["params"]["requestId"])
        )
        yield server, {}


WAYS = {
    "stdio": by_stdio,
    "memory": by_memory,
    "call's stream": lambda: by_http("call"),
    "own stream": lambda: by_http("get"),
    "HTTP+SSE": by_legacy,
}


@pytest.fixture(params=list(WAYS))
def peer(request):
    """Yield a server that sends endless requests, over one transport."""
    with WAYS[request.param]() as made:
        yield made


def sampling_result(text):
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(text), model="m"
    )


async def knows_call_ended(client, server):
    """Wait until the server knows that the call has ended."""
    if hasattr(server, "cancelled"):
        async with asyncio.timeout(BOUND_S):
            while not server.cancelled:  # noqa: ASYNC110 - a thread cannot wake the loop
                await asyncio.sleep(0.002)
        return True
    async with asyncio.timeout(BOUND_S):
        while not json.loads((await client.call_tool("echo")).text):  # noqa: ASYNC110
            await asyncio.sleep(0)  # ending the call takes some iterations
    return True


def listens(server):
    return {"on_notification": print} if hasattr(server, "sessions") else {}


@pytest.mark.attack("X08")
async def test_endless_server_requests_end_only_the_call(peer):
    server, options = peer
    received = []

    async def sample(params):
        received.append(params)
        return sampling_result("again")

    async with mcpwire.Client(
        getattr(server, "url", server),
        sampling=sample,
        limits=mcpwire.Limits(questions=FEW, close_grace=0.05),
        **options,
        **listens(server),
    ) as client:
        with pytest.raises(mcpwire.TooManyQuestions) as caught:
            await client.call_tool("greedy", timeout=BOUND_S)
        assert await knows_call_ended(client, server)
        assert (await client.call_tool("echo")).content
        assert client.stats.connections == 1
    assert len(received) == FEW
    assert caught.value.limit == FEW
    assert caught.value.method == "tools/call"
    assert "Limits.questions" in str(caught.value)


@pytest.mark.attack("X08")
async def test_question_time_limits_the_timeout_pause(peer):
    """Our response is late; a server that then asks again gains no time."""
    server, options = peer
    held = asyncio.Event()

    async def sample(_):
        await held.wait()
        return sampling_result("late")

    async with mcpwire.Client(
        getattr(server, "url", server),
        sampling=sample,
        limits=mcpwire.Limits(question_time=0.2, close_grace=0.05),
        **options,
        **listens(server),
    ) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("greedy", timeout=0.3)
        held.set()
        assert await knows_call_ended(client, server)
    # On a loaded machine the timeout may pass before the request arrives.
    if caught.value.elapsed >= 0.5:
        assert "Limits.question_time" in str(caught.value)


def server_with_rounds(per_round):
    """Return a server of 2026-07-28 that asks so many questions per round."""

    def call_tool(params, server):
        if params["name"] != "greedy":
            return text("on") | {"resultType": "complete"}
        requests = {f"q{n}": SAMPLING for n in range(per_round)}
        return {"resultType": "input_required", "inputRequests": requests}

    return FakeServer({"tools/call": call_tool}, version="2026-07-28")


@pytest.mark.attack("X08")
async def test_questions_of_all_input_rounds_count():
    received = []

    async def sample(params):
        received.append(params)
        return sampling_result("again")

    limits = mcpwire.Limits(questions=FEW)
    async with mcpwire.Client(
        server_with_rounds(3), sampling=sample, limits=limits
    ) as client:
        with pytest.raises(mcpwire.TooManyQuestions, match=f"than {FEW} requests"):
            await client.call_tool("greedy")
        assert (await client.call_tool("calm")).text == "on"
    assert len(received) == 6  # a round is handled completely or not at all


def endless():
    """Return a server of 2025-11-25 that sends another request after each response."""
    server = FakeServer({"tools/call": lambda *_: SILENCE, "x/y": lambda *_: {}})
    take = server.receive

    def receive(data):
        take(data)
        for message in map(json.loads, data.splitlines()):
            is_call = message.get("method") == "tools/call"
            if is_call or "result" in message:
                server.send(question(len(server.received)))

    server.receive = receive
    return server


@pytest.mark.attack("X08")
@pytest.mark.parametrize("seconds", [400.0, 601.0], ids=["in a question", "between"])
@on_a_virtual_clock
async def test_call_times_out_after_the_longest_pause(seconds):
    async def sample(_):
        await asyncio.sleep(seconds)  # the subject: a long pause, on a virtual clock
        return sampling_result("thought over")

    server = endless()
    async with mcpwire.Client(server, sampling=sample) as client:
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("greedy", timeout=4)
        assert await client.request("x/y") == {}
    assert caught.value.elapsed == 604.0
    assert str(caught.value) == (
        "tools/call: no answer within 4 s (after 604 s); its time limit was "
        "paused for 600 s while server requests were answered, the longest pause "
        "allowed (Limits.question_time)"
    )
    assert server.requests("notifications/cancelled")[0]["reason"] == "timeout"


@pytest.mark.attack("X08")
@on_a_virtual_clock
async def test_input_round_handler_is_cancelled_when_the_call_ends():
    ended = []

    async def sample(_):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(asyncio.get_running_loop().time())

    async with mcpwire.Client(server_with_rounds(1), sampling=sample) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("greedy", timeout=4)
        assert (await client.call_tool("calm")).text == "on"
    assert caught.value.elapsed == ended[0] - began == 604.0


@pytest.mark.attack("X08")
async def test_question_counts_for_each_possible_call():
    """The call with the larger remaining limit continues."""
    first = asyncio.Event()
    count = itertools.count()

    async def sample(_):
        if next(count) == 1:
            first.set()
        return sampling_result("again")

    server = endless()
    limits = mcpwire.Limits(questions=FEW)
    async with mcpwire.Client(server, sampling=sample, limits=limits) as client:
        one = asyncio.ensure_future(client.call_tool("greedy"))
        await first.wait()
        two = asyncio.ensure_future(client.call_tool("greedy"))
        ends = await asyncio.gather(one, two, return_exceptions=True)
    assert [type(end) for end in ends] == [mcpwire.TooManyQuestions] * 2
    methods = [message.get("method", "answer") for message in server.received]
    last = len(methods) - methods[::-1].index("notifications/cancelled")
    assert (
        FEW < methods[:last].count("answer") <= 2 * FEW
    )  # it continues without a call
    assert len(server.requests("notifications/cancelled")) == 2


@pytest.mark.attack("X08")
async def test_pings_do_not_count_as_questions():
    def call_tool(_, server):
        for n in range(3 * FEW):
            server.send({"jsonrpc": "2.0", "id": f"p{n}", "method": "ping"})
        return text("on")

    server = FakeServer({"tools/call": call_tool})
    limits = mcpwire.Limits(questions=FEW)
    async with mcpwire.Client(server, limits=limits) as client:
        assert (await client.call_tool("x")).text == "on"


LIMIT = mcpwire.Limits().inbound

# Sends so many requests at once, and returns their responses.
REQUESTING_PEER = """
QUESTION = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
            "maxTokens": 1}
def ask(count):
    for n in range(count):
        send({"jsonrpc": "2.0", "id": f"q{n}", "method": "sampling/createMessage",
              "params": QUESTION | {"maxTokens": n + 1}})
def answers(count):
    got = []
    while len(got) < count:
        m = recv()
        if "method" not in m: got.append(m)
    return got
"""


@pytest.mark.fault("F18")
@pytest.mark.pain("P29")
async def test_server_requests_are_handled_concurrently_up_to_the_limit():
    running = maximum = 0
    all_here = asyncio.Event()

    async def sample(params):
        nonlocal running, maximum
        running += 1
        maximum = max(maximum, running)
        if running == LIMIT:
            all_here.set()
        await all_here.wait()  # no response before as many requests run concurrently
        running -= 1
        return sampling_result(str(params.max_tokens))

    count = 2 * LIMIT
    target = scripted(
        REQUESTING_PEER + f"handshake()\nm = recv(); ask({count})\n"
        f"text(m, json.dumps(answers({count})))\n" + ECHO_LOOP
    )
    async with mcpwire.Client(target, sampling=sample) as client:
        answers = json.loads((await client.call_tool("x")).text)
        assert (await client.call_tool("y", {"text": "on"})).text == "on"
    assert maximum == LIMIT
    texts = {a["id"]: a["result"]["content"]["text"] for a in answers}
    assert texts == {f"q{n}": str(n + 1) for n in range(count)}


@pytest.mark.pain("P08")
def test_default_timeouts_are_finite():
    options = inspect.signature(mcpwire.Client).parameters
    names = ("timeout", "connect_timeout", "probe_timeout")
    assert [options[name].default for name in names] == [30.0, 60.0, 5.0]
