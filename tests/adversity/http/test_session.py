"""Sessions: their contents, their end, and their renewal after the server lost them."""

import asyncio
from collections import Counter

import pytest
from faulty import (
    ERAS,
    QUICK,
    REPLIES,
    answer_to,
    answering,
    client_of,
    connected,
    never,
    once,
    outcome,
    until,
)
from mcp_server import scripted_mcp
from raw_server import json_reply, reply

import mcpwire
from mcpwire import ConnectionClosed, HTTPError, NegotiationError, SessionExpired

FORGOTTEN = answering(reply(404))


@pytest.mark.system("L-A12", "L-U7")
@pytest.mark.parametrize("replies", REPLIES)
@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
@pytest.mark.rule("LHTTP-27")
async def test_50_calls_of_a_lost_session_share_one_initialize(replies):
    """They run in the new session, each once; none of them ran before."""
    waiting = []

    with scripted_mcp(replies=replies) as server:

        def forgets(request, conn):
            session = request.headers["mcp-session-id"]
            if session != "session-1":
                return False
            waiting.append(request)
            conn.wait_while(lambda: len(waiting) < 50)
            server.sessions.pop(session, None)
            for other in tuple(server.raw.open):
                other.nudge()
            return False

        async with connected(server) as client:
            server.on["tools/call"] = forgets
            results = await asyncio.gather(
                *(client.call_tool("echo", {"text": str(n)}) for n in range(50))
            )
            assert [result.text for result in results] == [str(n) for n in range(50)]
            assert client.session_id != "session-1"
    verbs = Counter(server.verbs())
    assert verbs["initialize"] == 2
    assert verbs["notifications/initialized"] == 2
    assert verbs["tools/call"] == 100
    texts = Counter(arguments["text"] for _, arguments, _ in server.executed)
    assert texts == Counter({str(n): 1 for n in range(50)})
    again = [r for r in server.requests if r.method == "initialize"][1]
    assert "mcp-session-id" not in again.headers
    assert "mcp-protocol-version" not in again.headers


@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
async def test_second_404_for_one_call_raises_session_expired():
    async with client_of(recovery=QUICK) as (server, client):
        server.on["tools/call"] = FORGOTTEN
        with pytest.raises(SessionExpired):
            await client.call_tool("echo")
        del server.on["tools/call"]
        assert server.verbs().count("tools/call") == 2
        assert server.verbs().count("initialize") == 2
        # The next call has another chance.
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.pain("P05")
async def test_session_lost_after_serving_others_is_renewed_again():
    """Twice for one call: each 404 means it did not run, and the session had worked."""
    tries = []

    with scripted_mcp() as server:

        def forgets(request, conn):
            if request.json["params"]["arguments"]["text"] != "unlucky":
                return False
            tries.append(request)
            if len(tries) == 2:
                conn.wait_while(lambda: not server.executed)
            if len(tries) < 3:
                server.sessions.clear()
            return False

        server.on["tools/call"] = forgets
        async with connected(server) as client:
            unlucky = asyncio.ensure_future(
                client.call_tool("echo", {"text": "unlucky"})
            )
            await until(lambda: len(tries) == 2)
            assert (await client.call_tool("echo", {"text": "lucky"})).text == "lucky"
            for connection in tuple(server.raw.open):
                connection.nudge()
            assert (await unlucky).text == "unlucky"
        assert server.verbs().count("initialize") == 3
        ran = [arguments["text"] for _, arguments, _ in server.executed]
        assert ran == ["lucky", "unlucky"]


@pytest.mark.system("U12")
@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
async def test_404_without_a_session_is_a_plain_http_error():
    async with client_of(session_ids=False) as (server, client):
        server.on["tools/call"] = FORGOTTEN
        with pytest.raises(HTTPError) as caught:
            await client.call_tool("echo")
        assert caught.value.status == 404
    assert server.verbs().count("initialize") == 1


@pytest.mark.fault("F27")
@pytest.mark.parametrize("again", [404, 500])
async def test_failed_session_renewal_is_raised_without_timeout(again):
    async with client_of(recovery=QUICK) as (server, client):
        server.forget_sessions()
        server.on["initialize"] = answering(reply(again))
        server.on["server/discover"] = answering(reply(again))
        error = await outcome(client.call_tool("echo"))
        assert isinstance(
            error, (SessionExpired, NegotiationError, HTTPError, ConnectionClosed)
        ), error
        assert not isinstance(error, TimeoutError)
    assert server.executed == []


@pytest.mark.fault("F27")
async def test_notification_to_a_lost_session_opens_a_new_one():
    async with client_of(roots=[]) as (server, client):
        server.forget_sessions()
        await outcome(client.notify_roots_changed())
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.verbs().count("initialize") == 2
    assert len(server.executed) == 1


@pytest.mark.fault("F27")
async def test_late_response_of_the_old_session_keeps_the_new_session():
    async with client_of(server_stream="never") as (server, client):
        late = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: server.executed)
        server.sessions.clear()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        new = client.session_id
        assert new == "session-2"
        server.release()
        assert (await late).text == "slow"
        assert client.session_id == new
    names = Counter(name for name, _, _ in server.executed)
    assert names == {"slow": 1, "echo": 1}


@pytest.mark.pain("P05")
@pytest.mark.fault("F48")
async def test_list_request_restarts_in_a_new_session():
    """A cursor is valid only in the session that issued it."""

    def pages(request, conn):
        message = request.json
        session = request.headers["mcp-session-id"]
        cursor = (message.get("params") or {}).get("cursor")
        if session == "session-1" and cursor is not None:
            server.sessions.clear()
            return False
        of, _, place = (cursor or f"{session}:0").partition(":")
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if of != session:
            answer["error"] = {"code": -32602, "message": "no such cursor"}
        else:
            schema = {"type": "object"}
            tool = {"name": f"{session}-{place}", "inputSchema": schema}
            answer["result"] = {"tools": [tool]}
            if int(place) < 2:
                answer["result"]["nextCursor"] = f"{session}:{int(place) + 1}"
        conn.send(json_reply(answer))
        return True

    on = {"tools/list": pages}
    async with client_of(on=on, server_stream="never") as (server, client):
        names = [tool.name for tool in await client.list_tools()]
    assert names == ["session-2-0", "session-2-1", "session-2-2"]


@pytest.mark.system("U08")
@pytest.mark.fault("F28")
@pytest.mark.rule("LHTTP-24")
async def test_session_id_in_a_later_response_is_ignored():
    def handler(request, conn):
        conn.send(json_reply(answer_to(request), MCP_SESSION_ID="another"))
        return True

    async with client_of() as (server, client):
        server.on["tools/call"] = handler
        for _ in range(3):
            await client.call_tool("echo")
        assert client.session_id == "session-1"
    sent = {r.headers.get("mcp-session-id") for r in server.requests[2:]}
    assert sent == {"session-1"}


@pytest.mark.system("O82")
@pytest.mark.fault("F28")
async def test_server_without_session_ids_receives_no_delete():
    async with client_of(session_ids=False) as (server, client):
        await client.call_tool("echo")
        assert client.session_id is None
    assert "DELETE" not in server.verbs()
    assert all("mcp-session-id" not in r.headers for r in server.requests)


DELETE_ANSWERS = {
    "200": answering(reply(200)),
    "202": answering(reply(202)),
    "204": answering(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "404": answering(reply(404)),
    "405": answering(reply(405)),
    "500": answering(reply(500, b"no")),
    "501": answering(reply(501)),
    "html": answering(reply(200, b"<html>", content_type="text/html")),
    "fin": answering(b"", "close"),
    "rst": answering(b"", "reset"),
    "no http": answering(b"what?\r\n\r\n", "close"),
}


@pytest.mark.system("O89", "U13")
@pytest.mark.parametrize("case", DELETE_ANSWERS)
@pytest.mark.pain("P25")
@pytest.mark.fault("F27")
@pytest.mark.rule("LHTTP-28")
async def test_closing_sends_one_delete_for_any_response(case, caplog):
    with scripted_mcp() as server:
        server.on["DELETE"] = DELETE_ANSWERS[case]
        async with connected(server) as client:
            await client.call_tool("echo")
        await client.aclose()
    assert server.verbs().count("DELETE") == 1
    delete = server.requests[-1]
    assert delete.headers["mcp-session-id"] == "session-1"
    assert delete.headers["mcp-protocol-version"] == "2025-11-25"
    assert not [r for r in caplog.records if r.levelname != "DEBUG"]


@pytest.mark.system("U13")
@pytest.mark.pain("P25")
async def test_unanswered_delete_does_not_block_closing():
    async with client_of(on={"DELETE": never}) as (_server, client):
        await client.aclose()
        assert client.session_id is None


@pytest.mark.parametrize("replies", REPLIES)
@pytest.mark.pain("P30")
@pytest.mark.usefixtures("kept_for_long")
async def test_1000_calls_are_1000_posts_on_one_connection(replies):
    async with client_of(replies=replies, server_stream="never") as (server, client):
        for number in range(1000):
            result = await client.call_tool("echo", {"text": str(number)})
            assert result.text == str(number)
    assert server.connections == 1
    assert Counter(server.verbs()) == {
        "server/discover": 1,
        "initialize": 1,
        "notifications/initialized": 1,
        "tools/call": 1000,
        "DELETE": 1,
    }


@pytest.mark.system("A06")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("replies", REPLIES)
@pytest.mark.pain("P29")
async def test_20_calls_run_concurrently_and_a_short_call_overtakes(era, replies):
    async with client_of(era, replies=replies) as (server, client):
        slow = [asyncio.ensure_future(client.call_tool("slow")) for _ in range(20)]
        await until(lambda: len(server.executed) == 20)
        # While all of them wait, others are answered.
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        server.release()
        assert {result.text for result in await asyncio.gather(*slow)} == {"slow"}


@pytest.mark.fault("F27")
async def test_session_lost_during_the_handshake_fails_the_connect():
    with scripted_mcp() as server:
        server.on["notifications/initialized"] = once(
            lambda request, conn: server.sessions.clear()
        )
        client = mcpwire.Client(server.url)
        with pytest.raises((mcpwire.ConnectError, SessionExpired), match="no longer"):
            await client.connect()
        async with client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
