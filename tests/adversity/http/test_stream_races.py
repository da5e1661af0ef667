"""Listen streams, the server stream, server requests and progress at bad times."""

import asyncio
import itertools
import time

import pytest
from faulty import (
    ANSWER,
    BOUND_S,
    HANG_S,
    QUICK,
    answer_to,
    answering,
    client_of,
    connected,
    once,
    outcome,
    stream,
    until,
)
from mcp_methods import SAMPLING
from mcp_server import scripted_mcp
from raw_server import LAST_CHUNK, chunk, reply, sse_event, sse_head

import mcpwire


@pytest.mark.fault("F50")
async def test_listen_stream_ends_with_its_era():
    """The server still holds its stream; no event is delivered twice."""
    async with client_of("dual", recovery=QUICK) as (server, client):
        await client.subscribe("memo://one")
        await until(lambda: len(server.streams) == 1)
        old = server.streams[0]
        server.era = "session"
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        assert client.protocol_version == "2025-11-25"
        await until(lambda: old not in server.streams)


@pytest.mark.parametrize(
    ("fault", "is_automatic"),
    [(reply(503, retry_after="0"), False), (reply(500), True), (b"", True)],
)
async def test_listen_is_repeated_after_a_failure(fault, is_automatic):
    with scripted_mcp("stateless") as server:
        server.on["subscriptions/listen"] = once(answering(fault, "close"))
        callback = print if is_automatic else None
        async with connected(
            server, recovery=QUICK, on_notification=callback
        ) as client:
            if not is_automatic:
                await client.subscribe("memo://one")
            await until(lambda: server.streams)


async def test_listen_reopens_after_a_server_restart():
    """The server refuses five requests, then accepts."""
    async with client_of("stateless", recovery=QUICK) as (server, client):
        await client.subscribe("memo://one")
        await until(lambda: server.streams)
        gone = []

        def declines(request, conn):
            gone.append(None)
            return len(gone) <= 5 and answering(reply(503))(request, conn)

        server.on["subscriptions/listen"] = declines
        server.close_streams()
        await until(lambda: len(gone) > 5 and server.streams)


@pytest.mark.parametrize("mode", ["auto", "always", "never"])
@pytest.mark.parametrize("listens", [False, True])
async def test_server_stream_mode_decides_whether_it_opens(mode, listens):
    with scripted_mcp() as server:
        target = mcpwire.Http(server.url, server_stream=mode)
        options = {"on_notification": lambda _: None} if listens else {}
        async with connected(target, **options) as client:
            await client.call_tool("echo")
            is_expected = mode != "never"
            if is_expected:
                await until(lambda: server.streams)
            await client.call_tool("echo")
    assert server.verbs().count("GET") == is_expected


class RequestingServer:
    """Sends a request with id 0 in each session; in the first one after its loss."""

    def __init__(self, server):
        self.server = server
        self.answered_in = []
        self.has_second = False
        server.on["tools/call"] = self.ask
        server.on["answer"] = self.take

    def nudge(self):
        for conn in tuple(self.server.raw.open):
            conn.nudge()

    def ask(self, request, conn):
        session = request.headers["mcp-session-id"]
        if request.json["params"]["name"] != "ask":
            return False
        conn.send(sse_head())
        if session == "session-1":
            conn.wait_while(lambda: not self.has_second, BOUND_S)
        self.has_second = self.has_second or session != "session-1"
        self.nudge()
        conn.send(chunk(sse_event({"jsonrpc": "2.0", "id": 0, **SAMPLING})))
        if session == "session-1":
            conn.wait(0.2)
        else:
            conn.wait_while(lambda: not self.answered_in, BOUND_S)
        answer = answer_to(request, session)
        conn.send(chunk(sse_event(answer)) + LAST_CHUNK)
        return True

    def take(self, request, conn):
        if "result" in request.json:
            self.answered_in.append(request.headers["mcp-session-id"])
            self.nudge()
        conn.send(reply(202))
        return True


async def test_server_requests_with_one_id_in_two_sessions_are_answered():
    """A server restarts its request ids in each session."""

    async def sampling(request):
        await asyncio.sleep(0.1)  # a person thinks
        return ANSWER

    with scripted_mcp() as server:
        requesting = RequestingServer(server)
        options = {"sampling": sampling, "recovery": QUICK}
        async with connected(server, **options) as client:
            late = asyncio.ensure_future(client.call_tool("ask"))
            await until(lambda: "tools/call" in server.verbs())
            server.sessions.clear()
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            new = client.session_id
            assert (await client.call_tool("ask")).text == new
            assert (await late).text == "session-1"
    assert new in requesting.answered_in


async def test_cancelled_call_releases_its_server_request():
    running = []

    async def sampling(request):
        running.append(None)
        await asyncio.sleep(0.3)  # a person thinks
        return ANSWER

    async with client_of(sampling=sampling) as (_server, client):
        call = await client.start_call("ask")
        await until(lambda: running)
        call.cancel()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        channel = client._connection.channel
        await until(lambda: not channel._server_requests)
        await until(lambda: not channel.is_busy)


async def test_progress_on_a_resumed_stream_extends_the_timeout():
    """A loaded machine may fail an attempt: each one has more time."""
    reported = []

    def first(request, conn):
        calls.append(request)
        conn.send(stream(progress(1, "p-1")))
        return True

    def progress(number, id):
        token = calls[0].json["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": number}
        method = "notifications/progress"
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        return sse_event(message, id=id, retry=round(1_000 * timeout / 4))

    def rest(request, conn):
        number = int(request.headers["last-event-id"].removeprefix("p-")) + 1
        events = [progress(number, f"p-{number}")]
        if number == 6:
            events.append(sse_event(answer_to(calls[0], "done")))
        conn.send(stream(*events))
        return True

    calls = []
    async with client_of(
        on={"tools/call": first, "GET": rest},
        server_stream="never",
        reset_timeout_on_progress=True,
    ) as (_server, client):
        for timeout in (0.4, 0.8, 1.6, 4.0):
            calls.clear()
            reported.clear()
            started = time.monotonic()
            result = await outcome(
                client.call_tool(
                    "notify",
                    timeout=timeout,
                    on_progress=lambda *given: reported.append(given[0]),
                )
            )
            if not isinstance(result, mcpwire.RequestTimeout):
                break
        assert result.text == "done"
        assert time.monotonic() - started > timeout
    assert reported == [1, 2, 3, 4, 5, 6]


async def test_cancellation_carries_the_headers_of_its_call():
    async with client_of() as (server, client):
        numbers = itertools.count()
        # A call that a loaded machine has not sent in time sends no cancellation.
        while len(server.executed) < 5:
            calls = [
                outcome(
                    client.call_tool(
                        "slow", timeout=0.2, headers={"X-Tenant": str(next(numbers))}
                    )
                )
                for _ in range(5)
            ]
            for error in await asyncio.gather(*calls):
                assert isinstance(error, mcpwire.RequestTimeout)
        await until(lambda: len(server.cancelled) >= 5)
        server.release()
    tenant = {
        r.json["id"]: r.headers["x-tenant"]
        for r in server.requests
        if r.method == "tools/call"
    }
    for request in server.requests:
        if request.method == "notifications/cancelled":
            id = request.json["params"]["requestId"]
            assert request.headers["x-tenant"] == tenant[id]


BROKEN = {
    "no chunk": b"this is no chunk\r\n",
    "too large": chunk(b"data: " + b"x" * 5000),
    "cut": None,
}


@pytest.mark.pain("P20")
@pytest.mark.parametrize("case", BROKEN)
async def test_server_stream_reopens_after_any_failure(case):
    def breaks(request, conn):
        conn.send(sse_head() + chunk(b": hello\n\n"))
        if BROKEN[case] is None:
            conn.reset()
        else:
            conn.send(BROKEN[case])
            conn.wait_closed(HANG_S)
        return True

    with scripted_mcp() as server:
        server.on["GET"] = once(breaks)
        target = mcpwire.Http(server.url, server_stream="always")
        limits = mcpwire.Limits(message=4096)
        async with connected(target, recovery=QUICK, limits=limits) as client:
            await until(lambda: server.streams)
            assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert client.session_id == "session-1"
    assert server.verbs().count("GET") == 2
