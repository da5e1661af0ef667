"""Foreign servers that are killed, and restarted on the same port."""

import anyio
import pytest
from notification_log import TIMEOUT_S, UPDATED, Recorder
from serving import SERVED, SUBSCRIBING, name_of, write_until_updated

import mcpwire

pytestmark = pytest.mark.servers

MANY_ATTEMPTS = mcpwire.Recovery(attempts=100)
"""A foreign server may take seconds until it listens again."""


@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
@pytest.mark.parametrize(("kind", "mode"), SERVED, ids=map(name_of, SERVED))
async def test_a_client_continues_with_a_restarted_server(own, kind, mode):
    served = own(kind)
    tool, arguments = kind.echo
    async with mcpwire.Client(
        mcpwire.Http(served.url), mode=mode, recovery=MANY_ATTEMPTS
    ) as client:
        first = await client.call_tool(tool, arguments, check=True)
        served.restart()
        with anyio.fail_after(TIMEOUT_S):
            assert tool in [offered.name for offered in await client.list_tools()]
            second = await client.call_tool(tool, arguments, check=True)
    assert first.text == second.text


@pytest.mark.parametrize(("kind", "mode"), SUBSCRIBING, ids=map(name_of, SUBSCRIBING))
async def test_subscriptions_continue_with_a_restarted_server(own, kind, mode):
    served = own(kind)
    recorder = Recorder()
    options = {"mode": mode, "on_notification": recorder, "recovery": MANY_ATTEMPTS}
    async with mcpwire.Client(mcpwire.Http(served.url), **options) as client:
        await client.subscribe(kind.uri)
        served.restart()
        with anyio.fail_after(TIMEOUT_S):
            assert await client.list_tools()
            await write_until_updated(client, kind, recorder)
    assert recorder.of(UPDATED)[0].uri == kind.uri
