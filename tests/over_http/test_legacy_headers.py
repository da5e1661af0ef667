"""HTTP+SSE: the headers of requests, per target and per message."""

import pytest
from engines import until
from legacy_channels import INITIALIZE, Recorder, failure, legacy, tool_text

from mcpwire.errors import LocalProtocolError
from mcpwire.limits import Limits

pytestmark = pytest.mark.grounds(1, "engine")


def posts(server):
    return [request for request in server.requests if request.verb == "POST"]


@pytest.mark.pain("P27")
async def test_header_function_is_called_for_every_request(engine):
    names = iter("abcdef")

    async def async_headers():
        return {"X-Name": next(names)}

    for headers in (lambda: {"X-Name": next(names)}, async_headers):
        async with legacy(engine, headers=headers) as (server, client):
            await client.call("ping")
            await client.notify("notifications/initialized")
            await until(server, lambda: len(server.requests) == 3)
            names_sent = [request.headers["x-name"] for request in server.requests]
        assert names_sent in (["a", "b", "c"], ["d", "e", "f"])


@pytest.mark.pain("P27")
async def test_message_headers_override_the_target_headers(engine):
    headers = {"X-Who": "all", "X-Also": "1"}
    async with legacy(engine, headers=headers) as (server, client):
        assert await tool_text(client.tool("a", headers={"X-Who": "a"})) == "a"
        assert await client.call("ping", headers={"X-Who": "b"}) == {}
        assert await client.call("ping") == {}
        await client.notify("notifications/initialized", headers={"X-Who": "c"})
        await client.notify("notifications/initialized")
        cancelled = {"requestId": 77}
        await client.notify(
            "notifications/cancelled", cancelled, headers={"X-Who": "d"}
        )
        await until(server, lambda: len(posts(server)) == 6)
        values = [request.headers["x-who"] for request in server.requests]
        assert values == ["all", "a", "b", "all", "c", "all", "d"]
        assert {request.headers["x-also"] for request in server.requests} == {"1"}
        assert "params" not in server.requests[2].json


async def test_headers_of_a_notification_are_not_sent_with_an_answer(engine):
    async with legacy(engine, inbound=Recorder({"ping": {}})) as (server, client):
        await client.call("initialize", INITIALIZE)
        await client.notify("notifications/initialized", headers={"X-Who": "me"})
        server.push({"method": "ping", "id": "a"})
        await until(server, lambda: server.answered)
        values = [request.headers.get("x-who") for request in posts(server)]
        assert values == [None, "me", None]


@pytest.mark.parametrize("name", ["X\nY", "X Y", ""])
async def test_invalid_message_header_is_refused_and_not_sent(engine, name):
    async with legacy(engine) as (server, client):
        await client.ready()
        with pytest.raises(LocalProtocolError):
            await client.call("ping", headers={name: "x"})
        with pytest.raises(LocalProtocolError):
            await client.notify("notifications/initialized", headers={name: "x"})
        assert await client.call("ping") == {}
        assert len(posts(server)) == 1


@pytest.mark.pain("P27")
async def test_headers_of_concurrent_calls_do_not_mix(engine):
    async with legacy(engine) as (server, client):
        calls = [client.tool(str(n), headers={"X-Who": str(n)}) for n in range(40)]
        assert [await tool_text(call) for call in calls] == [str(n) for n in range(40)]
        for request in posts(server):
            text = request.json["params"]["arguments"]["text"]
            assert request.headers["x-who"] == text


@pytest.mark.pain("P27")
async def test_headers_of_an_unsent_message_are_not_used_for_others(engine):
    async with legacy(engine) as (server, client):
        await client.ready()
        bad = {"name": "x", "arguments": {"x": object()}}
        with pytest.raises(LocalProtocolError):
            await client.call("tools/call", bad, headers={"X-Who": "me"})
        with pytest.raises(LocalProtocolError):
            await client.notify(
                "notifications/initialized", bad, headers={"X-Who": "me"}
            )
        assert await client.call("ping") == {}
        await client.notify("notifications/initialized")
        await until(server, lambda: len(posts(server)) == 2)
        assert not [
            request for request in server.requests if "x-who" in request.headers
        ]


@pytest.mark.pain("P27")
async def test_error_of_the_header_function_fails_only_its_call(engine):
    class NoToken(Exception):
        pass

    tokens = [{}, NoToken("a"), {}]

    def headers():
        token = tokens.pop(0)
        if isinstance(token, Exception):
            raise token
        return token

    async with legacy(engine, headers=headers) as (server, client):
        await client.ready()
        assert isinstance(await failure(client.begin("ping")), NoToken)
        assert await client.call("ping") == {}
        assert len(posts(server)) == 1


async def test_message_without_headers_is_not_counted_as_unwritten(engine):
    failures = iter([None, *[ZeroDivisionError()] * 3])

    def headers():
        error = next(failures, None)
        if error is not None:
            raise error
        return {}

    limits = Limits(unwritten=10_000, close_grace=0.5, terminate_grace=0.5)
    async with legacy(engine, limits=limits, headers=headers) as (_server, client):
        await client.ready()
        for _ in range(3):
            error = await failure(client.tool("x" * 9_000))
            assert isinstance(error, ZeroDivisionError), error
        assert len(await tool_text(client.tool("x" * 9_000))) == 9_000


async def test_first_error_of_the_header_function_is_raised_by_ready(engine):
    def headers():
        raise ZeroDivisionError

    async with legacy(engine, headers=headers) as (server, client):
        with pytest.raises(ZeroDivisionError):
            await client.ready()
        assert server.requests == []
