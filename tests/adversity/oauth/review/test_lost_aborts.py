"""A timeout or cancellation ends a call at any time, also between two requests."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest
from authorization_server import oauth, protected_server

import mcpwire
from mcpwire.errors import CallCancelled
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.oauth.authorizer import Authorizer
from mcpwire.transports.oauth.engine import AuthEngine

SOON_S = 30.0


def out_of_time(reply):
    """Time out a call as the channel does when its deadline has passed."""
    channel = reply._owner
    channel._time_out(reply.id, reply, channel._time())


def expire_as_the_token_comes(patches):
    """Let the deadline of a call pass just after its token was obtained."""
    replies = []
    original_wait, original_obtain = AuthEngine._wait_for_token, Authorizer.obtain

    def within(self, reply, deadline, work):
        replies.append(reply)
        return original_wait(self, reply, deadline, work)

    async def obtain(self, token_request):
        credential = await original_obtain(self, token_request)
        # After this task ends and before its waiter runs.
        asyncio.get_running_loop().call_soon(out_of_time, replies[0])
        return credential

    patches.setattr(AuthEngine, "_wait_for_token", within)
    patches.setattr(Authorizer, "obtain", obtain)


@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_deadline_that_passes_with_the_token_is_enforced(
    auth, monkeypatch, engine
):
    """No task waits at that time, so none can be woken: the engine must check."""
    with protected_server(auth) as server:
        target = mcpwire.Http(
            server.url, auth=oauth(), engine=engine, server_stream="never"
        )
        async with mcpwire.Client(target) as client:
            auth.expire_all()
            expire_as_the_token_comes(monkeypatch)
            call = asyncio.create_task(client.call_tool("slow", timeout=100.0))
            await asyncio.wait([call], timeout=SOON_S)
            monkeypatch.undo()
            is_over = call.done()
            server.release()
            with pytest.raises(mcpwire.RequestTimeout):
                await call
            assert is_over
            assert server.verbs().count("tools/call") == 1


@pytest.mark.parametrize("is_denied", [False, True])
async def test_aborted_call_requests_no_token(monkeypatch, is_denied):
    target = mcpwire.Http("https://mcp.example/mcp", auth=oauth())
    reply = Mock(aborted=None)
    error = CallCancelled("tools/call", reason="of the test")

    async def deny(request, filtered, deadline):
        reply.aborted = error
        filtered.head(401, {})

    authorizer = Authorizer(target.grant, target, DEFAULT_LIMITS)
    if is_denied:
        await authorizer.initial_token()
    else:
        reply.aborted = error
    for name in ("initial_token", "obtain"):
        monkeypatch.setattr(authorizer, name, Mock(side_effect=AssertionError))
    engine = AuthEngine(Mock(target="x", exchange=deny), authorizer)
    request = Request(b"POST /mcp HTTP/1.1\r\n", b"{}")
    with pytest.raises(CallCancelled, match="of the test"):
        await engine.exchange(request, reply, None)
