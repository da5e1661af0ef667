"""Any response to a call ends it at once, with the reason."""

import asyncio
import gc
import weakref

import pytest
from faulty import (
    BOUND_S,
    ERAS,
    HANG_S,
    ONCE,
    answer_to,
    answering,
    client_of,
    never,
    outcome,
    refusing,
    stream,
    until,
)
from raw_server import head, json_reply, reply, sse_event, sse_head

import mcpwire
from mcpwire import HTTPError, MessageTooLarge, RemoteProtocolError, RPCError

STATUSES = (400, 401, 403, 405, 406, 409, 410, 413, 415, 421, 429, 431, 500, 501, 502,
            503, 504)  # fmt: skip


@pytest.mark.system("O85", "U11")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.fault("F26")
@pytest.mark.pain("P02")
async def test_http_error_carries_status_body_and_headers(status):
    async with client_of(session_ids=False, recovery=ONCE) as (server, client):
        server.on["tools/call"] = answering(
            reply(status, b"because", content_type="text/plain", x_why="so")
        )
        error = await outcome(client.call_tool("echo"))
        assert type(error) is HTTPError, error
        assert (error.status, error.body) == (status, b"because")
        assert error.headers["x-why"] == "so"
        assert str(status) in str(error)
        assert "because" in str(error)


@pytest.mark.system("O85", "U33")
@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 500, 503])
@pytest.mark.fault("F26")
async def test_json_rpc_error_in_body_takes_precedence_over_status(status):
    refuse = refusing(-32602, "no such tool", status, data={"a": 1})
    async with client_of(session_ids=False, recovery=ONCE) as (server, client):
        server.on["tools/call"] = refuse
        raised = await outcome(client.call_tool("echo"))
        assert isinstance(raised, RPCError), raised
        assert (raised.code, raised.status) == (-32602, status)
        assert raised.data == {"a": 1}


@pytest.mark.parametrize("handler", [refusing(-32602, status=200), never])
async def test_failed_call_leaves_no_reference_cycle(handler):
    async with client_of(recovery=ONCE) as (server, client):
        server.on["tools/call"] = handler
        gc.disable()
        try:
            with pytest.raises(mcpwire.MCPError) as caught:
                await client.call_tool("echo", timeout=0.5)
            reference = weakref.ref(caught.value)
            del caught
            await asyncio.sleep(0)  # the loop's callback refers to it, too
            assert reference() is None
        finally:
            gc.enable()


@pytest.mark.system("U20")
@pytest.mark.parametrize(
    "data",
    [reply(200), reply(202), head(204), json_reply({}), reply(200, b"OK")],
    ids=["200", "202", "204", "json", "text"],
)
@pytest.mark.fault("F24", "F25")
async def test_any_2xx_response_accepts_a_notification(data):
    on = {"notifications/initialized": answering(data)}
    async with client_of(on=on) as (_, client):
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.fault("F37")
@pytest.mark.parametrize("part", ["head", "json", "stream"])
async def test_slow_response_ends_at_the_deadline(part):
    begun = {
        "head": b"HTTP/1.1 200 OK\r\nx-slow: ",
        "json": head(200, content_type="application/json", content_length=9999),
        "stream": sse_head(chunked=False) + b": ",
    }

    def handler(request, conn):
        conn.send(begun[part])
        while not conn.wait_closed(0.01):
            conn.send(b"a")
        return True

    async with client_of() as (server, client):
        server.on["tools/call"] = handler
        with pytest.raises(mcpwire.RequestTimeout) as caught:
            await client.call_tool("echo", timeout=0.2)
        assert caught.value.elapsed < BOUND_S
        del server.on["tools/call"]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("replies", ["json", "sse"])
@pytest.mark.pain("P13")
async def test_large_response_arrives_complete(era, replies):
    text = "0123456789abcdef" * (4 * 2**20 // 16)
    async with client_of(era, replies=replies) as (_server, client):
        result = await client.call_tool("echo", {"text": text})
        assert result.text == text


@pytest.mark.system("U22", "V30")
@pytest.mark.attack("X12")
@pytest.mark.parametrize("replies", ["json", "sse"])
@pytest.mark.parametrize("limit", ["message", "values"])
@pytest.mark.pain("P13")
async def test_response_over_a_limit_fails_only_its_call(replies, limit):
    def oversized(request, conn):
        if limit == "message":
            return False
        answer = answer_to(request, a=[{}] * size)
        is_json = replies == "json"
        conn.send(json_reply(answer) if is_json else stream(sse_event(answer)))
        return True

    size = 100_000 if limit == "message" else 600_000
    limits = mcpwire.Limits(**{limit: size})
    async with client_of(replies=replies, limits=limits) as (server, client):
        other = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: server.verbs().count("tools/call") == 1)
        server.on["tools/call"] = oversized
        with pytest.raises(MessageTooLarge, match=rf"Limits\.{limit}") as caught:
            await client.call_tool("echo", {"text": "x" * 200_000})
        assert caught.value.limit == size
        server.release()
        assert (await other).text == "slow"


@pytest.mark.system("L-U4")
@pytest.mark.fault("F14")
@pytest.mark.attack("S31")
@pytest.mark.parametrize("wrong", ["other", "text", "null", "missing"])
async def test_response_with_a_wrong_id_fails_the_call_of_its_stream(wrong):
    """Each stream carries the response to its own request only."""
    ids = []

    def handler(request, conn):
        id = request.json["id"]
        ids.append(id)
        if len(ids) == 2:
            wrong_id = {"other": ids[0], "text": str(id), "null": None}.get(wrong, 999)
            answer = {"jsonrpc": "2.0", "id": wrong_id, "result": {"content": []}}
            if wrong == "missing":
                del answer["id"]
            conn.send(json_reply(answer))
            return True
        return False

    async with client_of() as (server, client):
        server.on["tools/call"] = handler
        first = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: server.executed)
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("echo")
        server.release()
        assert (await first).text == "slow"


@pytest.mark.fault("F27")
async def test_lost_session_is_renewed_although_the_404_body_stalls():
    def stall(request, conn):
        if stalled:
            return False
        stalled.append(request)
        conn.send(head(404, content_type="text/plain", content_length="100"))
        conn.wait_closed(HANG_S)
        return True

    stalled = []
    async with client_of(on={"tools/call": stall}, timeout=None) as (server, client):
        assert not isinstance(await outcome(client.call_tool("echo")), Exception)
    assert server.verbs().count("initialize") == 2
