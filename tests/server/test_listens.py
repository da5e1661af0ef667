"""Subscriptions that are open at once, divided by client."""

import contextlib

import httpx
import pytest

from mcpwire import Client, Http, Limits, RPCError, Server
from mcpwire.errors import InternalError
from mcpwire.server.notifications import Listens
from mcpwire.testing import AsgiTransport

pytestmark = pytest.mark.attack("X07")


def test_the_oldest_of_the_greediest_ends_for_a_client_with_fewer():
    listens = Listens(4)
    entered = [listens.entered("greedy") for _ in range(4)]
    ended = [each.__enter__() for each in entered]
    with listens.entered("honest") as one, listens.entered("honest") as other:
        assert [each.is_set() for each in ended] == [True, True, False, False]
        # As many as the other has: nobody ends for a third.
        for owner in ("greedy", "honest"):
            with pytest.raises(InternalError), listens.entered(owner):
                pass
        assert [each.is_set() for each in (one, other)] == [False, False]
        assert len(listens) == 4
    for each in entered:
        each.__exit__(None, None, None)
    assert len(listens) == 0


@pytest.mark.anyio
async def test_one_address_leaves_others_their_subscriptions():
    server = Server("x", limits=Limits(listens=3))
    server.add_tool(lambda: 1, name="t")
    app = server.asgi(allowed_hosts=["x.example"])
    async with contextlib.AsyncExitStack() as stack:

        async def connected(address):
            transport = AsgiTransport(app, client=(address, 50_000))
            http = await stack.enter_async_context(
                httpx.AsyncClient(transport=transport)
            )
            target = Http("https://x.example/mcp", http_client=http)
            return await stack.enter_async_context(Client(target, mode="stateless"))

        greedy = [await connected("192.0.2.1") for _ in range(4)]
        honest = await connected("198.51.100.1")
        for client in greedy[:3]:
            await stack.enter_async_context(client.listen(tools=True))
        changes = await stack.enter_async_context(honest.listen(tools=True))
        with pytest.raises(RPCError, match="too many"):
            await stack.enter_async_context(greedy[3].listen(tools=True))
        server.notify_tools_changed()
        told = await anext(aiter(changes))
        assert told.method == "notifications/tools/list_changed"
