"""A user takes as long as it takes: no clock but the login's own runs meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest
from authorization_server import browse, oauth, protected_legacy, protected_server
from engine_calls import BOUND_S, come_back, echo
from http_bytes import reply

import mcpwire

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F39")]

THINKS_S = 1.0
"""How long the user of these tests takes."""

SHORT_S = 0.8
"""What everything else may take."""

LIMITS = {"connect_timeout": SHORT_S, "probe_timeout": SHORT_S / 2}


def thinking(shell):
    """Return how a user is asked who takes longer than everything else may."""

    async def ask(url):
        await asyncio.sleep(THINKS_S)  # longer than the limits that are tested
        return await asyncio.to_thread(browse, url)

    return shell.callback(ask)


@pytest.fixture
def stateless(auth):
    with protected_server(auth, era="stateless") as made:
        yield made


@pytest.mark.parametrize(
    ("era", "engine"),
    [
        ("session", "direct"),
        ("stateless", "httpx"),
        ("dual", "direct"),
    ],
)
async def test_connecting_waits_for_a_user(shell, auth, era, engine):
    with protected_server(auth, era=era) as server:
        grant = oauth(ask=thinking(shell))
        target = mcpwire.Http(server.url, auth=grant, engine=engine)
        async with asyncio.timeout(BOUND_S), shell(target, **LIMITS) as client:
            await echo(client)
    assert len(auth.authorizations) == 1


@pytest.mark.parametrize("mode", ["auto", "2024-11-05"])
async def test_connecting_to_a_server_of_2024_waits_for_a_user(shell, auth, mode):
    with protected_legacy(auth) as server:
        grant = oauth(ask=thinking(shell))
        target = mcpwire.Http(server.url, auth=grant, connect_timeout=SHORT_S)
        async with asyncio.timeout(BOUND_S):
            async with shell(target, mode=mode, **LIMITS) as client:
                await echo(client)
    assert len(auth.authorizations) == 1


async def test_a_call_waits_for_a_user_and_its_own_time_counts_again(
    shell, auth, stateless
):
    server = stateless
    server.is_open = True
    target = mcpwire.Http(server.url, auth=oauth(ask=thinking(shell)))
    async with asyncio.timeout(BOUND_S), shell(target) as client:
        server.is_open = False
        result = await client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S)
        assert result.text == "hi"
        auth.forget_all()
        began = time.monotonic()
        with pytest.raises(mcpwire.RequestTimeout):
            await client.call_tool("slow", timeout=SHORT_S)
        took = time.monotonic() - began
        assert THINKS_S <= took < THINKS_S + SHORT_S + 2.0
        await echo(client)
    assert len(auth.authorizations) == 2


async def test_a_call_at_a_server_of_2024_waits_for_a_user(shell, auth):
    with protected_legacy(auth) as server:
        server.is_open = True
        target = mcpwire.Http(server.url, auth=oauth(ask=thinking(shell)))
        async with asyncio.timeout(BOUND_S), shell(target) as client:
            server.is_open = False
            result = await client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S)
            assert result.text == "hi"
            server.on["tools/call"] = lambda request, conn: (
                conn.send(reply(202)) or True
            )
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S)


@pytest.mark.usefixtures("released")
async def test_a_user_of_a_server_of_2024_who_never_comes_back_ends_it(shell, auth):
    with protected_legacy(auth) as server:
        server.is_open = True
        grant = oauth(timeout=SHORT_S, **never_asked(shell))
        async with asyncio.timeout(BOUND_S):
            async with shell(mcpwire.Http(server.url, auth=grant)) as client:
                server.is_open = False
                began = time.monotonic()
                with pytest.raises(mcpwire.ConsentDenied, match="nobody came back"):
                    await client.call_tool("echo", {"text": "hi"}, timeout=BOUND_S)
                assert time.monotonic() - began < SHORT_S + 5.0


async def test_all_calls_that_wait_for_one_user_have_the_time(shell, auth, stateless):
    stateless.is_open = True
    target = mcpwire.Http(stateless.url, auth=oauth(ask=thinking(shell)))
    async with asyncio.timeout(BOUND_S), shell(target) as client:
        stateless.is_open = False
        calls = [
            client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S) for _ in range(5)
        ]
        assert [result.text for result in await asyncio.gather(*calls)] == ["hi"] * 5
    assert len(auth.authorizations) == 1


async def test_a_slow_server_is_not_a_slow_user(shell, auth, stateless):
    """Its time counts, as it does where nobody is asked."""
    stateless.is_open = True
    target = mcpwire.Http(stateless.url, auth=oauth())
    async with asyncio.timeout(BOUND_S), shell(target) as client:
        stateless.is_open = False
        auth.on["metadata"] = lambda request: request.conn.wait(THINKS_S)
        with pytest.raises(mcpwire.RequestTimeout):
            await client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S)


# Nobody comes back.


def never_asked(shell):
    async def ask(url):
        await asyncio.sleep(BOUND_S)  # for ever, as far as this test goes
        return url

    return {"ask": ask} if shell.name == "asyncio" else {"ask": blocked}


def blocked(url):
    RELEASED.wait(BOUND_S)
    return url


RELEASED = threading.Event()


@pytest.fixture
def released():
    RELEASED.clear()
    yield
    RELEASED.set()


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("how", ["a browser", "a function"])
async def test_a_user_who_never_comes_back_ends_it(shell, auth, stateless, how):
    usual = {"open_browser": lambda url: None, "ask": None}
    options = usual if how == "a browser" else never_asked(shell)
    target = mcpwire.Http(stateless.url, auth=oauth(timeout=SHORT_S, **options))
    async with asyncio.timeout(BOUND_S):
        began = time.monotonic()
        with pytest.raises(mcpwire.ConsentDenied) as caught:
            async with shell(target):
                pass
        assert caught.value.error == "timeout"
        assert SHORT_S <= time.monotonic() - began < SHORT_S + 5.0
        stateless.is_open = True
        async with shell(target) as client:
            stateless.is_open = False
            for _ in range(2):
                with pytest.raises(mcpwire.ConsentDenied, match="nobody came back"):
                    await client.call_tool("echo", {"text": "hi"}, timeout=BOUND_S)
            stateless.free.add("tools/list")
            await client.list_tools()


# The way back.


@pytest.mark.system("L-U14")
async def test_a_browser_finds_the_way_back(shell, auth, stateless):
    shown = []
    grant = oauth(ask=None, open_browser=come_back, on_url=shown.append)
    async with asyncio.timeout(BOUND_S):
        async with shell(mcpwire.Http(stateless.url, auth=grant)) as client:
            await echo(client)
    [authorized] = auth.authorizations
    assert shown[0].startswith(f"{auth.issuer}/authorize?")
    back = authorized.query["redirect_uri"]
    assert_refused(int(back.rpartition(":")[2].partition("/")[0]))


def assert_refused(port):
    with pytest.raises(OSError, match="refused"), socket.socket() as sock:
        sock.connect(("127.0.0.1", port))


async def test_a_port_in_use_is_said_at_once_and_may_be_free_later(
    shell, auth, stateless
):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        grant = oauth(ask=None, open_browser=come_back, callback_port=port)
        target = mcpwire.Http(stateless.url, auth=grant)
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(mcpwire.AuthError, match=str(port)):
                async with shell(target):
                    pass
    async with asyncio.timeout(BOUND_S), shell(target) as client:
        await echo(client)
    assert f":{port}/" in auth.authorizations[0].query["redirect_uri"]


async def test_the_port_of_before_is_taken_again_or_another_one(shell, auth, stateless):
    """An authorization server may compare the whole redirect URI (RFC 8252 7.3)."""
    grant = oauth(ask=None, open_browser=come_back)
    target = mcpwire.Http(stateless.url, auth=grant)
    async with asyncio.timeout(BOUND_S):
        for _ in range(2):
            async with shell(target) as client:
                await echo(client)
            auth.forget_all()
        back, again = (request.query["redirect_uri"] for request in auth.authorizations)
        assert back == again
        assert len(auth.registrations) == 1
        port = int(back.rpartition(":")[2].partition("/")[0])
        with socket.create_server(("127.0.0.1", port), backlog=1):
            async with shell(target) as client:
                await echo(client)
    assert auth.authorizations[-1].query["redirect_uri"] != back
