"""The bridge from httpx to an ASGI application streams, and shuts down cleanly."""

import asyncio

import httpx
import pytest

import mcpwire
from mcpwire.testing import AsgiTransport, VirtualClockLoop

BOUND_S = 30.0
URL = "http://localhost/mcp"
START = {"type": "http.response.start", "status": 200, "headers": []}


def body(data=b"", *, more=False):
    return {"type": "http.response.body", "body": data, "more_body": more}


class App:
    """An application of one function; it records scopes and lifespan events."""

    def __init__(self, answer):
        self.answer = answer
        self.scopes = []
        self.life = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.live(scope, receive, send)
        else:
            self.scopes.append(scope)
            await self.answer(scope, receive, send)

    async def live(self, scope, receive, send):
        self.life.append((await receive())["type"])
        scope["state"]["made"] = "once"
        await send({"type": "lifespan.startup.complete"})
        self.life.append((await receive())["type"])
        await send({"type": "lifespan.shutdown.complete"})


def client_of(answer, **options):
    app = answer if isinstance(answer, App) else App(answer)
    transport = AsgiTransport(app, **options)
    return httpx.AsyncClient(transport=transport, timeout=BOUND_S)


async def echo(scope, receive, send):
    del scope
    read = b""
    while True:
        event = await receive()
        read += event["body"]
        if not event["more_body"]:
            break
    await send({**START, "headers": [(b"x-read", b"%d" % len(read))]})
    await send(body(read))


async def test_request_gets_status_headers_and_body():
    app = App(echo)
    async with client_of(app, root_path="/mcp") as client:
        response = await client.post(f"{URL}/a%20b?c=d", content=b"hi")
    assert (response.status_code, response.content) == (200, b"hi")
    assert response.headers["x-read"] == "2"
    (scope,) = app.scopes
    assert (scope["path"], scope["raw_path"]) == ("/mcp/a b", b"/mcp/a%20b")
    assert (scope["query_string"], scope["root_path"]) == (b"c=d", "/mcp")
    assert (scope["scheme"], scope["server"]) == ("http", ("localhost", 80))
    assert (b"host", b"localhost") in scope["headers"]


async def test_request_body_may_be_chunked():
    async def parts():
        yield b"a"
        yield b""
        yield b"b"

    async with client_of(echo) as client:
        assert (await client.post(URL, content=parts())).content == b"ab"
        assert (await client.get(URL)).content == b""


async def test_chunks_arrive_while_the_application_runs():
    proceed = asyncio.Event()

    async def slowly(_scope, _receive, send):
        await send(START)
        await proceed.wait()
        for data in (b"one", b"two"):
            proceed.clear()
            await send(body(data, more=True))
            await proceed.wait()
        await send(body())

    async with client_of(slowly) as client, client.stream("GET", URL) as response:
        chunks = []
        assert response.status_code == 200
        proceed.set()
        async for chunk in response.aiter_raw():
            chunks.append(chunk)
            proceed.set()
        assert chunks == [b"one", b"two"]


async def test_closed_response_disconnects_the_application():
    events = asyncio.Queue()

    async def stream_until_error(_scope, receive, send):
        await receive()
        await send(START)
        await send(body(b"x", more=True))
        events.put_nowait((await receive())["type"])
        try:
            await send(body(b"y", more=True))
        except OSError as error:
            events.put_nowait(error)

    async with client_of(stream_until_error) as client:
        async with client.stream("GET", URL) as response:
            async for _ in response.aiter_raw():
                break
        assert await events.get() == "http.disconnect"
        assert isinstance(await events.get(), OSError)


async def test_cancelled_request_disconnects_the_application():
    started, events = asyncio.Event(), asyncio.Queue()

    async def silent(_scope, receive, _send):
        await receive()
        started.set()
        events.put_nowait((await receive())["type"])

    async with client_of(silent) as client:
        request = asyncio.ensure_future(client.get(URL))
        await started.wait()
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        assert await events.get() == "http.disconnect"


async def test_receive_after_the_response_is_a_disconnect():
    events = []

    async def respond(_scope, receive, send):
        await receive()
        await send(START)
        await send(body(b"x"))
        events.append((await receive())["type"])

    async with client_of(respond) as client:
        assert (await client.get(URL)).content == b"x"
    assert events == ["http.disconnect"]


async def test_send_blocks_while_the_client_does_not_read():
    sent = []

    async def flood(_scope, _receive, send):
        await send(START)
        for _ in range(8):
            await send(body(b"x" * 65_537, more=True))
            sent.append(1)
        await send(body())

    async with client_of(flood) as client, client.stream("GET", URL) as response:
        for _ in range(20):
            await asyncio.sleep(0)  # iterations in which it could continue
        assert sent == []
        assert len(await response.aread()) == 8 * 65_537


async def test_failing_application_is_a_500_and_is_logged(caplog):
    async def broken(_scope, _receive, _send):
        raise ValueError("no such luck")

    async def nothing(_scope, _receive, _send):
        return

    for app in (broken, nothing):
        async with client_of(app) as client:
            assert (await client.get(URL)).status_code == 500
    assert "no such luck" in caplog.text
    assert "without an answer" in caplog.text


async def test_incomplete_response_is_a_protocol_error(caplog):
    async def half(_scope, _receive, send):
        await send(START)
        await send(body(b"x", more=True))
        raise ValueError("half way")

    async with client_of(half) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await client.get(URL)
    assert "half way" in caplog.text


async def test_invalid_event_order_raises_in_the_application():
    refused = []

    async def send_twice(_scope, _receive, send):
        for event in (body(), START, START, body(), body()):
            try:
                await send(event)
            except RuntimeError as error:
                refused.append(str(error))

    async with client_of(send_twice) as client:
        assert (await client.get(URL)).status_code == 200
    assert len(refused) == 3


@pytest.mark.parametrize(("verb", "status"), [("HEAD", 200), ("GET", 204)])
async def test_head_and_204_responses_have_no_body(verb, status):
    async def send_body(_scope, _receive, send):
        await send({**START, "status": status})
        await send(body(b"too much"))

    async with client_of(send_body) as client:
        assert (await client.request(verb, URL)).content == b""


async def test_read_timeout_applies():
    async def silent(_scope, receive, _send):
        await receive()
        await receive()

    async with client_of(silent) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(URL, timeout=0.01)


async def test_closing_cancels_running_requests(monkeypatch):
    monkeypatch.setattr("mcpwire.testing.asgi.GRACE_S", 0.01)
    ended = []

    async def never_finish(_scope, _receive, send):
        await send(START)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    client = client_of(never_finish)
    await client.send(client.build_request("GET", URL), stream=True)
    await client.aclose()
    assert ended == [1]


async def test_lifespan_starts_once_and_ends_with_the_client():
    app = App(echo)
    async with client_of(app) as client:
        assert app.life == ["lifespan.startup"]
        await asyncio.gather(*(client.get(URL) for _ in range(3)))
    assert app.life == ["lifespan.startup", "lifespan.shutdown"]
    assert [scope["state"] for scope in app.scopes] == [{"made": "once"}] * 3


async def test_first_request_starts_the_lifespan_without_async_with():
    app = App(echo)
    client = client_of(app)
    assert app.life == []
    await client.get(URL)
    await client.aclose()
    assert app.life == ["lifespan.startup", "lifespan.shutdown"]
    async with client_of(app, lifespan=False) as client:
        await client.get(URL)
    assert len(app.life) == 2


async def test_application_without_lifespan_support_works():
    async def plain(scope, receive, send):
        if scope["type"] != "http":
            raise RuntimeError("what is that?")
        await echo(scope, receive, send)

    transport = AsgiTransport(plain)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.post(URL, content=b"x")).content == b"x"


async def test_failed_startup_raises_with_its_message():
    async def fail_startup(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no paper"})

    transport = AsgiTransport(fail_startup)
    with pytest.raises(RuntimeError, match="no paper"):
        async with httpx.AsyncClient(transport=transport):
            pass
    await transport.aclose()


async def test_failed_shutdown_is_logged(caplog):
    async def fail_shutdown(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "paper jam"})

    async with httpx.AsyncClient(transport=AsgiTransport(fail_shutdown)):
        pass
    assert "paper jam" in caplog.text


async def test_hanging_shutdown_is_cancelled(monkeypatch):
    monkeypatch.setattr("mcpwire.testing.asgi.SHUTDOWN_TIMEOUT_S", 0.01)
    ended = []

    async def never_shut_down(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    async with httpx.AsyncClient(transport=AsgiTransport(never_shut_down)):
        pass
    assert ended == [1]


async def test_closing_an_unused_transport_does_nothing():
    app = App(echo)
    await AsgiTransport(app).aclose()
    assert app.life == []


async def test_cancelled_startup_is_not_reported_as_an_error():
    started = asyncio.Event()

    async def slow(_scope, _receive, _send):
        started.set()
        await asyncio.Event().wait()

    transport = AsgiTransport(slow)
    entering = asyncio.ensure_future(transport.__aenter__())
    await started.wait()
    entering.cancel()
    await asyncio.wait([entering])
    await transport.aclose()
    assert entering.cancelled()


# MCP...


def test_virtual_clock_skips_hours_of_idle_time():
    server = mcpwire.Server("demo")

    @server.tool
    async def slow() -> str:
        await asyncio.sleep(600)
        return "at last"

    async def main():
        app = server.asgi(session_idle=1_800)
        async with (
            httpx.AsyncClient(transport=AsgiTransport(app)) as http_client,
            mcpwire.Client(
                # A session with an open stream is not idle.
                mcpwire.Http(URL, http_client=http_client, server_stream="never"),
                mode="session",
                timeout=900,
            ) as client,
        ):
            assert (await client.call_tool("slow")).text == "at last"
            session = client.session_id
            await asyncio.sleep(3_600)
            await client.ping()
            assert client.session_id != session

    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        runner.run(main())
