"""A session that is forgotten while something else goes on."""

import asyncio
import time
from asyncio import to_thread

import pytest
from faulty import (
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
from mcpwire import ConnectionClosed, SessionExpired, types
from mcpwire.client import connection
from mcpwire.protocol.deadline import Deadline

pytestmark = pytest.mark.fault("F27")

ANSWER = types.CreateMessageResult("assistant", types.TextContent("fine"), "m")


async def test_whoever_only_listens_hears_of_a_new_session():
    """Nobody makes a call: that the stream is gone says that the session is."""
    async with client_of(scripted_mcp(), recovery=QUICK) as (server, client):
        hearing = asyncio.ensure_future(anext(client.events()))
        await until(lambda: server.streams)
        server.forget_sessions()
        await until(lambda: server.verbs().count("initialize") == 2)
        await until(lambda: server.streams)
        changed = {"method": "notifications/tools/list_changed"}
        await to_thread(server.push, changed)
        notification = await hearing
        assert notification.method == "notifications/tools/list_changed"
        assert len(server.sessions) == 1


async def test_404_to_the_first_get_does_not_end_the_session():
    with scripted_mcp() as server:
        server.on["GET"] = answering(reply(404))
        target = mcpwire.Http(server.url, server_stream="always")
        async with connected(target, recovery=QUICK) as client:
            for _ in range(3):
                await client.call_tool("echo")
            assert client.session_id == "session-1"
            await until(lambda: "GET" in server.verbs())
    assert server.verbs().count("GET") == 1
    assert server.verbs().count("initialize") == 1


async def test_a_server_whose_streams_end_sessions_is_not_stormed():
    """Each session forgets itself as soon as its stream is open."""

    def forgets(request, conn):
        if request.headers.get("mcp-session-id") in server.sessions and gets:
            server.sessions.clear()
        gets.append(time.monotonic())
        return False

    gets = []
    with scripted_mcp() as server:
        server.on["GET"] = forgets
        async with connected(server) as client:
            hearing = asyncio.ensure_future(anext(client.events()))
            await until(lambda: gets)
            server.forget_sessions()
            await asyncio.wait([hearing], timeout=2)
            hearing.cancel()
            await asyncio.wait([hearing])
    assert server.verbs().count("initialize") <= 8


async def test_a_call_whose_question_was_being_answered_ends_in_time():
    """The handler ends with the session, and no clock stands still for it."""
    started = []

    async def sampling(request):
        started.append(None)
        await asyncio.sleep(1)  # a person thinks; nobody waits for the end
        return ANSWER

    with scripted_mcp() as server:
        options = {"sampling": sampling, "recovery": QUICK}
        async with connected(server, **options) as client:
            while not started:  # a loaded machine may not get so far within that time
                late = asyncio.ensure_future(
                    outcome(client.call_tool("ask", timeout=1.5))
                )
                await until(lambda task=late: started or task.done())
            server.sessions.clear()
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            error = await late
            assert isinstance(error, mcpwire.RequestTimeout), error


@pytest.mark.usefixtures("patient_close")
async def test_closing_while_calls_run_on_a_forgotten_session_ends_them():
    async with client_of(scripted_mcp(), "never", recovery=QUICK) as (server, client):
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


async def test_a_call_on_a_forgotten_session_can_be_cancelled():
    async with client_of(scripted_mcp(), recovery=QUICK) as (server, client):
        late = await client.start_call("slow")
        await until(lambda: server.executed)
        server.sessions.clear()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        late.cancel("enough")
        with pytest.raises(mcpwire.CallCancelled):
            await late
        server.release()
    told = [r for r in server.requests if r.method == "notifications/cancelled"]
    assert [r.headers["mcp-session-id"] for r in told] in ([], ["session-1"])


@pytest.mark.system("L-U7")
async def test_a_session_forgotten_while_subscribing_is_subscribed_in_the_new_one():
    def forgets(request, conn):
        if request.headers["mcp-session-id"] == "session-1":
            server.sessions.clear()
        return False

    with scripted_mcp() as server:
        server.on["resources/subscribe"] = forgets
        async with connected(server, recovery=QUICK) as client:
            await client.subscribe("memo://one")
            assert client.session_id != "session-1"
            assert server.verbs().count("initialize") == 2
            assert set(server.subscribed) == {"memo://one"}
            # And once more, where nothing asks for it.
            before = len(server.subscribed)
            server.forget_sessions()
            await client.call_tool("echo", {"text": "x"})
            assert server.subscribed[before:] == ["memo://one"]
            await client.unsubscribe("memo://one")


@pytest.mark.system("O85")
async def test_without_recovery_each_call_of_a_forgotten_session_says_so():
    async with client_of(scripted_mcp(), recovery=ONCE) as (server, client):
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
    """Give the seconds that a ping's answer may take, however often one is sent."""
    seconds = [BOUND_S]
    monkeypatch.setattr(connection, "Deadline", lambda now, _: Deadline(now, *seconds))
    return seconds


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_ping_that_is_declined_ends_no_session(status):
    """Any answer is a sign of life."""
    pings = []

    def declines(request, conn):
        pings.append(None)
        conn.send(reply(status))
        return True

    with scripted_mcp() as server:
        server.on["ping"] = declines
        async with connected(server, keepalive=0.05) as client:
            slow = asyncio.ensure_future(client.call_tool("slow"))
            await until(lambda: len(pings) >= 3)
            server.release()
            assert (await slow).text == "slow"
            assert client.session_id == "session-1"


async def test_a_ping_that_is_not_answered_ends_the_session(patience):
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


async def test_initialize_that_is_answered_on_a_resumed_stream_keeps_its_session():
    """Its first stream breaks off after an event id: the rest is of that session."""
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
