"""HTTP+SSE: how a connection ends, by the server, by us, and in between."""

import asyncio
import os
import threading
from concurrent.futures import Future

import pytest
from http_bytes import reply
from legacy_faces import BOUND_S, QUICK, Recorder, failure, opened, said, wait_until
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
def test_the_end_of_the_stream_ends_every_call(engine, how):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = silent
        calls = [face.tool() for _ in range(5)]
        server.wait_until(lambda: calls_seen(server) == 5)
        server.close_streams(**how)
        for call in calls:
            error = failure(call)
            assert isinstance(error, ConnectionClosed)
            assert error.sent
            assert "stream" in str(error)
            assert error.target == server.url
        assert [str(loss) for loss in face.inbound.losses] == [str(face.channel.lost)]
        late = failure(face.begin("ping"))
        assert isinstance(late, ConnectionClosed)
        assert not late.sent
        with pytest.raises(ConnectionClosed):
            face.ready()


def test_what_had_not_left_when_the_stream_ended_did_not_run(engine, gate):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["notifications/initialized"] = lambda _, conn: conn.wait_for(gate)
        server.on["ping"] = silent
        face.ready()
        first = face.begin("ping")
        server.wait_until(lambda: len(server.requests) == 2)
        face.notify("notifications/initialized")
        server.wait_until(lambda: len(server.requests) == 3)
        unsent = face.tool()
        wait_until(lambda: face.channel.requests_sent == 2)
        server.close_streams()
        error = failure(unsent)
        assert isinstance(error, ConnectionClosed)
        assert not error.sent
        assert "stream" in str(error)
        assert failure(first).sent
        assert calls_seen(server) == 0


def test_last_words_are_heard(engine):
    text = "x" * 2**20

    def answer_and_end(request, conn):
        conn.send(reply(202))
        for _ in range(3):
            server.push({"method": "notifications/message", "params": {"data": text}})
        content = [{"type": "text", "text": text}]
        server.push({"id": request.json["id"], "result": {"content": content}})
        server.close_streams()
        return True

    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = answer_and_end
        assert said(face.tool()) == text
        assert len(face.inbound.notes) == 3


def test_closing_ends_calls_and_streams_and_can_be_repeated(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = silent
        call = face.tool()
        server.wait_until(lambda: calls_seen(server) == 1)
        face.close()
        error = failure(call)
        assert isinstance(error, ConnectionClosed)
        assert "by this side" in str(error)
        server.wait_until(lambda: not server.streams)
        face.close()
        assert face.inbound.losses == []
        with pytest.raises(ConnectionClosed, match="by this side"):
            face.ready()
        assert isinstance(failure(face.begin("ping")), ConnectionClosed)


def test_nothing_is_sent_after_the_end(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        face.ready()
        face.close()
        for headers in (None, {"X-Who": "me"}):
            with pytest.raises(ConnectionClosed) as caught:
                face.notify("notifications/initialized", headers=headers)
            assert not caught.value.sent
            assert not failure(face.begin("ping", headers=headers)).sent
        assert len(server.requests) == 1


def test_closing_does_not_wait_for_a_server_that_says_nothing(engine, monkeypatch):
    monkeypatch.setattr(legacy_sse, "CLOSE_TIMEOUT_S", 4 * BOUND_S)
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_closed(4 * BOUND_S) or True
        with opened(server.url, engine) as face:
            call = face.begin("ping")
            server.wait_until(lambda: server.requests)
            face.close()
            error = failure(call)
            assert isinstance(error, ConnectionClosed)


def test_who_waits_for_it_to_be_ready_is_woken_by_its_end(engine):
    with legacy_server() as server:
        server.on["GET"] = lambda _, conn: conn.wait_closed(BOUND_S) or True
        with opened(server.url, engine) as face:
            outcome = Future()

            def wait():
                try:
                    face.ready()
                except ConnectionClosed as error:
                    outcome.set_exception(error)

            waiting = threading.Thread(target=wait)
            waiting.start()
            server.wait_until(lambda: server.requests)
            face.close()
            assert isinstance(outcome.exception(BOUND_S), ConnectionClosed)
            waiting.join(BOUND_S)


def test_giving_up_counts_as_a_loss(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        server.on["tools/call"] = silent
        call = face.tool()
        server.wait_until(lambda: calls_seen(server) == 1)
        face.give_up(TransportError("it is deaf"))
        assert "it is deaf" in str(failure(call))
        assert len(face.inbound.losses) == 1
        face.close()
        server.wait_until(lambda: not server.streams)


def test_what_is_abandoned_lets_go_at_once(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        face.ready()
        assert face.call("ping") == {}
        face.abandon()
        server.wait_until(lambda: not server.streams)


@pytest.mark.fault("F43")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_refuses_and_lets_go(engine):
    with legacy_server() as server, opened(server.url, engine) as face:
        assert face.call("ping") == {}
        here, there = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 0 if face.channel.lost is not None else 1
            os.close(there)
            os.read(here, 1)  # lives until the parent is through
            os._exit(code)
        assert face.call("ping") == {}
        assert server.streams
        face.close()
        # A copy of the socket in the child would keep the stream open.
        server.wait_until(lambda: not server.streams)
        os.close(there)
        os.close(here)
        assert os.waitpid(pid, 0)[1] == 0


def test_a_loop_that_ends_first_leaves_nothing():
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
