"""Sessions that the server loses while other operations run."""

import asyncio
import time
from asyncio import to_thread

import pytest
from faulty import (
    ANSWER,
    BOUND_S,
    ONCE,
    QUICK,
    answering,
    client_of,
    connected,
    never,
    outcome,
    until,
)
from mcp_server import Session, scripted_mcp
from raw_server import reply

import mcpwire
from mcpwire import ConnectionClosed, SessionExpired
from mcpwire.client import connection
from mcpwire.protocol.deadline import Deadline

pytestmark = pytest.mark.fault("F27")


async def test_event_listener_continues_in_the_new_session():
    """No call is made: the closed stream reveals that the session is lost."""
    async with client_of(recovery=QUICK) as (server, client):
        next_event = asyncio.ensure_future(anext(client.events()))
        await until(lambda: server.streams)
        server.forget_sessions()
        await until(lambda: server.verbs().count("initialize") == 2)
        await until(lambda: server.streams)
        changed = {"method": "notifications/tools/list_changed"}
        await to_thread(server.push, changed)
        notification = await next_event
        assert notification.method == "notifications/tools/list_changed"
        assert len(server.sessions) == 1


async def test_404_response_to_the_first_get_keeps_the_session():
    async with client_of(
        on={"GET": answering(reply(404))}, server_stream="always", recovery=QUICK
    ) as (server, client):
        for _ in range(3):
            await client.call_tool("echo")
        assert client.session_id == "session-1"
        await until(lambda: "GET" in server.verbs())
    assert server.verbs().count("GET") == 1
    assert server.verbs().count("initialize") == 1


async def test_sessions_lost_at_stream_opening_cause_no_request_storm():
    """The server drops each session as soon as its stream is open."""

    def forgets(request, conn):
        if request.headers.get("mcp-session-id") in server.sessions and gets:
            server.sessions.clear()
        gets.append(time.monotonic())
        return False

    gets = []
    with scripted_mcp() as server:
        server.on["GET"] = forgets
        async with connected(server) as client:
            next_event = asyncio.ensure_future(anext(client.events()))
            await until(lambda: gets)
            server.forget_sessions()
            await asyncio.wait([next_event], timeout=2)
            next_event.cancel()
            await asyncio.wait([next_event])
    assert server.verbs().count("initialize") <= 8


async def test_call_times_out_when_the_session_of_its_handler_is_lost():
    """The handler ends with the session, and it pauses the timeout no longer."""
    started = []

    async def sampling(request):
        started.append(None)
        await asyncio.sleep(1)  # a person thinks; the test does not wait for the end
        return ANSWER

    async with client_of(sampling=sampling, recovery=QUICK) as (server, client):
        while not started:  # a loaded machine may not get so far within that time
            late = asyncio.ensure_future(outcome(client.call_tool("ask", timeout=1.5)))
            await until(lambda task=late: started or task.done())
        server.sessions.clear()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        error = await late
        assert isinstance(error, mcpwire.RequestTimeout), error


@pytest.mark.usefixtures("patient_close")
async def test_closing_ends_calls_of_a_lost_session():
    async with client_of(server_stream="never", recovery=QUICK) as (server, client):
        late = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: server.executed)
        server.sessions.clear()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        await client.aclose()
        error = await outcome(late)
        assert isinstance(error, (ConnectionClosed, SessionExpired)), error
        server.release()
    assert server.verbs().count("DELETE") == 1
    assert server.requests[-1].headers["mcp-session-id"] == "session-2"


async def test_call_of_a_lost_session_can_be_cancelled():
    async with client_of(recovery=QUICK) as (server, client):
        late = await client.start_call("slow")
        await until(lambda: server.executed)
        server.sessions.clear()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        late.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled):
            await late
        server.release()
    cancellations = [
        r for r in server.requests if r.method == "notifications/cancelled"
    ]
    assert [r.headers["mcp-session-id"] for r in cancellations] in ([], ["session-1"])


@pytest.mark.system("L-U7")
async def test_session_lost_while_subscribing_is_subscribed_again():
    def forgets(request, conn):
        if request.headers["mcp-session-id"] == "session-1":
            server.sessions.clear()
        return False

    on = {"resources/subscribe": forgets}
    async with client_of(on=on, recovery=QUICK) as (server, client):
        await client.subscribe("memo://one")
        assert client.session_id != "session-1"
        assert server.verbs().count("initialize") == 2
        assert set(server.subscribed) == {"memo://one"}
        # And once more, without a request that subscribes.
        before = len(server.subscribed)
        server.forget_sessions()
        await client.call_tool("echo", {"text": "x"})
        assert server.subscribed[before:] == ["memo://one"]
        await client.unsubscribe("memo://one")


@pytest.mark.system("O85")
async def test_without_recovery_each_call_raises_session_expired():
    async with client_of(recovery=ONCE) as (server, client):
        server.forget_sessions()
        calls = (outcome(client.call_tool("echo")) for _ in range(10))
        for error in await asyncio.gather(*calls):
            assert isinstance(error, SessionExpired), error
        with pytest.raises(SessionExpired):
            await client.notify("notifications/x")
        with pytest.raises(SessionExpired):
            await client.list_tools()
        assert client.session_id is None
        await client.aclose()
        await client.connect()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.verbs().count("initialize") == 2


@pytest.fixture
def patience(monkeypatch):
    """Set how many seconds a ping's response may take, at any ping interval."""
    seconds = [BOUND_S]
    monkeypatch.setattr(connection, "Deadline", lambda now, _: Deadline(now, *seconds))
    return seconds


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_ping_answered_with_an_error_status_keeps_the_session(status):
    """Any response proves that the server is alive."""
    pings = []

    def declines(request, conn):
        pings.append(None)
        conn.send(reply(status))
        return True

    async with client_of(on={"ping": declines}, keepalive=0.05) as (server, client):
        slow = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: len(pings) >= 3)
        server.release()
        assert (await slow).text == "slow"
        assert client.session_id == "session-1"


async def test_unanswered_ping_ends_the_session(patience):
    with scripted_mcp() as server:
        server.on["ping"] = never
        patience[0] = 0.1
        async with connected(server, keepalive=0.1) as client:
            error = await outcome(client.call_tool("slow"))
            assert isinstance(error, ConnectionClosed), error
            del server.on["ping"]
            patience[0] = BOUND_S
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert client.session_id not in {None, "session-1"}


async def test_initialize_answered_on_a_resumed_stream_keeps_its_session():
    """Its first stream ends after an event id; the session stays the same."""
    with scripted_mcp(resumable=True, complains=False) as server:

        def polls(request, conn):
            message = request.json
            session = Session("session-x", "2025-11-25")
            server.sessions["session-x"] = session
            stream = server.stream(session, cycles=1)
            stream.request_id = message["id"]
            stream.open(conn, mcp_session_id="session-x")
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": server.capabilities,
                "serverInfo": {"name": "x", "version": "1"},
            }
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            stream.send(answer, is_last=True)
            return True

        server.on["initialize"] = polls
        async with connected(server, recovery=QUICK) as client:
            assert client.session_id == "session-x"
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
