"""Answers that turn a request away, and servers that make more of it."""

from __future__ import annotations

import asyncio

import pytest
from authorization_server import browse, oauth, protected_legacy, protected_server
from engine_calls import echo
from http_bytes import head

import mcpwire

pytestmark = pytest.mark.fault("F38")

HANG_S = 100.0
"""How long what never ends lasts: longer than any test takes."""


@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
async def test_a_refusal_whose_body_never_ends_is_not_waited_for(auth, engine, framing):
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


async def test_giving_up_a_call_asks_for_no_login_with_a_server_of_2024_either(auth):
    times, asked, never = [], asyncio.Event(), asyncio.Event()

    async def ask(url):
        times.append(url)
        if len(times) == 1:
            return await asyncio.to_thread(browse, url)
        asked.set()
        await never.wait()
        return None

    with protected_legacy(auth) as server:
        grant = oauth(ask=ask)
        async with mcpwire.Client(mcpwire.Http(server.url, auth=grant)) as client:
            auth.forget_all()
            call = await client.start_call("echo", {"text": "given up"})
            await asked.wait()
            call.cancel()
            with pytest.raises(mcpwire.CallCancelled):
                await call
        never.set()
    assert len(times) == 2
