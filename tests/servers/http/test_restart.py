"""Foreign servers that are killed, and restarted on the same port."""

import anyio
import pytest
from notification_log import TIMEOUT_S, UPDATED, Recorder
from serving import SERVED, name_of, write_until_updated

import mcpwire

pytestmark = pytest.mark.servers

MANY_ATTEMPTS = mcpwire.Recovery(attempts=100)
"""A foreign server may take seconds until it listens again."""


@pytest.mark.pain("P05")
@pytest.mark.fault("F27")
@pytest.mark.parametrize(("kind", "mode"), SERVED, ids=map(name_of, SERVED))
async def test_calls_and_subscriptions_continue_with_a_restarted_server(
    own, kind, mode
):
    served = own(kind)
    recorder = Recorder()
    options = {"mode": mode, "on_notification": recorder, "recovery": MANY_ATTEMPTS}
    tool, arguments = kind.echo
    async with mcpwire.Client(mcpwire.Http(served.url), **options) as client:
        if kind.write is not None:
            await client.subscribe(kind.uri)
        first = await client.call_tool(tool, arguments, check=True)
        served.restart()
        with anyio.fail_after(TIMEOUT_S):
            assert tool in [offered.name for offered in await client.list_tools()]
            if kind.write is not None:
                await write_until_updated(client, kind, recorder)
                assert recorder.of(UPDATED)[0].uri == kind.uri
            second = await client.call_tool(tool, arguments, check=True)
    assert first.text == second.text
