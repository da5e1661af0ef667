"""One client whose event loop is closed during a login."""

from __future__ import annotations

import asyncio
import gc

import pytest
from authorization_server import browse, oauth, protected_server

import mcpwire

BOUND_S = 30.0


@pytest.mark.filterwarnings("ignore")  # a loop closed before its tasks ended warns
def test_client_is_usable_after_its_loop_closed_during_a_login(auth):
    """As a notebook or a test runner closes its loop: without ending its tasks."""
    urls = []

    async def ask(url):
        if not urls:
            urls.append(url)
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
            await asyncio.Event().wait()
        return await asyncio.to_thread(browse, url)

    with protected_server(auth, era="stateless") as server:
        client = mcpwire.Client(mcpwire.Http(server.url, auth=oauth(ask=ask)))
        first = asyncio.new_event_loop()
        connecting = first.create_task(client.connect())
        first.run_forever()
        assert not connecting.done()
        first.close()

        async def again(client):
            async with asyncio.timeout(BOUND_S), client:
                result = await client.call_tool("echo", {"text": "hi"})
                assert result.text == "hi"
                with pytest.raises(mcpwire.RequestTimeout):
                    async with asyncio.timeout(10.0):
                        await client.call_tool("slow", timeout=0.3)
                server.release()

        asyncio.run(again(client))
        del client, connecting
        gc.collect()
