"""Requests without a waiting caller start no login."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import oauth, protected_server
from engine_calls import HOUR_S, echo

import mcpwire

pytestmark = pytest.mark.fault("F39")


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


async def test_cancelling_a_call_during_its_login_starts_no_other_login(auth):
    """The cancellation notification of the call starts no login."""
    user = IdleUser()
    grant = oauth(ask=user.ask)
    with protected_server(auth) as server:
        server.is_open = True
        async with mcpwire.Client(mcpwire.Http(server.url, auth=grant)) as client:
            server.is_open = False
            call = await client.start_call("echo", {"text": "given up"})
            await user.signal.wait()
            call.cancel()
            with pytest.raises(mcpwire.CallCancelled):
                await call
            await asyncio.to_thread(
                server.wait_until, lambda: "notifications/cancelled" in server.verbs()
            )
            before = server.challenges
            assert before
            server.is_open = True
            await echo(client)
            assert user.times == 1
        user.never.set()
    assert user.times == 1


async def test_closing_with_an_expired_token_starts_no_login(auth, clock):
    user = IdleUser()
    grant = oauth()
    with protected_server(auth) as server:
        client = mcpwire.Client(mcpwire.Http(server.url, auth=grant))
        await client.connect()
        object.__setattr__(grant, "ask", user.ask)
        clock.pass_by(2 * HOUR_S)
        auth.forget_all()
        await client.aclose()
        assert user.times == 0
        user.never.set()
