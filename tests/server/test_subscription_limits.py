"""Open subscriptions are shared fairly among clients."""

import contextlib

import pytest
from single_request import client_at

from mcpwire import Limits, RPCError, Server
from mcpwire.errors import InternalError
from mcpwire.server.notifications import OpenSubscriptions

pytestmark = pytest.mark.attack("X07")


def test_oldest_subscription_of_the_largest_owner_is_ended():
    listens = OpenSubscriptions(4)
    entered = [listens.open_subscription("greedy") for _ in range(4)]
    ended = [each.__enter__() for each in entered]
    with (
        listens.open_subscription("honest") as one,
        listens.open_subscription("honest") as other,
    ):
        assert [each.is_set() for each in ended] == [True, True, False, False]
        # Both have equally many: none ends for a third one.
        for owner in ("greedy", "honest"):
            with pytest.raises(InternalError), listens.open_subscription(owner):
                pass
        assert [each.is_set() for each in (one, other)] == [False, False]
        assert len(listens) == 4
    for each in entered:
        each.__exit__(None, None, None)
    assert len(listens) == 0


async def test_one_address_cannot_use_up_all_subscriptions():
    server = Server("x", limits=Limits(listens=3))
    server.add_tool(lambda: 1, name="t")
    app = server.asgi(allowed_hosts=["x.example"])
    async with contextlib.AsyncExitStack() as stack:
        greedy = [
            await client_at(stack, app, "192.0.2.1", mode="stateless") for _ in range(4)
        ]
        honest = await client_at(stack, app, "198.51.100.1", mode="stateless")
        for client in greedy[:3]:
            await stack.enter_async_context(client.listen(tools=True))
        changes = await stack.enter_async_context(honest.listen(tools=True))
        with pytest.raises(RPCError, match="too many"):
            await stack.enter_async_context(greedy[3].listen(tools=True))
        server.notify_tools_changed()
        notification = await anext(aiter(changes))
        assert notification.method == "notifications/tools/list_changed"
