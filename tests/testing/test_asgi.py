"""The bridge from httpx to an ASGI application holds nothing back, and ends cleanly."""

import asyncio

import httpx
import pytest

from mcpwire.testing import AsgiTransport

BOUND_S = 30.0
URL = "http://localhost/mcp"
START = {"type": "http.response.start", "status": 200, "headers": []}


def body(data=b"", *, more=False):
    return {"type": "http.response.body", "body": data, "more_body": more}


class App:
    """An application of one function; it keeps what it saw."""

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


async def test_a_request_is_answered_with_its_head_and_body():
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


async def test_a_body_may_come_in_parts():
    async def parts():
        yield b"a"
        yield b""
        yield b"b"

    async with client_of(echo) as client:
        assert (await client.post(URL, content=parts())).content == b"ab"
        assert (await client.get(URL)).content == b""


async def test_what_is_sent_arrives_while_the_application_runs():
    go_on = asyncio.Event()

    async def slowly(_scope, _receive, send):
        await send(START)
        await go_on.wait()
        for data in (b"one", b"two"):
            go_on.clear()
            await send(body(data, more=True))
            await go_on.wait()
        await send(body())

    async with client_of(slowly) as client, client.stream("GET", URL) as response:
        seen = []
        assert response.status_code == 200
        go_on.set()
        async for chunk in response.aiter_raw():
            seen.append(chunk)
            go_on.set()
        assert seen == [b"one", b"two"]


async def test_the_application_hears_that_the_client_left_and_may_send_no_more():
    told = asyncio.Queue()

    async def endless(_scope, receive, send):
        await receive()
        await send(START)
        await send(body(b"x", more=True))
        told.put_nowait((await receive())["type"])
        try:
            await send(body(b"y", more=True))
        except OSError as error:
            told.put_nowait(error)

    async with client_of(endless) as client:
        async with client.stream("GET", URL) as response:
            async for _ in response.aiter_raw():
                break
        assert await told.get() == "http.disconnect"
        assert isinstance(await told.get(), OSError)


async def test_the_application_hears_that_a_request_was_cancelled_before_its_answer():
    began, told = asyncio.Event(), asyncio.Queue()

    async def silent(_scope, receive, _send):
        await receive()
        began.set()
        told.put_nowait((await receive())["type"])

    async with client_of(silent) as client:
        asking = asyncio.ensure_future(client.get(URL))
        await began.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert await told.get() == "http.disconnect"


async def test_the_end_of_an_answer_is_told_as_a_disconnect_too():
    told = []

    async def answers(_scope, receive, send):
        await receive()
        await send(START)
        await send(body(b"x"))
        told.append((await receive())["type"])

    async with client_of(answers) as client:
        assert (await client.get(URL)).content == b"x"
    assert told == ["http.disconnect"]


async def test_an_application_waits_for_a_client_that_does_not_read():
    sent = []

    async def flood(_scope, _receive, send):
        await send(START)
        for _ in range(8):
            await send(body(b"x" * 65_537, more=True))
            sent.append(1)
        await send(body())

    async with client_of(flood) as client, client.stream("GET", URL) as response:
        for _ in range(20):
            await asyncio.sleep(0)  # turns in which it could go on
        assert sent == []
        assert len(await response.aread()) == 8 * 65_537


async def test_an_application_that_fails_is_a_500_and_a_line_in_the_log(caplog):
    async def broken(_scope, _receive, _send):
        raise ValueError("no such luck")

    async def nothing(_scope, _receive, _send):
        return

    for app in (broken, nothing):
        async with client_of(app) as client:
            assert (await client.get(URL)).status_code == 500
    assert "no such luck" in caplog.text
    assert "without an answer" in caplog.text


async def test_an_answer_that_breaks_off_is_told_from_one_that_ends(caplog):
    async def half(_scope, _receive, send):
        await send(START)
        await send(body(b"x", more=True))
        raise ValueError("half way")

    async with client_of(half) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await client.get(URL)
    assert "half way" in caplog.text


async def test_what_no_server_takes_is_refused_in_the_application():
    refused = []

    async def twice(_scope, _receive, send):
        for event in (body(), START, START, body(), body()):
            try:
                await send(event)
            except RuntimeError as error:
                refused.append(str(error))

    async with client_of(twice) as client:
        assert (await client.get(URL)).status_code == 200
    assert len(refused) == 3


@pytest.mark.parametrize(("verb", "status"), [("HEAD", 200), ("GET", 204)])
async def test_what_has_no_body_has_none(verb, status):
    async def talks(_scope, _receive, send):
        await send({**START, "status": status})
        await send(body(b"too much"))

    async with client_of(talks) as client:
        assert (await client.request(verb, URL)).content == b""


async def test_a_client_waits_only_as_long_as_it_says():
    async def silent(_scope, receive, _send):
        await receive()
        await receive()

    async with client_of(silent) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(URL, timeout=0.01)


async def test_closing_ends_requests_that_do_not_end_by_themselves(monkeypatch):
    monkeypatch.setattr("mcpwire.testing.asgi.GRACE_S", 0.01)
    ended = []

    async def deaf(_scope, _receive, send):
        await send(START)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    client = client_of(deaf)
    await client.send(client.build_request("GET", URL), stream=True)
    await client.aclose()
    assert ended == [1]


async def test_the_application_is_started_once_and_ended_with_the_client():
    app = App(echo)
    async with client_of(app) as client:
        assert app.life == ["lifespan.startup"]
        await asyncio.gather(*(client.get(URL) for _ in range(3)))
    assert app.life == ["lifespan.startup", "lifespan.shutdown"]
    assert [scope["state"] for scope in app.scopes] == [{"made": "once"}] * 3


async def test_without_async_with_the_first_request_starts_it():
    app = App(echo)
    client = client_of(app)
    assert app.life == []
    await client.get(URL)
    await client.aclose()
    assert app.life == ["lifespan.startup", "lifespan.shutdown"]
    async with client_of(app, lifespan=False) as client:
        await client.get(URL)
    assert len(app.life) == 2


async def test_an_application_without_a_lifespan_needs_none():
    async def plain(scope, receive, send):
        if scope["type"] != "http":
            raise RuntimeError("what is that?")
        await echo(scope, receive, send)

    transport = AsgiTransport(plain)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.post(URL, content=b"x")).content == b"x"


async def test_an_application_that_cannot_start_says_why():
    async def unready(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no paper"})

    transport = AsgiTransport(unready)
    with pytest.raises(RuntimeError, match="no paper"):
        async with httpx.AsyncClient(transport=transport):
            pass
    await transport.aclose()


async def test_an_application_that_cannot_end_says_so_in_the_log(caplog):
    async def stuck(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "paper jam"})

    async with httpx.AsyncClient(transport=AsgiTransport(stuck)):
        pass
    assert "paper jam" in caplog.text


async def test_an_application_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr("mcpwire.testing.asgi.SHUTDOWN_TIMEOUT_S", 0.01)
    ended = []

    async def stays(_scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    async with httpx.AsyncClient(transport=AsgiTransport(stays)):
        pass
    assert ended == [1]


async def test_closing_what_was_never_used_is_nothing():
    app = App(echo)
    await AsgiTransport(app).aclose()
    assert app.life == []


async def test_a_start_that_is_cut_off_is_no_start():
    begun = asyncio.Event()

    async def slow(_scope, _receive, _send):
        begun.set()
        await asyncio.Event().wait()

    transport = AsgiTransport(slow)
    entering = asyncio.ensure_future(transport.__aenter__())
    await begun.wait()
    entering.cancel()
    await asyncio.wait([entering])
    await transport.aclose()
    assert entering.cancelled()
