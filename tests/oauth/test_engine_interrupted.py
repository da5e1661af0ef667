"""Whoever gives up a call in the middle of a login or a refresh spoils nothing."""

from __future__ import annotations

import asyncio
import threading

import pytest
import schedule
from authorization_server import oauth, protected_server

import mcpwire
from mcpwire.transports.oauth import authorizer

pytestmark = [pytest.mark.pain("P31"), pytest.mark.fault("F39")]

BOUND_S = 30.0
SHORT_S = 0.3
"""A third of what everybody else would have waited."""


def slowly(auth, grant_type):
    """Have the server give tokens of that kind, and say so only when it may."""
    given, may_answer = threading.Event(), threading.Event()

    def answer(request):
        if request.form["grant_type"] != grant_type:
            return None
        usual = auth.usual(request)
        given.set()
        request.conn.wait_for(may_answer, BOUND_S)
        return usual

    auth.on["token"] = answer
    return given, may_answer


@pytest.fixture
def server(auth):
    with protected_server(auth) as made:
        yield made


# What a server has given is kept, whoever still wants it.


@pytest.mark.pain("P32")
@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_refresh_that_nobody_waits_for_any_more_is_kept(auth, server, how):
    """The server has spent the old refresh token by then: there is only the new one."""
    target = mcpwire.Http(server.url, auth=oauth())
    async with mcpwire.Client(target) as client:
        auth.expire_all()
        given, may_answer = slowly(auth, "refresh_token")
        if how == "cancelled":
            call = await client.start_call("echo", {"text": "given up"})
            await asyncio.to_thread(given.wait, BOUND_S)
            call.cancel()
        else:
            for seconds in (SHORT_S, 2.0, 8.0):  # the request must get as far as that
                with pytest.raises(mcpwire.RequestTimeout):
                    await client.call_tool("echo", {"text": "late"}, timeout=seconds)
                if given.is_set():
                    break
        assert given.is_set()
        may_answer.set()
        assert (await client.call_tool("echo", {"text": "on"})).text == "on"
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert auth.reuses == 0


@pytest.mark.pain("P32")
async def test_closing_waits_a_moment_for_what_a_server_has_given(
    auth, server, monkeypatch
):
    monkeypatch.setattr(authorizer, "SETTLE_TIMEOUT_S", BOUND_S)
    grant = oauth()
    target = mcpwire.Http(server.url, auth=grant)
    async with mcpwire.Client(target) as client:
        auth.expire_all()
        given, may_answer = slowly(auth, "refresh_token")
        call = await client.start_call("echo", {"text": "given up"})
        await asyncio.to_thread(given.wait, BOUND_S)
        threading.Timer(SHORT_S, may_answer.set).start()
    with pytest.raises(mcpwire.MCPError):
        await call
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("echo", {"text": "on"})).text == "on"
    assert auth.grants == ["authorization_code", "refresh_token"]


async def test_closing_waits_no_longer_than_that(auth, server, monkeypatch):
    monkeypatch.setattr(authorizer, "SETTLE_TIMEOUT_S", SHORT_S)
    target = mcpwire.Http(server.url, auth=oauth())
    async with mcpwire.Client(target) as client:
        auth.expire_all()
        given, may_answer = slowly(auth, "refresh_token")
        call = await client.start_call("echo", {"text": "given up"})
        await asyncio.to_thread(given.wait, BOUND_S)
    assert not may_answer.is_set()
    may_answer.set()
    with pytest.raises(mcpwire.MCPError):
        await call


async def test_the_others_get_the_token_of_whoever_gave_up(auth, server):
    target = mcpwire.Http(server.url, auth=oauth())
    async with mcpwire.Client(target) as client:
        auth.expire_all()
        given, may_answer = slowly(auth, "refresh_token")
        first = await client.start_call("echo", {"text": "first"})
        await asyncio.to_thread(given.wait, BOUND_S)
        other = asyncio.create_task(client.call_tool("echo", {"text": "other"}))
        await asyncio.to_thread(
            server.wait_until, lambda: server.verbs().count("tools/call") == 2
        )
        first.cancel()
        may_answer.set()
        assert (await other).text == "other"
    assert auth.grants == ["authorization_code", "refresh_token"]


# Closing.


async def test_closing_ends_a_login_at_once(auth, server):
    asked = threading.Event()
    server.is_open = True
    grant = mcpwire.OAuth(
        storage=mcpwire.MemoryStorage(), open_browser=lambda url: asked.set()
    )
    async with mcpwire.Client(mcpwire.Http(server.url, auth=grant)) as client:
        server.is_open = False
        call = await client.start_call("echo", {"text": "hi"})
        await asyncio.to_thread(asked.wait, BOUND_S)
    with pytest.raises(mcpwire.MCPError):
        await call


async def test_closing_ends_a_login_that_a_function_asks_for(auth, server):
    asked, answered, ended = (threading.Event() for _ in range(3))

    async def never(url):
        asked.set()
        try:
            await asyncio.to_thread(answered.wait, BOUND_S)
        finally:
            ended.set()
        return url

    server.is_open = True
    target = mcpwire.Http(server.url, auth=oauth(ask=never))
    async with mcpwire.Client(target) as client:
        server.is_open = False
        call = await client.start_call("echo", {"text": "hi"})
        await asyncio.to_thread(asked.wait, BOUND_S)
    answered.set()
    with pytest.raises(mcpwire.MCPError):
        await call
    await asyncio.to_thread(ended.wait, BOUND_S)  # the function is the test's own


# At any moment.


STRIDES = {"refresh": 3, "login": 11}
"""All moments would take too long."""


async def connected(server, **options):
    client = mcpwire.Client(mcpwire.Http(server.url, auth=oauth(), **options))
    await client.connect()
    return client


@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("what", STRIDES)
async def test_a_call_is_cancelled_at_any_moment_of_a_refresh_or_login(
    auth, stateless, monkeypatch, engine, what
):
    client = await connected(stateless, engine=engine)
    ends = auth.expire_all if what == "refresh" else auth.forget_all

    async def once(made):
        ends()
        await made.run(lambda: client.call_tool("echo", {"text": "victim"}))
        assert (await client.call_tool("echo", {"text": "on"})).text == "on"

    moment, fired = 0, True
    while fired:
        moment += STRIDES[what]
        made = schedule.Schedule(moment, moment % 2, monkeypatch)
        await once(made)
        fired = made.fired
    await client.aclose()
    assert moment > 15
    if what == "refresh":
        assert (auth.reuses, len(auth.authorizations)) == (0, 1)


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_connect_is_cancelled_at_any_moment_of_a_login(auth, monkeypatch, era):
    with protected_server(auth, era=era) as server:
        moment, fired = 0, True
        while fired:
            moment += 13
            made = schedule.Schedule(moment, moment % 3, monkeypatch)
            client = mcpwire.Client(mcpwire.Http(server.url, auth=oauth()))
            await made.run(client.connect)
            await client.connect()
            assert await client.list_tools()
            await client.aclose()
            fired = made.fired
        assert moment > 30
