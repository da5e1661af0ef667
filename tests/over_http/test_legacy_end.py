"""HTTP+SSE: how a connection ends, by the server, by the client or in between."""

import asyncio
import os

import pytest
from engines import eventually, until
from http_bytes import reply
from legacy_channels import BOUND_S, QUICK, Recorder, failure, legacy, opened, tool_text
from legacy_server import legacy_server

from mcpwire.errors import ConnectionClosed, TransportError
from mcpwire.transports.http import legacy_sse
from mcpwire.transports.http.direct import DirectEngine
from mcpwire.transports.http.legacy_sse import LegacyChannel
from mcpwire.transports.http.target import Http


def silent(_, conn):
    conn.send(reply(202))
    return True


def calls_seen(server):
    return sum(request.method == "tools/call" for request in server.requests)


@pytest.mark.fault("F21", "F22")
@pytest.mark.parametrize("how", [{}, {"clean": False}, {"reset": True}])
async def test_end_of_the_stream_fails_every_call(engine, how):
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = silent
        calls = [client.tool() for _ in range(5)]
        await until(server, lambda: calls_seen(server) == 5)
        server.close_streams(**how)
        for call in calls:
            error = await failure(call)
            assert isinstance(error, ConnectionClosed)
            assert error.sent
            assert "stream" in str(error)
            assert error.target == server.url
        assert [str(loss) for loss in client.inbound.losses] == [
            str(client.channel.lost)
        ]
        late = await failure(client.begin("ping"))
        assert isinstance(late, ConnectionClosed)
        assert not late.sent
        with pytest.raises(ConnectionClosed):
            await client.ready()


async def test_call_not_posted_before_the_end_of_the_stream_is_unsent(engine, gate):
    async with legacy(engine) as (server, client):
        server.on["notifications/initialized"] = lambda _, conn: conn.wait_for(gate)
        server.on["ping"] = silent
        await client.ready()
        first = client.begin("ping")
        await until(server, lambda: len(server.requests) == 2)
        await client.notify("notifications/initialized")
        await until(server, lambda: len(server.requests) == 3)
        unsent = client.tool()
        await eventually(lambda: client.channel.requests_sent == 2)
        server.close_streams()
        error = await failure(unsent)
        assert isinstance(error, ConnectionClosed)
        assert not error.sent
        assert "stream" in str(error)
        assert (await failure(first)).sent
        assert calls_seen(server) == 0


async def test_messages_just_before_the_end_of_the_stream_are_delivered(engine):
    text = "x" * 2**20

    def answer_and_end(request, conn):
        conn.send(reply(202))
        for _ in range(3):
            server.push({"method": "notifications/message", "params": {"data": text}})
        content = [{"type": "text", "text": text}]
        server.push({"id": request.json["id"], "result": {"content": content}})
        server.close_streams()
        return True

    async with legacy(engine) as (server, client):
        server.on["tools/call"] = answer_and_end
        assert await tool_text(client.tool()) == text
        assert len(client.inbound.notes) == 3


async def test_closing_ends_calls_and_streams_and_is_idempotent(engine):
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = silent
        call = client.tool()
        await until(server, lambda: calls_seen(server) == 1)
        await client.aclose()
        error = await failure(call)
        assert isinstance(error, ConnectionClosed)
        assert "by this side" in str(error)
        await until(server, lambda: not server.streams)
        await client.aclose()
        assert client.inbound.losses == []
        with pytest.raises(ConnectionClosed, match="by this side"):
            await client.ready()
        assert isinstance(await failure(client.begin("ping")), ConnectionClosed)


async def test_no_message_is_sent_after_closing(engine):
    async with legacy(engine) as (server, client):
        await client.ready()
        await client.aclose()
        for headers in (None, {"X-Who": "me"}):
            with pytest.raises(ConnectionClosed) as caught:
                await client.notify("notifications/initialized", headers=headers)
            assert not caught.value.sent
            assert not (await failure(client.begin("ping", headers=headers))).sent
        assert len(server.requests) == 1


async def test_closing_does_not_wait_for_a_silent_server(engine, monkeypatch):
    monkeypatch.setattr(legacy_sse, "CLOSE_TIMEOUT_S", 4 * BOUND_S)
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_closed(4 * BOUND_S) or True
        async with opened(server.url, engine) as client:
            call = client.begin("ping")
            await until(server, lambda: server.requests)
            await client.aclose()
            error = await failure(call)
            assert isinstance(error, ConnectionClosed)


async def test_closing_ends_a_pending_ready(engine):
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_closed(BOUND_S) or True
        async with opened(server.url, engine) as client:
            waiting = asyncio.create_task(client.ready())
            await until(server, lambda: server.requests)
            await client.aclose()
            with pytest.raises(ConnectionClosed):
                await waiting


async def test_give_up_fails_calls_and_reports_the_loss(engine):
    async with legacy(engine) as (server, client):
        server.on["tools/call"] = silent
        call = client.tool()
        await until(server, lambda: calls_seen(server) == 1)
        client.give_up(TransportError("it is deaf"))
        assert "it is deaf" in str(await failure(call))
        assert len(client.inbound.losses) == 1
        await client.aclose()
        await until(server, lambda: not server.streams)


async def test_abandon_closes_the_stream_at_once(engine):
    async with legacy(engine) as (server, client):
        await client.ready()
        assert await client.call("ping") == {}
        client.abandon()
        await until(server, lambda: not server.streams)


@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_forked_process_refuses_use_and_closes_its_sockets(engine):
    async with legacy(engine) as (server, client):
        assert await client.call("ping") == {}
        here, there = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 0 if client.channel.lost is not None else 1
            os.close(there)
            os.read(here, 1)  # lives until the parent has finished
            os._exit(code)
        assert await client.call("ping") == {}
        assert server.streams
        await client.aclose()
        # A copy of the socket in the child would keep the stream open.
        await until(server, lambda: not server.streams)
        os.close(there)
        os.close(here)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert status == 0


def test_abandon_after_the_loop_ended_closes_the_stream():
    async def forget(url):
        target = Http(url)
        engine = DirectEngine(target, QUICK)
        channel = LegacyChannel(target, engine, Recorder())
        await channel.ready()
        return channel

    async def lose(url):
        channel = await forget(url)
        channel.give_up(TransportError("in the loop's last turn"))
        return channel

    with legacy_server() as server:
        for leave in (forget, lose):
            channel = asyncio.run(leave(server.url))
            channel.abandon()
            server.wait_until(lambda: not server.streams)
