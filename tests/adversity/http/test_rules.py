"""What a client sends over HTTP, rule by rule."""

import asyncio
import logging

import pytest
from faulty import answer_to, answering, once, refusing, until
from http_bytes import json_reply, reply, sse_head
from mcp_server import scripted_mcp, tool

import mcpwire

BOUND_S = 20.0

VERSION = "mcp-protocol-version"
SESSION = "mcp-session-id"

MIRRORED = tool(
    "place",
    at={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    count={"type": "integer", "x-mcp-header": "Count"},
    loud={"type": "boolean", "x-mcp-header": "Loud"},
)

VALUES = [
    pytest.param({"at": {"region": "eu west"}}, {"region": "eu west"}, id="spaces"),
    pytest.param({"at": {"region": ""}}, {"region": ""}, id="empty"),
    pytest.param({"at": {"region": None}}, {}, id="null"),
    pytest.param({"at": {}}, {}, id="absent"),
    pytest.param({"region": "elsewhere"}, {}, id="another path"),
    pytest.param({"count": -42, "loud": True}, {"count": "-42", "loud": "true"}),
    pytest.param(
        {"at": {"region": "Köln"}}, {"region": "=?base64?S8O2bG4=?="}, id="not ASCII"
    ),
    pytest.param(
        {"at": {"region": "=?base64?eA==?="}},
        {"region": "=?base64?PT9iYXNlNjQ/ZUE9PT89?="},
        id="as if encoded",
    ),
]


def posts(server, method):
    return [request for request in server.requests if request.method == method]


@pytest.mark.system("U28", "V30")
@pytest.mark.rule("TR-HTTP-06", "TR-HTTP-08")
async def test_stateless_message_is_a_post_with_its_own_metadata():
    with scripted_mcp("stateless") as server:
        async with mcpwire.Client(server.url) as client:
            calls = (client.call_tool("echo", {"text": str(n)}) for n in range(8))
            await asyncio.gather(*calls)
        assert len(posts(server, "tools/call")) == 8
        for request in server.requests:
            assert request.verb == "POST"
            assert request.headers["mcp-method"] == request.json["method"]
            meta = request.json["params"]["_meta"]
            version = meta["io.modelcontextprotocol/protocolVersion"]
            assert request.headers[VERSION] == version == "2026-07-28"
            assert SESSION not in request.headers


@pytest.mark.system("U26", "U27")
@pytest.mark.rule("HDR-14", "HDR-15", "HDR-16", "HDR-17", "HDR-18", "HDR-19", "HDR-27")
@pytest.mark.parametrize(("arguments", "expected"), VALUES)
async def test_method_name_and_arguments_are_mirrored_in_headers(arguments, expected):
    with scripted_mcp("stateless", tools=[MIRRORED]) as server:
        server.on["tools/call"] = lambda request, conn: (
            conn.send(json_reply(answer_to(request, resultType="complete"))) or True
        )
        async with mcpwire.Client(server.url) as client:
            await client.list_tools()
            await client.call_tool("place", arguments)
        [call] = posts(server, "tools/call")
        [listing] = posts(server, "tools/list")
    assert listing.headers["mcp-method"] == "tools/list"
    assert "mcp-name" not in listing.headers
    assert call.headers["mcp-method"] == "tools/call"
    assert call.headers["mcp-name"] == "place"
    prefix = "mcp-param-"
    mirrored = {
        name.removeprefix(prefix): value
        for name, value in call.headers.items()
        if name.startswith(prefix)
    }
    assert mirrored == expected


@pytest.mark.rule("CACHE-09")
async def test_headers_of_a_call_apply_to_its_lists_and_bypass_the_cache():
    def read(request, conn):
        user = request.headers.get("x-user", "nobody")
        hints = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
        result = {**hints, "contents": [{"uri": "a:", "text": user}]}
        conn.send(json_reply({**answer_to(request), "result": result}))
        return True

    ann = {"X-User": "ann"}
    with scripted_mcp("stateless") as server:
        server.on["resources/read"] = read
        async with mcpwire.Client(server.url, cache=True) as client:
            read_by_all = [await client.read_text("a:", headers=h) for h in (ann, None)]
            assert read_by_all == ["ann", "nobody"]
            assert await client.read_text("a:", headers=ann) == "ann"
            assert await client.read_text("a:") == "nobody"
            await client.call_tool("fail", headers=ann, validate="error")
        assert len(posts(server, "resources/read")) == 3
        (listing,) = posts(server, "tools/list")
        assert listing.headers["x-user"] == "ann"


@pytest.mark.system("L-U6")
@pytest.mark.rule("LHTTP-13")
@pytest.mark.parametrize("how", ["timeout", "cancel", "id"])
async def test_abandoned_session_call_sends_cancelled(how):
    with scripted_mcp() as server:
        async with mcpwire.Client(server.url) as client:
            await abandon_call(client, server, how)
            await until(lambda: len(server.cancelled) == len(calls(server)))
            server.release()
        assert server.cancelled == [call.json["id"] for call in calls(server)]


@pytest.mark.system("L-U6")
@pytest.mark.rule("TR-HTTP-24", "TR-HTTP-33")
@pytest.mark.parametrize("how", ["timeout", "cancel", "id"])
async def test_abandoned_stateless_call_closes_its_stream(how):
    closed = []

    def hold(request, conn):
        conn.wait_closed(BOUND_S)
        closed.append(request.json["id"])
        return True

    with scripted_mcp("stateless") as server:
        server.on["tools/call"] = hold
        async with mcpwire.Client(server.url) as client:
            await abandon_call(client, server, how)
            await until(lambda: closed)
        assert "notifications/cancelled" not in server.verbs()


def calls(server):
    return posts(server, "tools/call")


async def abandon_call(client, server, how):
    if how == "timeout":
        while not calls(server):  # a loaded machine may not send it in that time
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("slow", {"seconds": 60}, timeout=0.1)
        return
    call = await client.start_call("slow", {"seconds": 60})
    await until(lambda: calls(server))
    if how == "cancel":
        call.cancel()
        return
    for id in (None, 999, call.request_id):
        cancelling = client.cancel(id)
        if cancelling is not None:  # of an asyncio client
            await cancelling


@pytest.mark.rule("TR-HTTP-22")
async def test_stateless_retry_of_a_broken_stream_uses_a_new_id():
    with scripted_mcp("stateless") as server:
        server.on["tools/list"] = once(
            answering(sse_head(chunked=False) + b": hm\n\n", "close")
        )
        async with mcpwire.Client(server.url) as client:
            assert await client.list_tools()
        first, second = (r.json["id"] for r in posts(server, "tools/list"))
        assert first != second
        assert all("last-event-id" not in r.headers for r in server.requests)


@pytest.mark.rule("SUB-10")
async def test_stateless_unsubscribe_closes_the_stream():
    with scripted_mcp("stateless") as server:
        async with mcpwire.Client(server.url) as client:
            await client.subscribe("file:///a")
            await until(lambda: server.streams)
            await client.unsubscribe("file:///a")
            await until(lambda: not server.streams)
        assert "notifications/cancelled" not in server.verbs()


@pytest.mark.rule("HDR-34")
@pytest.mark.parametrize("status", [413, 431])
async def test_too_large_request_raises_and_the_next_succeeds(status):
    def refuse(request, conn):
        if request.json["params"]["arguments"]["text"] == "x":
            return False
        conn.send(reply(status, b"too large", content_type="text/plain"))
        return True

    with scripted_mcp() as server:
        server.on["tools/call"] = refuse
        async with mcpwire.Client(server.url) as client:
            with pytest.raises(mcpwire.HTTPError) as raised:
                await client.call_tool("echo", {"text": "xx"})
            assert raised.value.status == status
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"


@pytest.mark.rule("VER-13", "TR-HTTP-35")
@pytest.mark.parametrize(
    ("code", "data"),
    [(-32020, None), (-32021, {}), (-32022, {"supported": ["2099-01-01"]})],
)
async def test_stateless_era_error_prevents_the_fallback(code, data):
    with scripted_mcp("stateless") as server:
        server.on["server/discover"] = refusing(code, data=data)
        client = mcpwire.Client(server.url)
        with pytest.raises(mcpwire.NegotiationError):
            await client.connect()
        await client.aclose()
        assert set(server.verbs()) == {"server/discover"}


@pytest.mark.rule("LHTTP-18")
async def test_call_streams_and_the_server_stream_coexist():
    received = []
    with scripted_mcp(replies="sse") as server:
        async with mcpwire.Client(
            server.url, on_notification=received.append
        ) as client:
            slow = asyncio.create_task(client.call_tool("slow", {}))
            changed = {"method": "notifications/tools/list_changed"}
            await asyncio.to_thread(server.push, changed)
            calls = (client.call_tool("echo", {"text": str(n)}) for n in range(4))
            assert [r.text for r in await asyncio.gather(*calls)] == list("0123")
            server.close_streams()
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            server.release()
            await slow
    assert [note.method for note in received] == ["notifications/tools/list_changed"]


@pytest.mark.system("L-O12")
@pytest.mark.rule("LHTTP-32")
async def test_session_id_appears_in_no_log_repr_or_error(caplog):
    caplog.set_level(logging.DEBUG)
    trace_events = []
    with scripted_mcp() as server:
        server.on["tools/call"] = answering(reply(500, b"oh"))
        async with mcpwire.Client(
            server.url, trace=lambda *event: trace_events.append(event)
        ) as client:
            secret = client.session_id
            assert secret
            with pytest.raises(mcpwire.HTTPError) as raised:
                await client.call_tool("echo", {"text": "x"})
            shown = [repr(client), str(client), str(raised.value), caplog.text]
        heads = [
            data for event, data in trace_events if event in {"request", "response"}
        ]
        assert any("mcp-session-id: ***" in head for head in heads)
        assert not [text for text in (*shown, *heads) if secret in text]
