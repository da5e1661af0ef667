"""User functions of a blocking client: their threads, and what they may do.

Progress callbacks run in the thread of their call, which has handed the loop on;
handlers and notification callbacks run in other threads, async functions on the loop.
"""

import asyncio
import contextlib
import contextvars
import sys
import threading

import pytest
from fakes import FakeServer
from mcp_server import scripted_mcp
from requesting_server import SAMPLE, Asking, model, sampled
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

CALLER = contextvars.ContextVar("WHO", default="nobody")

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


def call_ask(client, count=1, **options):
    """Call `ask`; return the answer that the server received."""
    return client.call_tool("ask", {"count": count}, timeout=BOUND_S, **options).text


@pytest.mark.fault("F17")
def test_notification_callbacks_run_in_order_and_in_context():
    received, threads, contexts = [], set(), set()

    def callback(notification):
        threads.add(threading.current_thread())
        contexts.add(CALLER.get())
        received.append(notification.params.data)

    CALLER.set("maker")
    client = mcpwire.sync.Client(tools(), on_notification=callback)
    CALLER.set("caller")
    with client:
        assert client.call_tool("log", {"count": 100}).text == "done"
        until(lambda: len(received) == 100)
    assert received == list(range(100))
    assert contexts == {"maker"}
    assert threading.main_thread() not in threads


@pytest.mark.fault("F17")
def test_an_exception_of_a_callback_is_only_logged(caplog):
    received = []

    def callback(notification):
        received.append(notification.params.data)
        if notification.params.data == 1:
            raise RuntimeError("mine")
        if notification.params.data == 2:
            sys.exit(3)

    with mcpwire.sync.Client(tools(), on_notification=callback) as client:
        client.call_tool("log", {"count": 5})
        until(lambda: len(received) == 5)
        assert client.call_tool("log", {"count": 0}).text == "done"
    assert caplog.text.count("raised\n") == 2
    assert "mine" in caplog.text


@pytest.mark.fault("F17")
def test_a_blocking_callback_delays_no_calls():
    free, received = threading.Event(), []

    def callback(notification):
        assert free.wait(BOUND_S)
        received.append(notification.params.data)

    limits = mcpwire.Limits(notifications=8)
    with mcpwire.sync.Client(
        tools(), on_notification=callback, limits=limits
    ) as client:
        assert client.call_tool("log", {"count": 50}).text == "done"
        assert client.call_tool("log", {"count": 50}).text == "done"
        free.set()
        until(lambda: len(received) + client.stats.dropped_notifications == 100)
    assert len(received) in {8, 9}
    assert received[-1] == 49


@pytest.mark.pain("P12")
def test_a_callback_may_call_and_close_its_client():
    results = []

    def callback(notification):
        results.append(client.call_tool("log", {"count": 0}).text)
        if len(results) == 3:
            client.close()

    client = mcpwire.sync.Client(tools(), on_notification=callback)
    client.connect()
    client.call_tool("log", {"count": 3})
    until(lambda: len(results) == 3 and not client.is_connected)
    assert set(results) == {"done"}
    client.close()


def test_an_async_callback_runs_on_the_loop():
    received = []

    async def callback(notification):
        await asyncio.sleep(0)  # one loop iteration
        received.append(notification.params.data)

    with mcpwire.sync.Client(tools(), on_notification=callback) as client:
        client.call_tool("log", {"count": 20})
        until(lambda: len(received) == 20)
    assert received == list(range(20))


UNREQUESTED = r"""
handshake()
time.sleep(0.1)
send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
assert recv() == {"jsonrpc": "2.0", "id": 1, "result": {}}
send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
"""


def test_notifications_and_pings_are_handled_between_calls():
    received = []
    with mcpwire.sync.Client(
        scripted(UNREQUESTED + ECHO_LOOP),
        on_notification=lambda n: received.append(n.method),
    ) as client:
        until(lambda: len(received) == 2)
        assert client.call_tool("x", {"text": "hi"}).text == "hi"
    assert received[1] == "notifications/prompts/list_changed"


def test_a_background_thread_detects_the_end_of_the_server():
    target = scripted("handshake()\nsys.exit(4)")
    never = mcpwire.Recovery(restart=False)
    with mcpwire.sync.Client(target, background=True, recovery=never) as client:
        until(lambda: not client.is_connected)
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            client.ping()
    assert (caught.value.exit_code, caught.value.sent) == (4, False)


def test_a_keepalive_starts_the_background_thread():
    server = FakeServer()
    with mcpwire.sync.Client(server, keepalive=0.02):
        until(lambda: sum(m.get("method") == "ping" for m in server.received) > 2)


@pytest.mark.fault("F17")
@pytest.mark.parametrize("background", [False, True])
def test_a_progress_callback_in_the_calling_thread_may_call_and_raise(
    background, caplog
):
    received = []

    def callback(progress, total, message):
        received.append((threading.current_thread(), progress, total, message))
        assert client.call_tool("log", {"count": 0}).text == "done"
        raise RuntimeError("mine")

    with mcpwire.sync.Client(tools(), background=background) as client:
        call = client.call_tool("progress", {"count": 3}, on_progress=callback)
        assert call.text == "done"
        here = threading.current_thread()
        assert received == [(here, number, None, "m") for number in range(3)]
    assert caplog.text.count("RuntimeError: mine") == 3


def test_progress_callbacks_may_be_nested():
    depths = []

    def callback(depth):
        depths.append(depth)
        if depth < 4:
            client.call_tool(
                "progress", {"count": 1}, on_progress=lambda *_: callback(depth + 1)
            )

    with mcpwire.sync.Client(tools()) as client:
        client.call_tool("progress", {"count": 1}, on_progress=lambda *_: callback(1))
    assert depths == [1, 2, 3, 4]


def test_an_interrupt_in_a_progress_callback_ends_its_call_only():
    def callback(progress, total, message):
        raise KeyboardInterrupt

    with mcpwire.sync.Client(tools()) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("progress", {"count": 3}, on_progress=callback)
        assert client.call_tool("log", {"count": 0}).text == "done"
        assert client.stats.connections == 1


@pytest.mark.pain("P29")
def test_progress_callbacks_of_two_calls_may_wait_for_each_other(threads):
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
def test_others_call_and_close_during_a_progress_callback(use, threads):
    """Its thread ran the loop and has handed it on, also without a taker yet."""
    begun, free = threading.Event(), threading.Event()

    def callback(*_):
        begun.set()
        assert free.wait(BOUND_S)

    client = mcpwire.sync.Client(tools())
    client.connect()
    slow = threads.submit(
        client.call_tool, "progress", {"count": 1}, on_progress=callback
    )
    assert begun.wait(BOUND_S)
    assert client.call_tool("log", {"count": 0}).text == "done"
    if use == "close":
        client.close()
        assert not client.is_connected
    free.set()
    slow.exception(BOUND_S)  # its response may have arrived before
    client.close()


def test_a_progress_callback_may_close_its_client():
    client = mcpwire.sync.Client(tools())
    client.connect()
    with contextlib.suppress(mcpwire.ConnectionClosed):  # its response may have arrived
        client.call_tool(
            "progress", {"count": 1}, on_progress=lambda *_: client.close()
        )
    assert not client.is_connected
    client.close()


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_an_async_progress_callback_runs_on_the_loop(is_wrapped):
    received = []

    async def callback(progress, total, message):
        await asyncio.sleep(0)  # one loop iteration
        received.append(progress)

    def plain(*args):
        return callback(*args)

    on_progress = plain if is_wrapped else callback
    with mcpwire.sync.Client(tools()) as client:
        client.call_tool("progress", {"count": 3}, on_progress=on_progress)
    assert received == [0, 1, 2]


def test_a_started_call_reports_progress():
    received = []
    with mcpwire.sync.Client(tools()) as client:
        call = client.start_call(
            "progress",
            {"count": 3},
            on_progress=lambda value, *_: received.append(value),
        )
        assert call.result(BOUND_S).text == "done"
    assert received == [0, 1, 2]


@pytest.mark.fault("F18")
@pytest.mark.parametrize("background", [False, True])
def test_a_handler_runs_in_another_thread_during_its_call(background):
    threads = []

    def sample(params):
        threads.append(threading.current_thread())
        return sampled("well")

    with mcpwire.sync.Client(tools(), sampling=sample, background=background) as client:
        assert '"text": "well"' in call_ask(client)
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("is_async", [False, True])
def test_plain_and_async_handlers_answer_in_both_eras(version, is_async):
    async def later(_):
        await asyncio.sleep(0)  # one loop iteration
        return sampled("later")

    server = Asking("sampling/createMessage", SAMPLE, version)
    handler = later if is_async else model("now")
    with mcpwire.sync.Client(server, sampling=handler) as client:
        assert client.call_tool("x").text == "done"
    answer_text = server.answered["result"]["content"]["text"]
    assert answer_text == ("later" if is_async else "now")


@pytest.mark.fault("F18")
@pytest.mark.pain("P29")
def test_a_handler_and_other_threads_may_call_the_client(threads):
    handler_called, free = threading.Event(), threading.Event()

    def sample(params):
        handler_called.set()
        assert free.wait(BOUND_S)
        return sampled(client.call_tool("count").text)

    with mcpwire.sync.Client(tools(), sampling=sample) as client:
        call = threads.submit(call_ask, client)
        assert handler_called.wait(BOUND_S)
        assert client.call_tool("count").text == "1"
        free.set()
        assert '"text": "1"' in call.result(BOUND_S)


@pytest.mark.pain("P29")
@pytest.mark.parametrize("over", ["post", "get"])
@pytest.mark.parametrize("era", ["session", "stateless"])
def test_a_handler_may_call_its_own_client_over_http(era, over):
    texts = []

    def sample(_):
        texts.append(client.call_tool("echo", {"text": "in"}).text)
        return sampled("well")

    with (
        scripted_mcp(era, replies="sse") as server,
        mcpwire.sync.Client(server.url, sampling=sample) as client,
    ):
        answer = client.call_tool("ask", {"over": over}, timeout=BOUND_S)
        assert answer.text == "well"
    assert texts == ["in"]


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, StopIteration])
def test_a_base_exception_of_a_handler_does_not_end_the_loop(raised):
    def sample(params):
        raise raised

    with mcpwire.sync.Client(tools(), sampling=sample) as client:
        assert "-32603" in call_ask(client)
        assert client.call_tool("count").text == "0"


def test_a_handler_may_close_its_own_client():
    def sample(params):
        client.close()
        return sampled("x")

    client = mcpwire.sync.Client(tools(), sampling=sample)
    client.connect()
    with pytest.raises(mcpwire.ConnectionClosed):
        call_ask(client)
    client.close()
    assert not client.is_connected


def test_closing_does_not_wait_for_a_handler(threads):
    free, handler_called = threading.Event(), threading.Event()

    def sample(params):
        handler_called.set()
        free.wait(BOUND_S)
        return sampled("x")

    client = mcpwire.sync.Client(tools(), sampling=sample)
    client.connect()
    call = threads.submit(call_ask, client)
    assert handler_called.wait(BOUND_S)
    client.close()
    assert type(call.exception(BOUND_S)) is mcpwire.ConnectionClosed
    free.set()


@pytest.mark.parametrize("background", [False, True])
def test_a_trace_hook_may_close_a_connecting_client(echo, background):
    def hook(event, data):
        if event == "agree":
            client.close()

    client = mcpwire.sync.Client(echo.target, trace=hook, background=background)
    with contextlib.suppress(mcpwire.ConnectionClosed):  # it was connected already
        client.connect()
    until(lambda: not client.is_connected)
    until(lambda: all(each.name != "mcpwire-sync" for each in threading.enumerate()))
    client.close()


def test_a_trace_hook_cannot_call_the_client():
    refused = []

    def hook(event, data):
        if event == "agree":
            with pytest.raises(mcpwire.LocalProtocolError, match="can close the"):
                client.ping()
            refused.append(event)

    client = mcpwire.sync.Client(FakeServer(), trace=hook)
    with client:
        client.ping()
    assert refused == ["agree"]
