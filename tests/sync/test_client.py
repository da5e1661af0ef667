"""The blocking client itself: its methods, life cycle, streams and started calls."""

import threading

import pytest
from able_server import server as able_server
from mcp_server import scripted_mcp
from scripted import scripted
from waiting import BOUND_S, echoed, until

import mcpwire
import mcpwire.sync
from mcpwire.testing.leaks import open_descriptors
from mcpwire.types import PromptReference

VERBS = [
    (lambda c: c.call_tool("x", {"n": 1}, timeout=30).text, "x"),
    (lambda c: [tool.name for tool in c.list_tools()], ["x"]),
    (lambda c: [tool.name for tool in c.iter_tools()], ["x"]),
    (lambda c: [one.uri for one in c.list_resources()], ["a://1"]),
    (lambda c: [one.name for one in c.list_resource_templates()], ["any"]),
    (lambda c: c.read_resource("a://1").text, "t"),
    (lambda c: c.read_text("a://1"), "t"),
    (lambda c: (c.subscribe("a://1"), c.unsubscribe("a://1")), (None, None)),
    (lambda c: [prompt.name for prompt in c.list_prompts()], ["p"]),
    (
        lambda c: c.get_prompt("p", {"n": "1"}).messages[0].content.text,
        "{'name': 'p', 'arguments': {'n': '1'}}",
    ),
    (
        lambda c: c.complete(PromptReference("p"), "n", "v").completion.values,
        ["ref/prompt", "v"],
    ),
    (lambda c: 0 <= c.ping() < 10, True),
    (lambda c: c.set_log_level("info"), None),
    (lambda c: c.notify("notifications/x", {"n": 1}), None),
    (lambda c: c.server_info.name, "fake"),
    (lambda c: c.protocol_version, "2025-11-25"),
]


@pytest.mark.system("R13")
@pytest.mark.parametrize("background", [False, True])
def test_each_client_method_works_without_a_loop(background):
    server = able_server()
    with mcpwire.sync.Client(server, background=background) as client:
        assert [use(client) for use, _ in VERBS] == [answer for _, answer in VERBS]
    assert server.requests("notifications/x") == [{"n": 1}]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("connect", ["connect", "__enter__"])
def test_a_failed_connect_leaks_no_descriptors(connect, background):
    client = mcpwire.sync.Client("no-such-command", background=background)
    before = open_descriptors()
    for _ in range(2):
        with pytest.raises(mcpwire.ConnectError):
            getattr(client, connect)()
        until(lambda: open_descriptors() == before)


def test_an_unfinished_iteration_blocks_no_calls():
    with mcpwire.sync.Client(able_server()) as client:
        for tool in client.iter_tools():
            assert tool.name == "x"
            break
        assert client.call_tool("x").text == "x"


def test_an_iteration_that_outlasts_its_connection_raises():
    server = able_server()
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in "abc"]
    server.methods["tools/list"] = lambda *_: {"tools": tools}
    client = mcpwire.sync.Client(server)
    with client:
        listed = client.iter_tools()
        assert next(listed).name == "a"
        unused = client.iter_tools()
    with client:
        with pytest.raises(mcpwire.ConnectionClosed):
            next(listed)
        assert [tool.name for tool in unused] == ["a", "b", "c"]


def test_calls_before_connecting_and_after_closing_are_refused(echo):
    client = mcpwire.sync.Client(echo.target)
    for _ in range(2):
        with pytest.raises(mcpwire.LocalProtocolError, match="`with client:`"):
            echoed(client, "x")
        with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
            client.notify("x")
        client.close()
        with client:
            assert echoed(client, "hi") == "hi"


MORTAL_SERVER = r"""
handshake()
while True:
    m = recv()
    if m["params"].get("name") == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    text(m, str(os.getpid()))
"""


@pytest.mark.pain("P04")
@pytest.mark.fault("F41")
@pytest.mark.parametrize("background", [False, True])
def test_a_client_reconnects_after_close_and_child_death(background):
    client = mcpwire.sync.Client(
        scripted(MORTAL_SERVER),
        recovery=mcpwire.Recovery(restart=False),
        background=background,
    )
    pids = []
    for _ in range(2):
        client.connect()
        pids.append(client.call_tool("pid").text)
        with pytest.raises(mcpwire.ConnectionClosed):
            client.call_tool("die")
    client.close()
    with client:
        pids.append(client.call_tool("pid").text)
    assert client.stats.connections == len(set(pids)) == 3


@pytest.mark.pain("P09")
def test_a_timed_out_call_is_cancelled_without_further_calls(echo):
    with mcpwire.sync.Client(echo.target) as client:
        with pytest.raises(mcpwire.RequestTimeout):
            client.call_tool("slow", timeout=0.3)
        until(lambda: echo.cancelled == 1)
        assert echoed(client, "hi") == "hi"


def test_a_repr_is_one_line_with_state_and_revision():
    client = mcpwire.sync.Client(able_server())
    assert repr(client).startswith("<mcpwire.sync.Client ")
    assert repr(client).endswith("not connected>")
    with client:
        assert repr(client).endswith("connected, 2025-11-25>")


@pytest.mark.fault("F27")
@pytest.mark.pain("P05")
def test_threads_share_one_initialize_after_a_lost_session(threads):
    with scripted_mcp(replies="sse") as server:
        with mcpwire.sync.Client(server.url) as client:
            for turn in range(3):
                barrier = threading.Barrier(12)

                def call(name, barrier=barrier):
                    barrier.wait(BOUND_S)
                    return echoed(client, name)

                server.sessions.clear()
                names = [f"{turn}-{number}" for number in range(12)]
                running = [threads.submit(call, name) for name in names]
                assert [each.result(BOUND_S) for each in running] == names
                assert server.verbs().count("initialize") == turn + 2
        assert len(server.executed) == 36


@pytest.mark.parametrize("what", ["notifications/initialized", "initialize"])
def test_connect_timeout_covers_each_step_over_http(what):
    with scripted_mcp() as server:
        server.on[what] = lambda _, conn: conn.wait_closed(None)
        client = mcpwire.sync.Client(server.url, connect_timeout=0.5)
        with pytest.raises(mcpwire.RequestTimeout):
            client.connect()
        assert not client.is_connected


def test_started_calls_run_concurrently(echo, threads):
    with mcpwire.sync.Client(echo.target) as client:
        names = [str(number) for number in range(8)]
        calls = [client.start_call("echo", {"text": name}) for name in names]
        waiting = [threads.submit(call.result, BOUND_S) for call in reversed(calls)]
        assert [each.result(BOUND_S).text for each in waiting] == names[::-1]
        assert [call.result().text for call in calls] == names
        assert all(call.done for call in calls)


def test_a_started_call_runs_without_a_waiter(echo):
    with mcpwire.sync.Client(echo.target) as client:
        call = client.start_call("echo", {"text": "hi"})
        until(lambda: call.done)
        assert call.result().text == "hi"


@pytest.mark.pain("P09")
def test_a_started_call_can_be_cancelled_after_a_timeout(echo):
    with mcpwire.sync.Client(echo.target) as client:
        call = client.start_call("slow")
        until(lambda: echo.slow == 1)
        with pytest.raises(TimeoutError, match="has not ended within"):
            call.result(0.01)
        assert not call.done
        call.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled, match="enough"):
            call.result(BOUND_S)
        until(lambda: echo.cancelled == 1)
        call.cancel()
        assert echoed(client, "hi") == "hi"


@pytest.mark.system("A31")
def test_a_call_can_be_cancelled_by_its_id_from_another_thread(echo, threads):
    with mcpwire.sync.Client(echo.target) as client:
        call = client.start_call("slow")
        until(lambda: echo.slow == 1)
        client.cancel(call.request_id, "by id")
        with pytest.raises(mcpwire.CallCancelled, match="by id"):
            call.result(BOUND_S)
        client.cancel(None)
        client.cancel(4711)
        assert echoed(client, "hi") == "hi"


def test_a_failed_started_call_raises_for_each_waiter():
    with mcpwire.sync.Client(scripted(MORTAL_SERVER)) as client:
        call = client.start_call("die")
        for _ in range(2):
            with pytest.raises(mcpwire.ConnectionClosed):
                call.result(BOUND_S)


def test_closing_ends_started_calls(echo):
    client = mcpwire.sync.Client(echo.target)
    client.connect()
    call = client.start_call("slow")
    until(lambda: echo.slow == 1)
    client.close()
    with pytest.raises(mcpwire.ConnectionClosed):
        call.result(BOUND_S)


STREAMING = """
handshake(capabilities={"tools": {"listChanged": True}, "logging": {},
                        "resources": {"subscribe": True, "listChanged": True}})
version = 0
while True:
    m = recv()
    method, params = m["method"], m.get("params", {})
    if method == "tools/call":
        if params["name"] == "die":
            os._exit(1)
        for number in range(params["arguments"].get("logs", 0)):
            send({"jsonrpc": "2.0", "method": "notifications/message",
                  "params": {"level": "info", "data": number}})
        for uri in params["arguments"].get("updates", ()):
            version += 1
            send({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                  "params": {"uri": uri}})
        text(m, "done")
    elif method == "resources/read":
        answer(m, {"contents": [{"uri": params["uri"], "text": str(version)}]})
    elif "id" in m:
        answer(m, {})
"""


@pytest.fixture(params=[False, True], ids=["", "background"])
def client(request):
    with mcpwire.sync.Client(scripted(STREAMING), background=request.param) as client:
        yield client


def data(notification):
    return notification.params.data


def test_each_stream_gets_all_events_in_order(client):
    first, second = client.events(), client.events()
    client.call_tool("x", {"logs": 3})
    assert [data(next(first)) for _ in range(3)] == [0, 1, 2]
    assert [data(next(second)) for _ in range(3)] == [0, 1, 2]
    assert first.next(timeout=0.01) is None
    assert not first.is_closed
    first.close()
    assert first.is_closed
    assert list(first) == []
    second.close()


def test_one_thread_iterates_events_while_others_call(client, threads):
    begun = threading.Event()

    def listen():
        with client.events() as events:
            begun.set()
            return [data(event) for _, event in zip(range(400), events, strict=False)]

    listening = threads.submit(listen)
    assert begun.wait(BOUND_S)
    calls = [threads.submit(client.call_tool, "x", {"logs": 20}) for _ in range(20)]
    for call in calls:
        assert call.result(BOUND_S).text == "done"
    assert listening.result(BOUND_S) == list(range(20)) * 20


@pytest.mark.parametrize("closes", ["client", "stream"])
def test_closing_ends_an_iteration_in_another_thread(client, threads, closes):
    events = client.events()
    client.call_tool("x", {"logs": 1})
    has_one = threading.Event()

    def listen():
        for event in events:
            assert data(event) == 0
            has_one.set()
        return "ended"

    listening = threads.submit(listen)
    assert has_one.wait(BOUND_S)
    (client if closes == "client" else events).close()
    assert listening.result(BOUND_S) == "ended"


def test_listen_yields_chosen_resources_only(client):
    with client.listen(["a:1"], tools=True) as changes:
        assert changes.acknowledged.uris == {"a:1"}
        assert not changes.refused
        client.call_tool("x", {"logs": 2, "updates": ["a:2", "a:1"]})
        change = next(changes)
        assert (change.method, change.params.uri) == (
            "notifications/resources/updated",
            "a:1",
        )


def test_a_watch_reads_again_after_each_change(client):
    with client.watch("a:1") as contents:
        assert next(contents).text == "0"
        client.call_tool("x", {"updates": ["a:1", "a:1"]})
        assert next(contents).text == "2"


@pytest.mark.fault("F41")
def test_a_watch_continues_after_the_server_died(client, threads):
    has_one = threading.Event()

    def listen():
        with client.watch("a:1") as contents:
            first = next(contents).text
            has_one.set()
            return [first, next(contents).text]

    watching = threads.submit(listen)
    assert has_one.wait(BOUND_S)
    with pytest.raises(mcpwire.ConnectionClosed):
        client.call_tool("die")
    assert watching.result(BOUND_S) == ["0", "0"]
    assert client.stats.connections == 2


def test_threads_subscribe_and_unsubscribe_concurrently(client, threads):
    def work(number):
        for _ in range(10):
            client.subscribe(f"a:{number % 3}")
            client.unsubscribe(f"a:{number % 3}")

    for done in [threads.submit(work, number) for number in range(6)]:
        done.result(BOUND_S)
    with pytest.raises(mcpwire.LocalProtocolError, match="not subscribed"):
        client.unsubscribe("a:1")


@pytest.mark.pain("P12")
@pytest.mark.parametrize("era", ["session", "stateless"])
def test_http_notifications_reach_a_waiting_stream(era):
    with scripted_mcp(era) as server, mcpwire.sync.Client(server.url) as client:
        changes = {"method": "notifications/tools/list_changed"}
        with client.events() as events:
            server.push(changes)
            assert events.next(timeout=BOUND_S).method == changes["method"]


@pytest.mark.pain("P12")
def test_concurrent_subscribes_share_one_stream(threads):
    with scripted_mcp() as server, mcpwire.sync.Client(server.url) as client:
        uris = [f"memo://{number}" for number in range(8)]
        for running in [threads.submit(client.subscribe, uri) for uri in uris]:
            running.result(BOUND_S)
        assert sorted(server.subscribed) == uris
    assert server.verbs().count("GET") == 1
