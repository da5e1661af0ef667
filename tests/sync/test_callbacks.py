"""Users' functions beside a blocking client: which thread calls them, what they may.

Progress comes in the thread of its call, which has handed the loop on; handlers and
notifications come in threads of their own; async functions run on the loop.
"""

import asyncio
import contextlib
import contextvars
import sys
import threading

import pytest
from asking import SAMPLE, Asking
from fakes import FakeServer
from mcp_server import scripted_mcp
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.types import CreateMessageResult, TextContent

WHO = contextvars.ContextVar("WHO", default="nobody")

TOOLS = r"""
import itertools
handshake()
numbers, asked = itertools.count(), {}
def notify(method, **params):
    send({"jsonrpc": "2.0", "method": "notifications/" + method, "params": params})
while True:
    m = recv()
    params = m.get("params", {})
    arguments = params.get("arguments", {})
    if "method" not in m:
        call, left = asked.pop(m["id"])
        left.discard(m["id"])
        if not left:
            text(call, json.dumps(m.get("result", m.get("error"))))
    elif params.get("name") == "log":
        for number in range(arguments["count"]):
            notify("message", level="info", data=number)
        text(m, "done")
    elif params.get("name") == "progress":
        token = params.get("_meta", {}).get("progressToken")
        for number in range(arguments["count"] if token is not None else 0):
            notify("progress", progressToken=token, progress=number, message="m")
        text(m, "done")
    elif params.get("name") == "ask":
        left = {f"q{next(numbers)}" for _ in range(arguments["count"])}
        for id in left:
            asked[id] = m, left
            send({"jsonrpc": "2.0", "id": id, "method": arguments.get("method",
                  "sampling/createMessage"), "params": {"maxTokens": 5, "messages": [
                  {"role": "user", "content": {"type": "text", "text": "well?"}}]}})
    elif "id" in m:
        text(m, str(len(asked)))
"""


def tools():
    """Return a server whose tools notify, report progress and ask."""
    return scripted(TOOLS)


def sampled(said):
    """Return what answers a request for a message."""
    return CreateMessageResult("assistant", TextContent(said), "mine")


def asking(client, count=1, **options):
    """Have the server ask; return what it was answered."""
    return client.call_tool("ask", {"count": count}, timeout=BOUND_S, **options).text


# Notifications...


@pytest.mark.fault("F17")
def test_notifications_come_in_order_one_at_a_time_in_the_context_of_construction():
    heard, threads, contexts = [], set(), set()

    def hear(notification):
        threads.add(threading.current_thread())
        contexts.add(WHO.get())
        heard.append(notification.params.data)

    WHO.set("maker")
    client = mcpwire.sync.Client(tools(), on_notification=hear)
    WHO.set("caller")
    with client:
        assert client.call_tool("log", {"count": 100}).text == "done"
        until(lambda: len(heard) == 100)
    assert heard == list(range(100))
    assert contexts == {"maker"}
    assert threading.main_thread() not in threads


@pytest.mark.fault("F17")
def test_a_callback_that_raises_is_logged_and_nothing_else(caplog):
    heard = []

    def hear(notification):
        heard.append(notification.params.data)
        if notification.params.data == 1:
            raise RuntimeError("mine")
        if notification.params.data == 2:
            sys.exit(3)

    with mcpwire.sync.Client(tools(), on_notification=hear) as client:
        client.call_tool("log", {"count": 5})
        until(lambda: len(heard) == 5)
        assert client.call_tool("log", {"count": 0}).text == "done"
    assert caplog.text.count("raised\n") == 2
    assert "mine" in caplog.text


@pytest.mark.fault("F17")
def test_a_callback_that_blocks_holds_up_no_call_and_costs_a_bounded_queue():
    free, heard = threading.Event(), []

    def hear(notification):
        assert free.wait(BOUND_S)
        heard.append(notification.params.data)

    limits = mcpwire.Limits(notifications=8)
    with mcpwire.sync.Client(tools(), on_notification=hear, limits=limits) as client:
        assert client.call_tool("log", {"count": 50}).text == "done"
        assert client.call_tool("log", {"count": 50}).text == "done"
        free.set()
        until(lambda: len(heard) + client.stats.dropped_notifications == 100)
    assert len(heard) in {8, 9}
    assert heard[-1] == 49


@pytest.mark.pain("P12")
def test_a_callback_may_call_the_client_it_belongs_to_and_close_it():
    results = []

    def hear(notification):
        results.append(client.call_tool("log", {"count": 0}).text)
        if len(results) == 3:
            client.close()

    client = mcpwire.sync.Client(tools(), on_notification=hear)
    client.connect()
    client.call_tool("log", {"count": 3})
    until(lambda: len(results) == 3 and not client.is_connected)
    assert set(results) == {"done"}
    client.close()


def test_an_async_callback_runs_on_the_loop():
    heard = []

    async def hear(notification):
        await asyncio.sleep(0)  # a turn of the loop
        heard.append(notification.params.data)

    with mcpwire.sync.Client(tools(), on_notification=hear) as client:
        client.call_tool("log", {"count": 20})
        until(lambda: len(heard) == 20)
    assert heard == list(range(20))


UNASKED = r"""
handshake()
time.sleep(0.1)
send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
assert recv() == {"jsonrpc": "2.0", "id": 1, "result": {}}
send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
"""


def test_who_wants_notifications_hears_and_answers_while_nobody_calls():
    heard = []
    with mcpwire.sync.Client(
        scripted(UNASKED + ECHO_LOOP), on_notification=lambda n: heard.append(n.method)
    ) as client:
        until(lambda: len(heard) == 2)
        assert client.call_tool("x", {"text": "hi"}).text == "hi"
    assert heard[1] == "notifications/prompts/list_changed"


def test_with_a_thread_of_its_own_it_sees_the_end_of_the_server_at_once():
    target = scripted("handshake()\nsys.exit(4)")
    never = mcpwire.Recovery(restart=False)
    with mcpwire.sync.Client(target, background=True, recovery=never) as client:
        until(lambda: not client.is_connected)
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            client.ping()
    assert (caught.value.exit_code, caught.value.sent) == (4, False)


def test_a_keepalive_begins_the_thread_that_it_needs():
    server = FakeServer()
    with mcpwire.sync.Client(server, keepalive=0.02):
        until(lambda: sum(m.get("method") == "ping" for m in server.received) > 2)


# Progress...


@pytest.mark.parametrize("background", [False, True])
def test_progress_is_told_in_the_thread_that_calls_before_the_result(background):
    heard = []

    def hear(progress, total, message):
        heard.append((threading.current_thread(), progress, total, message))

    with mcpwire.sync.Client(tools(), background=background) as client:
        call = client.call_tool("progress", {"count": 3}, on_progress=hear)
        assert call.text == "done"
        here = threading.current_thread()
        assert heard == [(here, number, None, "m") for number in range(3)]


@pytest.mark.fault("F17")
@pytest.mark.parametrize("background", [False, True])
def test_a_progress_callback_that_raises_is_logged_and_may_call_the_client(
    background, caplog
):
    answers = []

    def hear(progress, total, message):
        answers.append(client.call_tool("log", {"count": 0}).text)
        raise RuntimeError("mine")

    with mcpwire.sync.Client(tools(), background=background) as client:
        call = client.call_tool("progress", {"count": 3}, on_progress=hear)
        assert call.text == "done"
    assert answers == ["done"] * 3
    assert caplog.text.count("RuntimeError: mine") == 3


def test_progress_may_come_within_progress():
    depths = []

    def hear(depth):
        depths.append(depth)
        if depth < 4:
            client.call_tool(
                "progress", {"count": 1}, on_progress=lambda *_: hear(depth + 1)
            )

    with mcpwire.sync.Client(tools()) as client:
        client.call_tool("progress", {"count": 1}, on_progress=lambda *_: hear(1))
    assert depths == [1, 2, 3, 4]


def test_a_progress_callback_that_raises_an_interrupt_ends_its_call_only():
    def hear(progress, total, message):
        raise KeyboardInterrupt

    with mcpwire.sync.Client(tools()) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("progress", {"count": 3}, on_progress=hear)
        assert client.call_tool("log", {"count": 0}).text == "done"
        assert client.stats.connections == 1


@pytest.mark.pain("P29")
def test_progress_of_one_call_may_wait_for_that_of_another(threads):
    both = threading.Barrier(2)
    with mcpwire.sync.Client(tools()) as client:
        calls = [
            threads.submit(
                client.call_tool,
                "progress",
                {"count": 1},
                on_progress=lambda *_: both.wait(BOUND_S),
            )
            for _ in range(2)
        ]
        assert [call.result(BOUND_S).text for call in calls] == ["done"] * 2


@pytest.mark.pain("P29")
@pytest.mark.parametrize("use", ["call", "close"])
def test_while_a_progress_callback_waits_others_call_and_close(use, threads):
    """Its thread ran the loop and has handed it on, also where nobody took it yet."""
    begun, free = threading.Event(), threading.Event()

    def hear(*_):
        begun.set()
        assert free.wait(BOUND_S)

    client = mcpwire.sync.Client(tools())
    client.connect()
    slow = threads.submit(client.call_tool, "progress", {"count": 1}, on_progress=hear)
    assert begun.wait(BOUND_S)
    assert client.call_tool("log", {"count": 0}).text == "done"
    if use == "close":
        client.close()
        assert not client.is_connected
    free.set()
    slow.exception(BOUND_S)  # its answer may have come before
    client.close()


def test_a_progress_callback_may_close_its_client():
    client = mcpwire.sync.Client(tools())
    client.connect()
    with contextlib.suppress(mcpwire.ConnectionClosed):  # its answer may have come
        client.call_tool(
            "progress", {"count": 1}, on_progress=lambda *_: client.close()
        )
    assert not client.is_connected
    client.close()


def test_an_async_progress_callback_runs_on_the_loop():
    heard = []

    async def hear(progress, total, message):
        await asyncio.sleep(0)  # a turn of the loop
        heard.append(progress)

    with mcpwire.sync.Client(tools()) as client:
        client.call_tool("progress", {"count": 3}, on_progress=hear)
    assert heard == [0, 1, 2]


def test_progress_of_a_started_call_comes_in_a_thread():
    heard = []
    with mcpwire.sync.Client(tools()) as client:
        call = client.start_call(
            "progress", {"count": 3}, on_progress=lambda value, *_: heard.append(value)
        )
        assert call.result(BOUND_S).text == "done"
    assert heard == [0, 1, 2]


# Requests of the server...


@pytest.mark.fault("F18")
@pytest.mark.parametrize("background", [False, True])
def test_a_handler_runs_in_a_thread_while_the_call_it_belongs_to_waits(background):
    threads = []

    def sample(params):
        threads.append(threading.current_thread())
        return sampled("well")

    with mcpwire.sync.Client(tools(), sampling=sample, background=background) as client:
        assert '"text": "well"' in asking(client)
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_answers_in_either_era_plain_or_async(version, is_async):
    async def later(_):
        await asyncio.sleep(0)  # a turn of the loop
        return sampled("later")

    server = Asking("sampling/createMessage", SAMPLE, version)
    handler = later if is_async else lambda _: sampled("now")
    with mcpwire.sync.Client(server, sampling=handler) as client:
        assert client.call_tool("x").text == "done"
    said = server.answered["result"]["content"]["text"]
    assert said == ("later" if is_async else "now")


@pytest.mark.fault("F18")
@pytest.mark.pain("P29")
def test_a_handler_may_call_the_client_and_others_calls_go_on_meanwhile(threads):
    asked, free = threading.Event(), threading.Event()

    def sample(params):
        asked.set()
        assert free.wait(BOUND_S)
        return sampled(client.call_tool("count").text)

    with mcpwire.sync.Client(tools(), sampling=sample) as client:
        call = threads.submit(asking, client)
        assert asked.wait(BOUND_S)
        assert client.call_tool("count").text == "1"
        free.set()
        assert '"text": "1"' in call.result(BOUND_S)


@pytest.mark.pain("P29")
@pytest.mark.parametrize("over", ["post", "get"])
@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_handler_may_call_its_own_client_over_http(era, over):
    said = []

    def sample(_):
        said.append(client.call_tool("echo", {"text": "in"}).text)
        return sampled("well")

    with (
        scripted_mcp(era, replies="sse") as server,
        mcpwire.sync.Client(server.url, sampling=sample) as client,
    ):
        answer = client.call_tool("ask", {"over": over}, timeout=BOUND_S)
        assert answer.text == "well"
    assert said == ["in"]


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, StopIteration])
def test_a_handler_that_wants_to_end_the_thread_ends_no_loop(raised):
    def sample(params):
        raise raised

    with mcpwire.sync.Client(tools(), sampling=sample) as client:
        assert "-32603" in asking(client)
        assert client.call_tool("count").text == "0"


def test_a_handler_closes_its_own_client():
    def sample(params):
        client.close()
        return sampled("x")

    client = mcpwire.sync.Client(tools(), sampling=sample)
    client.connect()
    with pytest.raises(mcpwire.ConnectionClosed):
        asking(client)
    client.close()
    assert not client.is_connected


def test_closing_does_not_wait_for_a_handler(threads):
    free, asked = threading.Event(), threading.Event()

    def sample(params):
        asked.set()
        free.wait(BOUND_S)
        return sampled("x")

    client = mcpwire.sync.Client(tools(), sampling=sample)
    client.connect()
    call = threads.submit(asking, client)
    assert asked.wait(BOUND_S)
    client.close()
    assert type(call.exception(BOUND_S)) is mcpwire.ConnectionClosed
    free.set()


# On the loop...


@pytest.mark.parametrize("background", [False, True])
def test_a_hook_that_closes_what_it_watches_ends_the_connecting(echo, background):
    def hook(event, data):
        if event == "agree":
            client.close()

    client = mcpwire.sync.Client(echo.target, trace=hook, background=background)
    with contextlib.suppress(mcpwire.ConnectionClosed):  # it was through already
        client.connect()
    until(lambda: not client.is_connected)
    until(lambda: all(each.name != "mcpwire-sync" for each in threading.enumerate()))
    client.close()


def test_a_hook_can_not_call_the_client_in_the_middle_of_its_loop():
    refused = []

    def hook(event, data):
        if event == "agree":
            with pytest.raises(mcpwire.LocalProtocolError, match="can close it but"):
                client.ping()
            refused.append(event)

    client = mcpwire.sync.Client(FakeServer(), trace=hook)
    with client:
        client.ping()
    assert refused == ["agree"]
