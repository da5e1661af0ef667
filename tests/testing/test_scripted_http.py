"""A scripted client says what its script says to a server over HTTP, too."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))

from http_bytes import json_reply
from mcp_server import scripted_mcp

import mcpwire
from mcpwire.testing import FaultyStdio, Noise, ScriptedClient, Split

ECHO = {"name": "echo", "arguments": {"text": "hi"}}


@pytest.mark.parametrize("replies", ["json", "sse"])
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_it_opens_as_its_revision_does_and_asks(era, replies):
    """The server complains of a head that is not as the revision has it."""
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


async def test_it_sends_the_headers_of_its_target_and_takes_any_body():
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


async def test_what_it_may_not_send_is_sent_and_the_refusal_is_heard():
    with scripted_mcp(complains=False) as server:
        async with ScriptedClient(server.url) as client:
            client.ask("tools/list", id=1)  # there is no session
            message = await client.receive()
            assert message.error["code"] == -32000
            answer = await client.handshake()
            assert answer.result["protocolVersion"] == "2025-11-25"


async def test_the_server_asks_it_on_the_stream_of_a_call_and_on_its_own():
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


async def test_nobody_there_ends_the_connection():
    with scripted_mcp() as server:
        url = server.url
    async with ScriptedClient(url) as client:
        with pytest.raises(AssertionError):
            await client.handshake()


async def test_a_server_without_a_stream_of_its_own_is_as_good():
    with scripted_mcp(get_stream=False) as server:
        async with ScriptedClient(server.url) as client:
            await client.handshake()
            answer = await client.request("tools/call", ECHO)
            assert answer.result["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_faults_stand_before_a_server_over_http_as_well(era):
    with scripted_mcp(era) as server:
        target = mcpwire.Http(server.url, headers={"X-Tenant": "a"})
        faulty = FaultyStdio(target, [Split(size=7), Noise(message=2)])
        async with mcpwire.Client(faulty) as client:
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert client.stats.noise_lines == 1
    assert ("DELETE" in server.verbs()) == (era == "session")
    assert all(request.headers["x-tenant"] == "a" for request in server.requests)


def test_faults_do_not_stand_before_what_is_no_server():
    with pytest.raises(ValueError, match="must be a command line, a Stdio"):
        FaultyStdio(mcpwire.Server("in memory"), [])
    target = mcpwire.Http("http://127.0.0.1:1/", headers=dict)
    with pytest.raises(ValueError, match=r"must be texts, numbers .*\(headers\)"):
        FaultyStdio(target, [])
