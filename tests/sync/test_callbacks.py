"""Users' functions run beside the reading: handlers in threads, callbacks in order."""

import contextvars
import sys
import threading
from pathlib import Path

import pytest
from scripted import ECHO_LOOP, scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.protocol.host.sampling import Sampling
from mcpwire.types import CreateMessageResult, TextContent

WHO = contextvars.ContextVar("WHO", default="nobody")

NOTIFYING = """
handshake()
def log(data):
    send({"jsonrpc": "2.0", "method": "notifications/message",
          "params": {"level": "info", "data": data}})
while True:
    m = recv()
    if m["method"] == "tools/call":
        for number in range(m["params"]["arguments"]["count"]):
            log(number)
        text(m, "done")
"""

ASKING = """
handshake()
asked = {}
def ask(id, said):
    send({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": {
        "maxTokens": 5,
        "messages": [{"role": "user", "content": {"type": "text", "text": said}}]}})
while True:
    m = recv()
    if m.get("method") == "tools/call":
        name = m["params"]["name"]
        if name == "ping":
            send({"jsonrpc": "2.0", "id": "p", "method": "ping"})
            asked["p"] = m
        elif name == "withdraw":
            ask("w", name)
            send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                  "params": {"requestId": "w"}})
            text(m, "withdrawn")
        elif name == "count":
            text(m, str(len(asked)))
        else:
            for number in range(int(name)):
                id = f"{m['id']}.{number}"
                asked[id] = m
                ask(id, str(number))
    elif "method" not in m:
        call = asked.pop(m["id"])
        if call not in asked.values():
            answer(call, {"content": [{"type": "text", "text": json.dumps(
                m.get("result", m.get("error")))}]})
"""


def sampled(text):
    return CreateMessageResult(
        role="assistant", content=TextContent(text), model="mine"
    )


def the_text(params):
    return params.messages[0].content.text


# Notifications...


@pytest.mark.fault("F17")
def test_notifications_come_in_order_one_at_a_time_in_the_context_of_construction():
    heard, threads, contexts = [], set(), set()

    def hear(notification):
        threads.add(threading.current_thread())
        contexts.add(WHO.get())
        heard.append(notification.params.data)

    WHO.set("maker")
    client = mcpwire.sync.Client(scripted(NOTIFYING), on_notification=hear)
    WHO.set("caller")
    with client:
        assert client.call_tool("x", {"count": 100}).text == "done"
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

    with mcpwire.sync.Client(scripted(NOTIFYING), on_notification=hear) as client:
        client.call_tool("x", {"count": 5})
        until(lambda: len(heard) == 5)
        assert client.call_tool("x", {"count": 0}).text == "done"
    assert caplog.text.count("raised") == 2
    assert "mine" in caplog.text


@pytest.mark.fault("F17")
def test_a_callback_that_blocks_holds_up_no_call_and_costs_a_bounded_queue():
    free, heard = threading.Event(), []

    def hear(notification):
        assert free.wait(BOUND_S)
        heard.append(notification.params.data)

    client = mcpwire.sync.Client(
        scripted(NOTIFYING),
        on_notification=hear,
        limits=mcpwire.Limits(notifications=8),
    )
    with client:
        assert client.call_tool("x", {"count": 50}).text == "done"
        assert client.call_tool("x", {"count": 50}).text == "done"
        free.set()
        until(lambda: len(heard) + client.stats.dropped_notifications == 100)
    assert len(heard) in {8, 9}
    assert heard[-1] == 49


def test_a_callback_may_call_the_client_it_belongs_to():
    results = []

    def hear(notification):
        results.append(client.call_tool("x", {"count": 0}).text)

    client = mcpwire.sync.Client(scripted(NOTIFYING), on_notification=hear)
    with client:
        client.call_tool("x", {"count": 3})
        until(lambda: len(results) == 3)
    assert set(results) == {"done"}


def test_with_a_reader_of_its_own_a_client_hears_while_nobody_calls():
    target = scripted(
        "handshake()\ntime.sleep(0.1)\n"
        "send({'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed'})\n"
        "send({'jsonrpc': '2.0', 'id': 1, 'method': 'ping'})\n"
        "assert recv() == {'jsonrpc': '2.0', 'id': 1, 'result': {}}\n"
        "send({'jsonrpc': '2.0', 'method': 'notifications/prompts/list_changed'})\n"
        + ECHO_LOOP
    )
    heard = []
    client = mcpwire.sync.Client(
        target, background=True, on_notification=lambda n: heard.append(n.method)
    )
    with client:
        until(lambda: len(heard) == 2)
        assert client.call_tool("x", {"text": "hi"}).text == "hi"
    assert heard[1] == "notifications/prompts/list_changed"


def test_a_reader_of_its_own_sees_the_end_of_the_server_at_once():
    target = scripted("handshake()\nsys.exit(4)")
    with mcpwire.sync.Client(
        target, background=True, recovery=mcpwire.Recovery(restart=False)
    ) as client:
        until(lambda: not client.is_connected)
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            client.ping()
    assert (caught.value.exit_code, caught.value.sent) == (4, False)


# Progress...


def progress_server(count=3):
    return scripted(
        "handshake()\nwhile True:\n    m = recv()\n"
        "    if 'id' not in m: continue\n"
        "    token = m['params'].get('_meta', {}).get('progressToken')\n"
        f"    for number in range({count} if token else 0):\n"
        "        send({'jsonrpc': '2.0', 'method': 'notifications/progress',"
        " 'params': {'progressToken': token, 'progress': number, 'message': 'm'}})\n"
        "    text(m, 'done')"
    )


def test_progress_is_told_in_the_thread_that_calls_before_the_result():
    heard = []

    def hear(progress, total, message):
        heard.append((threading.current_thread(), progress, total, message))

    with mcpwire.sync.Client(progress_server()) as client:
        assert client.call_tool("x", on_progress=hear).text == "done"
        here = threading.current_thread()
        assert heard == [(here, number, None, "m") for number in range(3)]


@pytest.mark.fault("F17")
def test_a_progress_callback_that_raises_is_logged_and_may_call_the_client(caplog):
    answers = []

    def hear(progress, total, message):
        answers.append(client.call_tool("y").text)
        raise RuntimeError("mine")

    with mcpwire.sync.Client(progress_server()) as client:
        assert client.call_tool("x", on_progress=hear).text == "done"
    assert answers == ["done"] * 3
    assert caplog.text.count("RuntimeError: mine") == 3


def test_a_progress_callback_that_raises_an_interrupt_ends_its_call_only():
    def hear(progress, total, message):
        raise KeyboardInterrupt

    with mcpwire.sync.Client(progress_server()) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("x", on_progress=hear)
        assert client.call_tool("x").text == "done"


# Requests of the server...


@pytest.mark.fault("F18")
def test_a_handler_runs_in_a_thread_while_the_call_it_belongs_to_waits():
    threads = []

    def sample(params):
        threads.append(threading.current_thread())
        return sampled(the_text(params))

    with mcpwire.sync.Client(scripted(ASKING), sampling=sample) as client:
        assert '"text": "0"' in client.call_tool("1").text
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive() or threads[0].daemon


@pytest.mark.fault("F18")
def test_a_handler_may_call_the_client_and_others_calls_go_on_meanwhile():
    asked, free = threading.Event(), threading.Event()

    def sample(params):
        asked.set()
        assert free.wait(BOUND_S)
        return sampled(client.call_tool("count").text)

    with mcpwire.sync.Client(scripted(ASKING), sampling=sample) as client:
        call = client.start_call("1")
        assert asked.wait(BOUND_S)
        assert client.call_tool("count").text == "1"
        free.set()
        assert '"text": "1"' in call.result(BOUND_S).text


@pytest.mark.fault("F18")
def test_at_most_so_many_handlers_run_at_once_and_all_are_answered():
    running, most = [0], [0]
    lock = threading.Lock()

    def sample(params):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        until(lambda: most[0] >= 3)  # however late the others begin
        threading.Event().wait(0.01)
        with lock:
            running[0] -= 1
        return sampled("x")

    client = mcpwire.sync.Client(
        scripted(ASKING), sampling=sample, limits=mcpwire.Limits(inbound=3)
    )
    with client:
        client.call_tool("20", timeout=BOUND_S)
    assert most == [3]


def test_a_ping_is_answered_without_a_handler():
    with mcpwire.sync.Client(scripted(ASKING)) as client:
        assert client.call_tool("ping").text == "{}"


def test_a_handler_that_fails_answers_with_an_error_that_does_not_tell_why(caplog):
    def sample(params):
        raise RuntimeError("secret")

    with mcpwire.sync.Client(scripted(ASKING), sampling=sample) as client:
        answer = client.call_tool("1").text
    assert "-32603" in answer
    assert "secret" not in answer
    assert "secret" in caplog.text


def test_a_handler_that_raises_an_rpc_error_answers_with_it():
    def sample(params):
        raise mcpwire.RPCError("no", code=-1)

    with mcpwire.sync.Client(scripted(ASKING), sampling=sample) as client:
        assert client.call_tool("1").text == '{"code": -1, "message": "no"}'


def test_a_request_that_was_withdrawn_is_not_answered_though_its_handler_runs_on():
    free, ended = threading.Event(), threading.Event()

    def sample(params):
        assert free.wait(BOUND_S)
        ended.set()
        return sampled("x")

    with mcpwire.sync.Client(scripted(ASKING), sampling=sample) as client:
        assert client.call_tool("withdraw").text == "withdrawn"
        free.set()
        assert ended.wait(BOUND_S)
        # An answer would make the server fail at its `pop`.
        assert client.call_tool("count").text == "0"
        assert client.call_tool("ping").text == "{}"


def test_a_handler_closes_its_own_client():
    def sample(params):
        client.close()
        return sampled("x")

    client = mcpwire.sync.Client(scripted(ASKING), sampling=sample)
    client.connect()
    with pytest.raises(mcpwire.ConnectionClosed):
        client.call_tool("1")
    client.close()
    assert not client.is_connected


def test_closing_waits_for_handlers_but_not_for_ever(monkeypatch):
    from mcpwire.sync._shell import connection

    monkeypatch.setattr(connection, "CALLBACK_END_S", 0.05)
    free, asked = threading.Event(), threading.Event()

    def sample(params):
        asked.set()
        free.wait(BOUND_S)
        return sampled("x")

    client = mcpwire.sync.Client(scripted(ASKING), sampling=sample)
    client.connect()
    call = client.start_call("1")
    assert asked.wait(BOUND_S)
    client.close()
    with pytest.raises(mcpwire.ConnectionClosed):
        call.result(BOUND_S)
    free.set()


# What is no plain function...


async def coroutine_function(*_): ...


class AsyncCallable:
    async def __call__(self, *_): ...


@pytest.mark.parametrize("function", [coroutine_function, AsyncCallable()])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("on_notification", lambda f: f),
        ("sampling", lambda f: f),
        ("sampling", lambda f: Sampling(f, tools=True)),
        ("elicitation", lambda f: f),
        ("roots", lambda f: f),
    ],
)
def test_an_async_function_is_refused_at_construction(name, given, function):
    with pytest.raises(ValueError, match=rf"{name} must be a plain function"):
        mcpwire.sync.Client("cat", **{name: given(function)})


def test_an_async_progress_callback_is_refused_before_anything_is_sent():
    with mcpwire.sync.Client(progress_server()) as client:
        sent = client.stats.requests
        with pytest.raises(ValueError, match="on_progress must be a plain function"):
            client.call_tool("x", on_progress=coroutine_function)
        assert client.stats.requests == sent


def test_what_a_callback_gives_back_to_be_awaited_is_logged_and_let_go(caplog):
    with mcpwire.sync.Client(progress_server(1)) as client:
        client.call_tool("x", on_progress=lambda *_: coroutine_function())
    heard = []

    def hear(notification):
        heard.append(1)
        return coroutine_function()

    with mcpwire.sync.Client(scripted(NOTIFYING), on_notification=hear) as client:
        client.call_tool("x", {"count": 1})
        until(lambda: caplog.text.count("no plain function") == 2)


def test_a_handler_that_gives_back_something_to_await_answers_with_an_error(caplog):
    with mcpwire.sync.Client(
        scripted(ASKING), sampling=lambda _: coroutine_function()
    ) as client:
        assert "-32603" in client.call_tool("1").text
    assert "handlers of mcpwire.sync are plain functions" in caplog.text
