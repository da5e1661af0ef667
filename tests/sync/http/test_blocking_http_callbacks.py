"""Callbacks and handlers of a blocking client over HTTP: none waits for another's."""

import sys
import threading
import time

import pytest
from mcp_server import scripted_mcp
from running import Running, ours
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

ANSWER = mcpwire.types.CreateMessageResult(
    role="assistant",
    content=mcpwire.types.TextContent("well"),
    model="m",
)


@pytest.fixture
def switching():
    """Let threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.pain("P29")
def test_progress_of_one_call_may_wait_for_that_of_another():
    with (
        scripted_mcp(replies="sse") as server,
        mcpwire.sync.Client(server.url) as client,
    ):
        both = threading.Barrier(2)

        def call():
            return client.call_tool(
                "notify", {"steps": 1}, on_progress=lambda *_: both.wait(BOUND_S)
            ).text

        running = [Running(call) for _ in range(2)]
        assert [each.result(30) for each in running] == ["notified"] * 2


@pytest.mark.pain("P29")
def test_a_slow_callback_delays_neither_other_calls_nor_closing():
    may_end = threading.Event()
    with scripted_mcp(replies="sse") as server:
        client = mcpwire.sync.Client(server.url)
        with client:
            slow = Running(
                client.call_tool,
                "notify",
                {"steps": 1},
                on_progress=lambda *_: may_end.wait(BOUND_S),
            )
            server.wait_until(lambda: "tools/call" in server.verbs())
            heard = []
            client.call_tool(
                "notify", {"steps": 2}, on_progress=lambda *_: heard.append(1)
            )
            assert heard == [1, 1]
            started = time.monotonic()
        assert time.monotonic() - started < BOUND_S / 3
        may_end.set()
        until(lambda: slow.is_over)


@pytest.mark.parametrize("use", ["close", "call"])
def test_a_progress_callback_may_use_its_client(use):
    with scripted_mcp(replies="sse") as server:
        client = mcpwire.sync.Client(server.url, on_notification=lambda _: None)
        client.connect()
        said = []

        def progress(*_):
            if use == "close":
                client.close()
            else:
                said.append(client.call_tool("echo", {"text": "in"}).text)

        started = time.monotonic()
        outcome = Running(
            client.call_tool, "notify", {"steps": 1}, on_progress=progress
        )
        if use == "close":
            until(lambda: outcome.is_over)  # its answer may have come already
        else:
            assert outcome.result().text == "notified"
            assert said == ["in"]
        client.close()
        assert time.monotonic() - started < BOUND_S / 3
        until(lambda: not ours())


@pytest.mark.pain("P12")
def test_a_callback_of_the_servers_own_stream_may_call_and_close():
    with scripted_mcp() as server:
        done = threading.Event()

        def heard(_):
            said.append(client.call_tool("echo", {"text": "in"}).text)
            client.close()
            done.set()

        said = []
        client = mcpwire.sync.Client(server.url, on_notification=heard)
        client.connect()
        server.push({"method": "notifications/tools/list_changed"})
        assert done.wait(BOUND_S)
        assert said == ["in"]
        assert not client.is_connected
        until(lambda: not ours())


@pytest.mark.pain("P29")
@pytest.mark.parametrize("over", ["post", "get"])
def test_a_handler_may_call_its_own_client(over):
    with scripted_mcp(replies="sse") as server:

        def sampling(_):
            said.append(client.call_tool("echo", {"text": "in"}).text)
            return ANSWER

        said = []
        with mcpwire.sync.Client(server.url, sampling=sampling) as client:
            client.call_tool("ask", {"over": over}, timeout=BOUND_S)
        assert said == ["in"]


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("over", ["post", "get"])
def test_a_quick_handler_leaves_the_clock_of_its_call_running(over):
    with (
        scripted_mcp(replies="sse") as server,
        mcpwire.sync.Client(server.url, sampling=lambda _: ANSWER) as client,
    ):

        def calls():
            for _ in range(12):
                client.call_tool("ask", {"over": over}, timeout=BOUND_S)

        for each in [Running(calls) for _ in range(4)]:
            each.result()
        assert not client._connection.channel._asked


def test_an_answer_that_is_quicker_than_the_clock_is_stopped_for_it_starts_it():
    """The answer comes in between; then nobody would ever let the clock go on."""
    with scripted_mcp(replies="sse") as server:
        is_looked_at, may_hold = threading.Event(), threading.Event()

        def sampling(_):
            is_looked_at.wait(BOUND_S)
            return ANSWER

        with mcpwire.sync.Client(server.url, sampling=sampling) as client:
            channel = client._connection.channel
            hold = channel._hold
            clocks = []

            def late(reply, held):
                is_looked_at.set()
                may_hold.wait(BOUND_S)
                hold(reply, held)
                clocks.append(reply.deadline.at)

            channel._hold = late
            release = channel._release

            def released(id):
                release(id)
                may_hold.set()

            channel._release = released
            client.call_tool("ask", timeout=2 * BOUND_S)
        assert clocks
        assert float("inf") not in clocks


@pytest.mark.pain("P27")
@pytest.mark.parametrize("era", ["session", "stateless"])
def test_connecting_with_a_function_that_raises_fails_with_that_at_once(era):
    class NoTokenError(Exception):
        pass

    def headers():
        raise NoTokenError

    with scripted_mcp(era) as server:
        target = mcpwire.Http(server.url, headers=headers)
        client = mcpwire.sync.Client(target)
        error = Running(client.connect).error()
        assert type(error) is NoTokenError
        assert not server.requests
        assert not client.is_connected


@pytest.mark.pain("P27")
def test_listening_with_a_function_that_raises_fails_with_that_at_once():
    class NoTokenError(Exception):
        pass

    is_refused = threading.Event()

    def headers():
        if is_refused.is_set():
            raise NoTokenError
        return {}

    with scripted_mcp("stateless") as server:
        target = mcpwire.Http(server.url, headers=headers)
        with mcpwire.sync.Client(target) as client:
            is_refused.set()
            error = Running(client.subscribe, "file:///a").error()
            assert type(error) is NoTokenError
            is_refused.clear()
            client.call_tool("echo")


@pytest.mark.pain("P28")
def test_a_client_for_the_other_shell_is_refused_with_a_sentence():
    httpx = pytest.importorskip("httpx")
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, http_client=httpx.AsyncClient())
        client = mcpwire.sync.Client(target)
        with pytest.raises(ValueError, match=r"must be an httpx\.Client, got httpx"):
            client.connect()
        assert not client.is_connected


def test_an_async_function_for_headers_is_refused_with_a_sentence():
    async def headers():
        return {}

    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, headers=headers)
        client = mcpwire.sync.Client(target)
        with pytest.raises(mcpwire.LocalProtocolError, match="are plain functions"):
            client.connect()
        assert not server.requests


@pytest.mark.parametrize("what", ["notifications/initialized", "initialize"])
def test_connecting_takes_no_longer_than_it_may_whatever_hangs(what):
    with scripted_mcp() as server:
        server.on[what] = lambda _, conn: conn.wait_closed(None)
        client = mcpwire.sync.Client(server.url, connect_timeout=0.5)
        started = time.monotonic()
        with pytest.raises(mcpwire.RequestTimeout):
            client.connect()
        assert time.monotonic() - started < BOUND_S / 3
        until(lambda: not ours())


def test_a_new_session_takes_no_longer_than_the_call_that_needs_it():
    """What is told again to it may hang, too."""
    with (
        scripted_mcp() as server,
        mcpwire.sync.Client(server.url) as client,
    ):
        client.set_log_level("info")
        server.on["logging/setLevel"] = lambda _, conn: conn.wait_closed(None)
        server.sessions.clear()
        started = time.monotonic()
        with pytest.raises(mcpwire.RequestTimeout):
            client.call_tool("echo", timeout=0.5)
        assert time.monotonic() - started < BOUND_S / 3
        server.on.clear()
        assert client.call_tool("echo", {"text": "again"}).text == "again"
