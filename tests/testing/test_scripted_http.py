"""A scripted client sends its messages to a server over HTTP as well."""

import pytest
from http_bytes import json_reply, reply
from mcp_server import scripted_mcp

import mcpwire
from mcpwire.testing import FaultyStdio, Noise, ScriptedClient, Split

ECHO = {"name": "echo", "arguments": {"text": "hi"}}


@pytest.mark.parametrize("replies", ["json", "sse"])
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_handshake_and_request_in_each_era(era, replies):
    """The server refuses headers that are invalid at the revision."""
    version = "2025-11-25" if era == "session" else "2026-07-28"
    with scripted_mcp(era, replies=replies) as server:
        async with ScriptedClient(server.url) as client:
            answer = await client.handshake(version)
            assert answer.result["capabilities"]["tools"] is not None
            answer = await client.request("tools/call", ECHO)
            assert answer.result["content"] == [{"type": "text", "text": "hi"}]
            answer = await client.request("no/such")
            assert answer.error["code"] == -32601
    assert ("DELETE" in server.verbs()) == (era == "session")


async def test_target_headers_are_sent_and_any_body_is_received():
    def answers(request, conn):
        conn.send(json_reply({"jsonrpc": "2.0", "id": request.json["id"], "x": [1]}))
        return True

    with scripted_mcp() as server:
        server.on["tools/call"] = answers
        target = mcpwire.Http(server.url, headers={"X-Tenant": "a"})
        async with ScriptedClient(target) as client:
            await client.handshake()
            client.send_bytes(b'{"jsonrpc": "2.0", "id": 7, ')
            client.send_bytes(b'"method": "tools/call"}\n')
            message = await client.receive()
    assert message.raw["x"] == [1]
    assert server.verbs().count("tools/call") == 1
    assert all(request.headers["x-tenant"] == "a" for request in server.requests)


async def test_request_without_a_session_is_sent_and_refused():
    with scripted_mcp(complains=False) as server:
        async with ScriptedClient(server.url) as client:
            client.ask("tools/list", id=1)  # without a session
            message = await client.receive()
            assert message.error["code"] == -32000
            answer = await client.handshake()
            assert answer.result["protocolVersion"] == "2025-11-25"


async def test_server_requests_arrive_on_post_and_get_streams():
    with scripted_mcp() as server:
        sample = {"content": {"type": "text", "text": "well"}}
        async with ScriptedClient(
            server.url, {"sampling/createMessage": lambda _: sample}
        ) as client:
            await client.handshake(capabilities={"sampling": {}})
            for over in ("post", "get"):
                params = {"name": "ask", "arguments": {"over": over}}
                answer = await client.request("tools/call", params)
                assert answer.result["content"] == [{"type": "text", "text": "well"}]


async def test_handshake_with_a_stopped_server_fails():
    with scripted_mcp() as server:
        url = server.url
    async with ScriptedClient(url) as client:
        with pytest.raises(AssertionError, match=r"\(cannot connect to "):
            await client.handshake()


async def test_http_error_of_an_unanswered_request_is_named():
    def refuses(request, conn):
        conn.send(reply(404, b"no such page"))
        return True

    with scripted_mcp() as server:
        server.on["x/y"] = refuses
        async with ScriptedClient(server.url) as client:
            await client.handshake()
            client.ask("x/y")
            await client.receive()  # the body of the response
            with pytest.raises(AssertionError, match=r"noise \(HTTP 404\)"):
                await client.receive(timeout=0.01)


async def test_server_without_a_get_stream_works():
    with scripted_mcp(get_stream=False) as server:
        async with ScriptedClient(server.url) as client:
            await client.handshake()
            answer = await client.request("tools/call", ECHO)
            assert answer.result["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_faulty_stdio_applies_faults_to_an_http_target(era):
    with scripted_mcp(era) as server:
        target = mcpwire.Http(server.url, headers={"X-Tenant": "a"})
        faulty = FaultyStdio(target, [Split(size=7), Noise(message=2)])
        async with mcpwire.Client(faulty) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert client.stats.noise_lines == 1
    assert ("DELETE" in server.verbs()) == (era == "session")
    assert all(request.headers["x-tenant"] == "a" for request in server.requests)


def test_faulty_stdio_refuses_unsupported_targets():
    with pytest.raises(ValueError, match="must be a command line, a Stdio"):
        FaultyStdio(mcpwire.Server("in memory"), [])
    target = mcpwire.Http("http://127.0.0.1:1/", headers=dict)
    with pytest.raises(ValueError, match=r"must be texts, numbers .*\(headers\)"):
        FaultyStdio(target, [])
