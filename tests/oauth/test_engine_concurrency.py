"""Concurrent requests and one token: no needless waiting, no repeated login."""

import asyncio
import threading

import pytest
from authorization_server import browse, oauth, protected_server
from engine_calls import connected

import mcpwire

pytestmark = pytest.mark.pain("P31")

BOUND_S = 40.0
"""Far less than a lock would last that is held while a stream is open."""

CALLS = 20


async def echo_all(client, count=CALLS):
    texts = [str(number) for number in range(count)]
    calls = (client.call_tool("echo", {"text": text}) for text in texts)
    assert [result.text for result in await asyncio.gather(*calls)] == texts


@pytest.mark.case("G03")
async def test_open_streams_and_calls_do_not_block_other_calls(auth, session):
    target = mcpwire.Http(session.url, auth=oauth())
    options = {"sampling": lambda _: None}
    async with mcpwire.Client(target, **options) as client:
        await asyncio.to_thread(session.wait_until, lambda: session.streams)
        slow = asyncio.create_task(client.call_tool("slow"))
        await asyncio.to_thread(
            session.wait_until, lambda: "tools/call" in session.verbs()
        )
        await echo_all(client)
        auth.expire_all()  # a refresh does not wait for them, either
        await echo_all(client)
        assert not slow.done()
        assert session.streams
        session.release()
        await slow
    assert auth.grants == ["authorization_code", "refresh_token"]


@pytest.mark.system("L-U8")
@pytest.mark.case("G03")
async def test_concurrent_refused_calls_share_one_refresh(auth, server):
    def hold(request):
        if request.form["grant_type"] == "refresh_token":
            expected = before + CALLS
            server.wait_until(lambda: server.challenges >= expected)

    auth.on["token"] = hold
    async with connected(server) as client:
        await echo_all(client)
        before = server.challenges
        auth.expire_all()
        await echo_all(client)
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert (server.challenges, len(auth.authorizations)) == (before + CALLS, 1)


@pytest.mark.case("G03")
async def test_concurrent_calls_share_one_login(auth, server):
    async with connected(server) as client:
        auth.forget_all()
        await echo_all(client)
    refreshed = ["authorization_code", "refresh_token", "authorization_code"]
    assert auth.grants == refreshed
    assert len(auth.authorizations) == 2


async def test_a_call_without_a_token_does_not_wait_for_a_login(auth, session):
    """A server may require a token for some methods only."""
    ask_called, answered = threading.Event(), threading.Event()

    async def think(url):
        ask_called.set()
        await asyncio.to_thread(answered.wait, BOUND_S)
        return await asyncio.to_thread(browse, url)

    session.is_open = True
    grant = oauth(ask=think)
    async with connected(session, grant) as client:
        session.is_open = False
        session.free = {"tools/call"}
        listing = asyncio.create_task(client.list_tools())
        await asyncio.to_thread(ask_called.wait, BOUND_S)
        await echo_all(client)
        answered.set()
        assert await listing
    assert auth.grants == ["authorization_code"]


async def test_two_servers_have_separate_logins(auth):
    grant = oauth()
    with protected_server(auth) as one, protected_server(auth) as other:
        async with (
            mcpwire.Client(mcpwire.Http(one.url, auth=grant)) as first,
            mcpwire.Client(mcpwire.Http(other.url, auth=grant)) as second,
        ):
            await asyncio.gather(echo_all(first, 3), echo_all(second, 3))
        tokens = [
            {message.headers.get("authorization") for message in server.messages}
            for server in (one, other)
        ]
    assert tokens[0] & tokens[1] == {None}
    resources = {request.form["resource"] for request in auth.token_requests}
    assert resources == {one.url, other.url}
