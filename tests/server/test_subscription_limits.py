"""Open subscriptions are shared fairly among clients."""

import contextlib

import pytest
from single_request import client_at

from mcpwire import Limits, RPCError, Server

GREEDY, HONEST = "192.0.2.1", "198.51.100.1"


@pytest.mark.attack("X07")
async def test_oldest_subscriptions_end_for_an_address_with_fewer():
    server = Server("x", limits=Limits(listens=4))
    server.add_tool(lambda: 1, name="t")
    app = server.asgi(allowed_hosts=["x.example"])
    async with contextlib.AsyncExitStack() as stack:

        async def listen(address):
            client = await client_at(stack, app, address, mode="stateless")
            return await stack.enter_async_context(client.listen(tools=True))

        ended, kept = [[await listen(GREEDY) for _ in range(2)] for _ in range(2)]
        kept += [await listen(HONEST) for _ in range(2)]
        # Both have equally many: none ends for a third one.
        for address in (GREEDY, HONEST):
            with pytest.raises(RPCError, match="too many"):
                await listen(address)
        for each in ended:
            assert [change async for change in each] == []
        server.notify_tools_changed()
        for each in kept:
            change = await anext(aiter(each))
            assert change.method == "notifications/tools/list_changed"
