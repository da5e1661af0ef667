"""The server stream beside calls: its requests, heartbeats and end."""

import pytest
from faulty import (
    ENGINES,
    ERAS,
    answer_to,
    answering,
    client_of,
    connected,
    stream,
    until,
)
from http_bytes import LAST_CHUNK, chunk, sse_event, sse_head
from mcp_server import scripted_mcp

import mcpwire
from mcpwire.types import CreateMessageResult, TextContent

PAUSE_S = 3_000.0
"""Upper bound of the first pause of these streams, which is random."""

PATIENT = mcpwire.Recovery(backoff_initial=PAUSE_S, backoff_max=PAUSE_S)


def sample(params):
    return CreateMessageResult("assistant", TextContent("old pond"), "a model")


@pytest.mark.system("U21")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("over", ["post", "get"])
@pytest.mark.pain("P29")
async def test_server_may_send_requests_on_either_stream(over, engine):
    with scripted_mcp(replies="sse") as server:
        target = mcpwire.Http(server.url, engine=engine)
        async with connected(target, sampling=sample) as client:
            await until(lambda: server.streams)
            for _ in range(3):
                result = await client.call_tool("ask", {"over": over})
                assert result.text == "old pond"
    assert server.verbs().count("answer") == 3
    assert server.verbs().count("GET") == 1


@pytest.mark.system("O73")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pauses", [False, True])
@pytest.mark.pain("P20", "P21", "P25")
@pytest.mark.usefixtures("patient_close")
async def test_closing_ends_an_open_or_pausing_stream_at_once(pauses, engine):
    with scripted_mcp() as server:
        if pauses:
            server.on["GET"] = answering(stream())
        target = mcpwire.Http(server.url, engine=engine, server_stream="always")
        async with connected(target, recovery=PATIENT) as client:
            await until(lambda: "GET" in server.verbs() if pauses else server.streams)
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.verbs()[-1] == "DELETE"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.pain("P23")
async def test_comments_on_a_call_stream_are_ignored(era, engine):
    """Comments keep proxies from closing the stream; the response comes after many."""

    def beats(request, conn):
        conn.send(sse_head())
        for _ in range(200):
            conn.send(chunk(b": keep-alive\n\n"))
        is_stateless = {"resultType": "complete"} if era == "stateless" else {}
        answer = answer_to(request, "at last", **is_stateless)
        conn.send(chunk(b":\n" + sse_event(answer)) + LAST_CHUNK)
        return True

    async with client_of(era, engine=engine) as (server, client):
        server.on["tools/call"] = beats
        assert (await client.call_tool("echo")).text == "at last"
        assert client.stats.noise_lines == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.attack("X12")
async def test_log_does_not_mention_stdout(engine, caplog):
    """HTTP has no stdout: the invalid message came on an event stream."""

    def chatters(request, conn):
        conn.send(stream(b"data: hello\n\n" + sse_event(answer_to(request))))
        return True

    async with client_of("session", on={"ping": chatters}, engine=engine) as (
        _server,
        client,
    ):
        await client.ping()
    assert "1 line(s) that are not messages, first: 'hello'" in caplog.text
    assert "stdout" not in caplog.text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.pain("P23")
async def test_comments_on_a_listen_stream_are_ignored(engine):
    received = []
    async with client_of(
        "stateless", engine=engine, on_notification=received.append
    ) as (server, client):
        await until(lambda: server.streams)
        conn = server.streams[-1]._conn
        for _ in range(200):
            conn.send(chunk(b": keep-alive\n\n"))
        server.push({"method": "notifications/tools/list_changed"})
        await until(lambda: received)
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert server.verbs().count("subscriptions/listen") == 1
    assert [notification.method for notification in received] == [
        "notifications/tools/list_changed"
    ]
