"""Nobody is sent to log in for what nobody waits for."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import oauth, protected_server
from engine_calls import HOUR_S, echo

import mcpwire

pytestmark = pytest.mark.fault("F39")


class Asked:
    """A user who is asked, and does nothing until the test ends."""

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


async def test_giving_up_a_call_that_waits_for_a_login_asks_for_no_other(auth):
    """The server is told of the call that was given up; that is worth no login."""
    user = Asked()
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
                server.wait_until,
                lambda: "notifications/cancelled" in server.verbs(),
            )
            before = server.challenges
            assert before
            server.is_open = True
            await echo(client)
            assert user.times == 1
        user.never.set()
    assert user.times == 1


async def test_closing_with_a_token_that_has_expired_asks_nobody(auth, clock):
    user = Asked()
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
