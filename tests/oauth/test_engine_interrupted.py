"""A call that is given up during a login or a refresh breaks nothing."""

import asyncio
import contextlib
import threading

import pytest
import schedule
from authorization_server import browse, oauth, protected_server
from engine_calls import connected, echo

import mcpwire
from mcpwire.transports.http import streamable
from mcpwire.transports.oauth import authorizer

pytestmark = [pytest.mark.pain("P31"), pytest.mark.fault("F39")]

BOUND_S = 30.0
SHORT_S = 0.3
"""A short timeout: a third of a second."""


def hold_refresh_response(auth):
    """Have the server refresh the tokens, and hold its response back."""
    given, may_answer = threading.Event(), threading.Event()

    def answer(request):
        if request.form["grant_type"] != "refresh_token":
            return None
        usual = auth.usual(request)
        given.set()
        request.conn.wait_for(may_answer, BOUND_S)
        return usual

    auth.on["token"] = answer
    return given, may_answer


async def start_held_call(auth, client):
    """Start a call whose refresh response is held back; return both."""
    auth.expire_all()
    given, may_answer = hold_refresh_response(auth)
    call = await client.start_call("echo", {"text": "given up"})
    await asyncio.to_thread(given.wait, BOUND_S)
    return call, may_answer


# Tokens that the server has issued are kept, also when their call was given up.


@pytest.mark.pain("P32")
@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_refresh_is_kept_after_its_call_is_given_up(auth, session, how):
    """The server has spent the old refresh token by then: there is only the new one."""
    async with connected(session) as client:
        auth.expire_all()
        given, may_answer = hold_refresh_response(auth)
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
        await echo(client, "on")
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert auth.reuses == 0


@pytest.mark.pain("P32")
async def test_closing_waits_for_a_pending_token_response(auth, session, monkeypatch):
    monkeypatch.setattr(authorizer, "SETTLE_TIMEOUT_S", BOUND_S)
    grant = oauth()
    target = mcpwire.Http(session.url, auth=grant)
    async with mcpwire.Client(target) as client:
        call, may_answer = await start_held_call(auth, client)
        threading.Timer(SHORT_S, may_answer.set).start()
    with pytest.raises(mcpwire.MCPError):
        await call
    async with mcpwire.Client(target) as client:
        await echo(client, "on")
    assert auth.grants == ["authorization_code", "refresh_token"]


async def test_closing_waits_at_most_the_settle_timeout(auth, session, monkeypatch):
    monkeypatch.setattr(authorizer, "SETTLE_TIMEOUT_S", SHORT_S)
    async with connected(session) as client:
        call, may_answer = await start_held_call(auth, client)
    assert not may_answer.is_set()
    may_answer.set()
    with pytest.raises(mcpwire.MCPError):
        await call


async def test_other_calls_get_the_token_of_a_cancelled_call(auth, session):
    async with connected(session) as client:
        first, may_answer = await start_held_call(auth, client)
        other = asyncio.create_task(client.call_tool("echo", {"text": "other"}))
        await asyncio.to_thread(
            session.wait_until, lambda: session.verbs().count("tools/call") == 2
        )
        first.cancel()
        may_answer.set()
        assert (await other).text == "other"
    assert auth.grants == ["authorization_code", "refresh_token"]


async def test_a_cancelled_task_may_join_a_cancelled_login(auth, stateless):
    """Code that cleans up after a cancellation may call tools: it is not cancelled."""
    logins = []
    asked, may_end = asyncio.Event(), asyncio.Event()

    async def ask(url):
        logins.append(url)
        if len(logins) == 1:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                await may_end.wait()
        return await asyncio.to_thread(browse, url)

    async def clean_up():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return (await client.call_tool("echo", {"text": "cleaned"})).text

    stateless.is_open = True
    async with connected(stateless, oauth(ask=ask)) as client:
        stateless.is_open = False
        calls = [asyncio.create_task(client.call_tool("echo", {"text": "given up"}))]
        await asked.wait()
        calls += [asyncio.create_task(clean_up())]
        for call in calls:
            await asyncio.sleep(SHORT_S)
            call.cancel()
        await asyncio.sleep(SHORT_S)
        may_end.set()
        assert await calls[1] == "cleaned"
    assert len(logins) == 2


async def test_closing_ends_a_login_at_once(auth, session):
    browser_opened = threading.Event()
    session.is_open = True
    grant = mcpwire.OAuth(
        storage=mcpwire.MemoryStorage(), open_browser=lambda url: browser_opened.set()
    )
    async with mcpwire.Client(mcpwire.Http(session.url, auth=grant)) as client:
        session.is_open = False
        call = await client.start_call("echo", {"text": "hi"})
        await asyncio.to_thread(browser_opened.wait, BOUND_S)
    with pytest.raises(mcpwire.MCPError):
        await call


async def test_closing_does_not_wait_for_a_function_for_headers(
    auth, stateless, monkeypatch
):
    """No login runs, so nothing depends on a call that ignores its cancellation."""
    monkeypatch.setattr(streamable, "CLOSE_TIMEOUT_S", BOUND_S)
    called, may_return = asyncio.Event(), asyncio.Event()

    async def headers():
        called.set()
        while is_slow and not may_return.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_return.wait()
        return {}

    is_slow = False
    async with connected(stateless, headers=headers) as client:
        called.clear()
        is_slow = True
        call = await client.start_call("echo", {"text": "hi"})
        await called.wait()
        asyncio.get_running_loop().call_later(BOUND_S / 3, may_return.set)
        await client.aclose()
        assert not may_return.is_set()
        may_return.set()
    with pytest.raises(mcpwire.MCPError):
        await call


async def test_closing_cancels_a_running_ask_function(auth, session):
    ask_called, answered, ended = (threading.Event() for _ in range(3))

    async def never(url):
        ask_called.set()
        try:
            await asyncio.to_thread(answered.wait, BOUND_S)
        finally:
            ended.set()
        return url

    session.is_open = True
    async with connected(session, oauth(ask=never)) as client:
        session.is_open = False
        call = await client.start_call("echo", {"text": "hi"})
        await asyncio.to_thread(ask_called.wait, BOUND_S)
    answered.set()
    with pytest.raises(mcpwire.MCPError):
        await call
    await asyncio.to_thread(ended.wait, BOUND_S)  # the function is the test's own


STRIDES = {"refresh": 3, "login": 11}
"""Trying each step would take too long."""


async def connected_client(session, **options):
    client = mcpwire.Client(mcpwire.Http(session.url, auth=oauth(), **options))
    await client.connect()
    return client


@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("what", STRIDES)
async def test_a_call_can_be_cancelled_at_any_step_of_a_login(
    auth, stateless, monkeypatch, engine, what
):
    client = await connected_client(stateless, engine=engine)
    ends = auth.expire_all if what == "refresh" else auth.forget_all

    async def once(made):
        ends()
        await made.run(lambda: client.call_tool("echo", {"text": "victim"}))
        await echo(client, "on")

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
async def test_connect_can_be_cancelled_at_any_step_of_a_login(auth, monkeypatch, era):
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
