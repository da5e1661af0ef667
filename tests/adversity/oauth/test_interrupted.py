"""Calls that end, and loops that close, during a login or while a token is obtained."""

import asyncio
import contextlib
import gc
from unittest.mock import Mock

import pytest
from authorization_server import browse, oauth, protected_legacy, protected_server
from engine_calls import HOUR_S, connected, echo

import mcpwire
from mcpwire.errors import CallCancelled
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.sender import Sender
from mcpwire.transports.oauth.authorizer import Authorizer

SOON_S = BOUND_S = 30.0
CALL_S = 0.6
THINKS_S = 1.5


def out_of_time(reply):
    """Time out a call as the channel does when its deadline has passed."""
    channel = reply._owner
    channel._time_out(reply, channel._time())


def expire_as_the_token_comes(patches):
    """Let the deadline of a call pass just after its token was obtained."""
    replies = []
    original_scope, original_obtain = Sender.abort_scope, Authorizer._obtain

    def within(self, reply):
        replies.append(reply)
        return original_scope(self, reply)

    async def obtain(self, operation):
        credential = await original_obtain(self, operation)
        # After this task ends and before its waiter runs.
        asyncio.get_running_loop().call_soon(out_of_time, replies[0])
        return credential

    patches.setattr(Sender, "abort_scope", within)
    patches.setattr(Authorizer, "_obtain", obtain)


@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_deadline_that_passes_with_the_token_is_enforced(
    auth, session, monkeypatch, engine
):
    """No task waits at that time, so none can be woken: the engine must check."""
    async with connected(session, engine=engine, server_stream="never") as client:
        auth.expire_all()
        expire_as_the_token_comes(monkeypatch)
        call = asyncio.create_task(client.call_tool("slow", timeout=100.0))
        await asyncio.wait([call], timeout=SOON_S)
        monkeypatch.undo()
        is_over = call.done()
        session.release()
        with pytest.raises(mcpwire.RequestTimeout):
            await call
        assert is_over
        assert session.verbs().count("tools/call") == 1


@pytest.mark.parametrize("is_denied", [False, True])
async def test_aborted_call_requests_no_token(monkeypatch, is_denied):
    target = mcpwire.Http("https://mcp.example/mcp", auth=oauth())
    reply = Mock(aborted=None, deadline=None)
    error = CallCancelled("tools/call", reason="of the test")

    async def deny(request, filtered):
        reply.aborted = error
        filtered.head(401, {})

    authorizer = Authorizer(target.grant, target, DEFAULT_LIMITS)
    if is_denied:
        await authorizer.initial_token()
    else:
        reply.aborted = error
    for name in ("initial_token", "obtain"):
        monkeypatch.setattr(authorizer, name, Mock(side_effect=AssertionError))
    sender = Sender(target, Mock(exchange=deny), authorizer)
    request = Request(b"POST /mcp HTTP/1.1\r\n", b"{}")
    with pytest.raises(CallCancelled, match="of the test"):
        await authorizer.exchange(sender, request, reply, Mock())


class IdleUser:
    """A user who is asked to log in and does nothing until the test ends."""

    def __init__(self):
        self.times = 0
        self.signal = asyncio.Event()
        self.never = asyncio.Event()
        self.ask = self._ask

    async def _ask(self, url):
        self.times += 1
        self.signal.set()
        await self.never.wait()
        return "nothing"


@pytest.mark.fault("F39")
async def test_cancelling_a_call_during_its_login_starts_no_other_login(auth, session):
    """Not even its notification does, for which no caller waits."""
    user = IdleUser()
    grant = oauth(ask=user.ask)
    session.is_open = True
    async with mcpwire.Client(mcpwire.Http(session.url, auth=grant)) as client:
        session.is_open = False
        call = await client.start_call("echo", {"text": "given up"})
        await user.signal.wait()
        call.cancel()
        with pytest.raises(mcpwire.CallCancelled):
            await call
        await asyncio.to_thread(
            session.wait_until,
            lambda: b"notifications/cancelled" in session.refused[-1].raw,
        )
        session.is_open = True
        await echo(client)
        assert user.times == 1
    user.never.set()
    assert user.times == 1


@pytest.mark.fault("F38")
async def test_cancelling_a_2024_call_starts_no_second_login(auth):
    logins, login_started, never = [], asyncio.Event(), asyncio.Event()

    async def ask(url):
        logins.append(url)
        if len(logins) == 1:
            return await asyncio.to_thread(browse, url)
        login_started.set()
        await never.wait()
        return None

    with protected_legacy(auth) as server:
        grant = oauth(ask=ask)
        async with mcpwire.Client(mcpwire.Http(server.url, auth=grant)) as client:
            auth.forget_all()
            call = await client.start_call("echo", {"text": "given up"})
            await login_started.wait()
            call.cancel()
            with pytest.raises(mcpwire.CallCancelled):
                await call
        never.set()
    assert len(logins) == 2


@pytest.mark.fault("F39")
async def test_closing_with_an_expired_token_starts_no_login(auth, session, clock):
    user = IdleUser()
    grant = oauth()
    client = mcpwire.Client(mcpwire.Http(session.url, auth=grant))
    await client.connect()
    object.__setattr__(grant, "ask", user.ask)
    clock.pass_by(2 * HOUR_S)
    auth.forget_all()
    await client.aclose()
    assert user.times == 0
    user.never.set()


async def test_login_during_session_renewal_pauses_the_call_timeout(auth):
    """In one of eight attempts: a loaded machine may use up the call's timeout."""
    is_slow = []

    async def think(url):
        if is_slow:
            await asyncio.sleep(THINKS_S)  # longer than the call may take
        return await asyncio.to_thread(browse, url)

    async def call_during_session_renewal():
        is_slow.clear()
        with protected_server(auth) as server:
            async with connected(server, oauth(ask=think)) as client:
                is_slow.append(True)
                server.free = {"tools/call"}
                server.forget_sessions()
                auth.forget_all()
                return await client.call_tool("echo", {"text": "hi"}, timeout=CALL_S)

    for _ in range(8):
        before, result = len(auth.authorizations), None
        with contextlib.suppress(mcpwire.RequestTimeout):
            result = await call_during_session_renewal()
            break
    assert result is not None
    assert result.text == "hi"
    assert len(auth.authorizations) == before + 2


@pytest.mark.filterwarnings("ignore")  # a loop closed before its tasks ended warns
def test_client_is_usable_after_its_loop_closed_during_a_login(auth, stateless):
    """As a notebook or a test runner closes its loop: without ending its tasks."""
    urls = []

    async def ask(url):
        if not urls:
            urls.append(url)
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
            await asyncio.Event().wait()
        return await asyncio.to_thread(browse, url)

    client = mcpwire.Client(mcpwire.Http(stateless.url, auth=oauth(ask=ask)))
    first = asyncio.new_event_loop()
    connecting = first.create_task(client.connect())
    first.run_forever()
    assert not connecting.done()
    first.close()

    async def again(client):
        async with asyncio.timeout(BOUND_S), client:
            await echo(client)
            with pytest.raises(mcpwire.RequestTimeout):
                async with asyncio.timeout(10.0):
                    await client.call_tool("slow", timeout=0.3)
            stateless.release()

    asyncio.run(again(client))
    del client, connecting
    gc.collect()
