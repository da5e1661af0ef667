"""A forgotten session and the calls that are open on it, in threads."""

import threading
import time

import pytest
from http_bytes import json_reply
from mcp_server import scripted_mcp
from running import Running, ours
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

ONCE = mcpwire.Recovery(attempts=1, backoff_initial=0.01, backoff_max=0.02)


def in_flight(server, count=1):
    """Wait until so many calls have reached the server."""
    server.wait_until(lambda: server.verbs().count("tools/call") >= count)


def refuse(_, conn):
    return conn.send(json_reply({}, 500)) or True


@pytest.mark.pain("P05")
def test_closing_ends_calls_of_a_lost_session_that_could_not_be_replaced():
    with scripted_mcp() as server:
        client = mcpwire.sync.Client(server.url, recovery=ONCE)
        client.connect()
        slow = Running(client.call_tool, "slow", {"seconds": 8})
        in_flight(server)
        server.on["initialize"] = server.on["server/discover"] = refuse
        server.sessions.clear()
        with pytest.raises(mcpwire.MCPError):
            client.call_tool("echo")
        assert not slow.is_over
        client.close()
        error = slow.error()
        assert type(error) is mcpwire.ConnectionClosed
        assert error.sent  # it may have run: nobody may send it again
        until(lambda: not ours())
        server.release()


def test_closing_ends_calls_of_a_replaced_session_as_ones_that_may_have_run():
    with scripted_mcp() as server:
        client = mcpwire.sync.Client(server.url)
        client.connect()
        slow = Running(client.call_tool, "slow", {"seconds": 8})
        in_flight(server)
        server.sessions.clear()
        client.call_tool("echo")
        client.close()
        error = slow.error()
        assert type(error) is mcpwire.ConnectionClosed
        assert error.sent
        until(lambda: not ours())
        server.release()


def test_a_started_call_of_a_lost_session_can_be_cancelled():
    with scripted_mcp() as server, mcpwire.sync.Client(server.url) as client:
        call = client.start_call("slow", {"seconds": 30})
        in_flight(server)
        server.sessions.clear()
        client.call_tool("echo")
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            call.result(BOUND_S)
        until(lambda: not ours())  # neither its thread nor that of the old session
        server.release()


@pytest.mark.pain("P05")
def test_a_question_of_a_lost_session_stops_no_clock_for_ever():
    may_answer = threading.Event()

    def sampling(_):
        may_answer.wait(BOUND_S)
        raise mcpwire.RPCError(-1, "no")

    with (
        scripted_mcp(replies="sse") as server,
        mcpwire.sync.Client(server.url, sampling=sampling) as client,
    ):
        asking = Running(client.call_tool, "ask", timeout=0.5)
        until(lambda: any("request" in name for name in ours()))
        server.sessions.clear()
        client.call_tool("echo")
        may_answer.set()
        assert type(asking.error()) is mcpwire.RequestTimeout


def test_the_last_call_may_end_before_anybody_waits_for_it():
    """What drains a session looks whether anything is left, and then waits."""
    with scripted_mcp() as server, mcpwire.sync.Client(server.url) as client:
        channel = client._connection.channel
        draining = Running(channel._shell.until_quiet)
        draining.result()


def test_a_forgotten_client_lets_go_of_a_session_that_is_drained():
    with scripted_mcp() as server:
        client = mcpwire.sync.Client(server.url)
        client.connect()
        channel = client._connection.channel
        open_calls = Running(channel.call, "tools/call", SLOW, deadline=None)
        in_flight(server)
        server.sessions.clear()
        client.call_tool("echo")
        with pytest.warns(ResourceWarning, match="unclosed"):
            del client
        assert type(open_calls.error()) is mcpwire.ConnectionClosed
        until(lambda: not ours())


SLOW = {"name": "slow", "arguments": {"seconds": 30}}


@pytest.mark.fault("F27")
@pytest.mark.pain("P05")
@pytest.mark.parametrize("replies", ["json", "sse"])
def test_50_threads_on_a_server_that_forgets_share_one_initialize_each_time(replies):
    with scripted_mcp(replies=replies) as server:
        client = mcpwire.sync.Client(server.url)
        with client:
            for round in range(5):
                everybody = threading.Barrier(50)

                def call(number, everybody=everybody):
                    everybody.wait(BOUND_S)
                    return client.call_tool("echo", {"text": number}).text

                server.sessions.clear()
                texts = [f"{round}-{number}" for number in range(50)]
                running = [Running(call, text) for text in texts]
                assert [each.result() for each in running] == texts
                assert server.verbs().count("initialize") == round + 2
        ran = [arguments["text"] for _, arguments, _ in server.executed]
        assert len(ran) == len(set(ran)) == 250


@pytest.mark.pain("P05", "P29")
@pytest.mark.parametrize("replies", ["json", "sse"])
def test_8_threads_and_a_server_that_forgets_now_and_then_mix_nothing_up(replies):
    with scripted_mcp(replies=replies) as server:
        with mcpwire.sync.Client(server.url) as client:

            def calls(thread):
                for number in range(100):
                    text = f"{thread}.{number}"
                    assert client.call_tool("echo", {"text": text}).text == text

            running = [Running(calls, thread) for thread in range(8)]
            expiries = 0
            while not all(each.is_over for each in running):
                before = server.verbs().count("initialize")
                ran = len(server.executed)
                until(
                    lambda ran=ran: (
                        len(server.executed) > ran + 100
                        or all(each.is_over for each in running)
                    )
                )
                if len(server.executed) <= ran + 100:
                    break
                server.sessions.clear()
                expiries += 1
                until(
                    lambda before=before: (
                        server.verbs().count("initialize") > before
                        or all(each.is_over for each in running)
                    )
                )
            for each in running:
                each.result()
        assert expiries > 1
        assert server.verbs().count("initialize") in {expiries, expiries + 1}
        assert len(server.executed) == 8 * 100


@pytest.mark.usefixtures("patient_close")
def test_50_calls_that_run_end_as_the_client_is_closed():
    with scripted_mcp() as server:
        client = mcpwire.sync.Client(server.url)
        client.connect()
        calls = [Running(client.call_tool, "slow", {"seconds": 30}) for _ in range(50)]
        in_flight(server, 50)
        started = time.monotonic()
        client.close()
        assert time.monotonic() - started < 10
        for call in calls:
            error = call.error()
            assert type(error) is mcpwire.ConnectionClosed
            assert error.sent
        until(lambda: not ours())
        server.release()


def test_a_stream_that_begins_as_the_client_closes_is_not_opened(monkeypatch):
    """Between the look whether the channel lives and being known to whoever closes."""
    from mcpwire.sync._made import http_going_on

    may_go_on, is_between = threading.Event(), threading.Event()
    reply_of = http_going_on.StreamReply

    def stream_reply(*args):
        is_between.set()
        may_go_on.wait(BOUND_S)
        return reply_of(*args)

    monkeypatch.setattr(http_going_on, "StreamReply", stream_reply)
    with scripted_mcp() as server:
        client = mcpwire.sync.Client(server.url, on_notification=lambda _: None)
        client.connect()
        assert is_between.wait(BOUND_S)
        channel = client._connection.channel
        closing = Running(client.close)
        until(lambda: channel.lost)
        may_go_on.set()
        closing.result()
        assert "GET" not in server.verbs()
        assert server.verbs()[-1] == "DELETE"
        until(lambda: not ours())
