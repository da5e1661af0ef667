"""Responses that refuse a request, and hostile servers that send them."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import browse, oauth, protected_legacy, protected_server
from engine_calls import echo
from http_bytes import head

import mcpwire

pytestmark = pytest.mark.fault("F38")

HANG_S = 100.0
"""How long an endless body lasts: longer than any test."""


@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
async def test_endless_body_of_a_401_is_not_read(auth, engine, framing):
    fields = {
        "length": {"content_length": "1000000"},
        "chunks": {"transfer_encoding": "chunked"},
        "close": {"connection": "close"},
    }[framing]
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth(), engine=engine)
        async with mcpwire.Client(target) as client:
            auth.expire_all()
            usual = server._turns_away

            def turn_away(request, conn):
                if server._complaint(request) is None or server.raw is None:
                    return usual(request, conn)
                if "/.well-known/" in request.target:
                    return usual(request, conn)
                conn.send(head(401, www_authenticate="Bearer", **fields))
                conn.wait_closed(HANG_S)
                raise ConnectionAbortedError

            server._turns_away = turn_away
            await echo(client)
            server._turns_away = usual
    assert auth.grants == ["authorization_code", "refresh_token"]


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
