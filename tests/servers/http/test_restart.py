"""Servers of somebody else's that are killed, and started again on the same port."""

from __future__ import annotations

import anyio
import pytest
from hearing import PATIENCE_S, UPDATED, Heard
from serving import SERVED, SUBSCRIBING, name_of, write_until_heard

import mcpwire

pytestmark = pytest.mark.servers

PATIENT = mcpwire.Recovery(attempts=100)
"""A server of somebody else's may take seconds until it listens again."""


@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
@pytest.mark.parametrize(("kind", "mode"), SERVED, ids=map(name_of, SERVED))
async def test_a_client_goes_on_with_a_server_that_was_started_again(own, kind, mode):
    served = own(kind)
    tool, arguments = kind.echo
    async with mcpwire.Client(
        mcpwire.Http(served.url), mode=mode, recovery=PATIENT
    ) as client:
        first = await client.call_tool(tool, arguments, check=True)
        served.restart()
        with anyio.fail_after(PATIENCE_S):
            assert tool in [offered.name for offered in await client.list_tools()]
            second = await client.call_tool(tool, arguments, check=True)
    assert first.text == second.text


@pytest.mark.parametrize(("kind", "mode"), SUBSCRIBING, ids=map(name_of, SUBSCRIBING))
async def test_subscriptions_go_on_with_it(own, kind, mode):
    served = own(kind)
    heard = Heard()
    options = {"mode": mode, "on_notification": heard, "recovery": PATIENT}
    async with mcpwire.Client(mcpwire.Http(served.url), **options) as client:
        await client.subscribe(kind.uri)
        served.restart()
        with anyio.fail_after(PATIENCE_S):
            assert await client.list_tools()
            await write_until_heard(client, kind, heard)
    assert heard.of(UPDATED)[0].uri == kind.uri
