"""Delivery of change notifications to subscriptions and sessions."""

import asyncio
import contextlib

import pytest
from raw_client import SERVER_KEY, Hand, modern, notice
from single_request import client_at
from weather import weather

from mcpwire import Client, MethodNotFound, RPCError, Server
from mcpwire.limits import Limits


@pytest.mark.rule("SUB-05", "SUB-06", "SUB-15", "META-13")
@pytest.mark.case("D18", "F06")
async def test_each_subscription_receives_only_its_own_notifications():
    server = weather()
    server.add_resource("weather://watched", "x")
    async with (
        Client(server) as client,
        client.listen(["weather://watched"], tools=True) as one,
        client.listen(prompts=True) as two,
    ):
        assert (one.acknowledged.tools, one.acknowledged.prompts) == (True, False)
        assert one.acknowledged.uris == {"weather://watched"}
        server.notify_prompts_changed()
        server.notify_resource_updated("weather://other")
        server.notify_tools_changed()
        server.notify_resource_updated("weather://watched")
        server.notify_resources_changed()
        notifications = aiter(one)
        assert (await anext(notifications)).method == "notifications/tools/list_changed"
        assert (await anext(notifications)).params.uri == "weather://watched"
        assert (await anext(aiter(two))).method == "notifications/prompts/list_changed"


@pytest.mark.rule("SUB-02", "SUB-03", "SUB-04")
async def test_server_acknowledges_and_sends_only_what_it_supports():
    # Raw, because our client requests only declared capabilities and shows only
    # notifications it requested.
    server = Server("s", "1")
    server.add_tool(lambda: 1, name="t")
    server.add_resource("a:seen", "x")
    server.add_resource("a:hidden", "x", visible=lambda context, component: False)
    everything = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["a:seen", "a:hidden"],
    }
    wire = Hand(server.dispatcher)
    for id, filter, accepted in (
        (
            1,
            everything,
            {"toolsListChanged": True, "resourceSubscriptions": ["a:seen"]},
        ),
        (2, {"resourcesListChanged": True}, {"resourcesListChanged": True}),
    ):
        listen = modern(id, "subscriptions/listen", {"notifications": filter})
        [acknowledged] = await wire.ask(listen)
        assert acknowledged["params"]["notifications"] == accepted
    server.notify_resource_updated("a:hidden")
    server.notify_resource_updated("a:other")
    server.notify_prompts_changed()
    server.notify_resource_updated("a:seen")
    server.notify_tools_changed()
    server.notify_resources_changed()
    key = "io.modelcontextprotocol/subscriptionId"
    notifications = [await wire.next() for _ in range(3)]
    assert [
        (each["method"], each["params"]["_meta"][key]) for each in notifications
    ] == [
        ("notifications/resources/updated", 1),
        ("notifications/tools/list_changed", 1),
        ("notifications/resources/list_changed", 2),
    ]
    assert notifications[0]["params"]["uri"] == "a:seen"
    await wire.connection.aclose()


@pytest.mark.rule("SUB-04")
async def test_server_without_resources_acknowledges_no_filters(server):
    server.add_tool(lambda: 1, name="t")
    wire = Hand(server.dispatcher)
    filter = {"resourceSubscriptions": ["a:b"], "resourcesListChanged": True}
    listen = modern(1, "subscriptions/listen", {"notifications": filter})
    [acknowledged] = await wire.ask(listen)
    assert acknowledged["params"]["notifications"] == {}
    await wire.connection.aclose()


@pytest.mark.unchecked_wire("filters that are none are sent on purpose")
@pytest.mark.rule("SUB-17", "TX-18")
@pytest.mark.parametrize(
    ("filter", "code"),
    [
        (None, -32602),
        ([], -32602),
        ({"toolsListChanged": 1}, -32602),
        ({"resourceSubscriptions": "a:b"}, -32602),
        ({"resourceSubscriptions": [1]}, -32602),
        ({"taskIds": ["a"]}, -32021),
    ],
)
async def test_malformed_subscription_filter_is_refused(filter, code):
    server = weather()
    async with Client(server) as client:
        with pytest.raises(Exception) as caught:
            await client.request("subscriptions/listen", {"notifications": filter})
        assert caught.value.code == code


@pytest.mark.rule("SUB-16")
async def test_listen_is_unknown_on_a_server_without_features():
    async with Client(Server("empty", "1")) as client:
        with pytest.raises(MethodNotFound):
            await client.request("subscriptions/listen", {"notifications": {}})


async def test_subscription_beyond_the_limit_is_refused_calls_work():
    server = Server("few", "1", limits=Limits(listens=1))
    server.add_tool(lambda: "x", name="t")
    params = {"notifications": {"toolsListChanged": True}}
    async with Client(server) as client:
        for _ in range(2):  # one that has ended does not count
            async with client.listen(tools=True):
                with pytest.raises(Exception, match="too many"):
                    await client.request("subscriptions/listen", params)
                assert (await client.call_tool("t")).text == "x"


async def test_subscription_closed_by_the_client_leaves_the_hub():
    server = weather()
    async with Client(server) as client:
        async with client.listen(tools=True):
            assert len(server.dispatcher.hub) == 1
        await client.list_tools()
        assert len(server.dispatcher.hub) == 0


async def test_change_from_another_thread_reaches_the_subscription():
    server = weather()
    async with Client(server) as client, client.listen(tools=True) as changes:
        await asyncio.to_thread(server.notify_tools_changed)
        assert (
            await anext(aiter(changes))
        ).method == "notifications/tools/list_changed"


@pytest.mark.rule("CAN-04", "META-11", "SUB-06", "SUB-11", "SUB-12")
@pytest.mark.parametrize("id", ["sub", "7", 7])
async def test_ended_subscription_is_cancelled_after_its_result(id):
    server = weather()
    wire = Hand(server.dispatcher)
    filter = {"toolsListChanged": True}
    wire.send(modern(id, "subscriptions/listen", {"notifications": filter}))
    acknowledged = (await wire.next())["params"]
    assert acknowledged["notifications"] == filter
    server.notify_tools_changed()
    changed = (await wire.next())["params"]
    wire.connection.end_subscriptions()
    result = (await wire.next())["result"]
    assert result["resultType"] == "complete"
    key = "io.modelcontextprotocol/subscriptionId"
    named = [each["_meta"][key] for each in (acknowledged, changed, result)]
    assert named == [id] * 3
    assert result["_meta"][SERVER_KEY]["name"] == server.name
    assert await wire.next() == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": id},
    }
    await wire.connection.aclose()
    assert len(server.dispatcher.hub) == 0


@pytest.mark.rule("CAN-03")
async def test_server_cancels_only_subscriptions_that_it_ends():
    server = weather()
    wire = Hand(server.dispatcher)
    listen = "subscriptions/listen"
    filter = {"toolsListChanged": True}
    wire.send(
        modern(1, "tools/list"),
        modern(2, "tools/call", {"name": "nothing"}),
        modern(3, listen, {"notifications": None}),
        modern(4, listen, {"notifications": filter}),
        modern(5, listen, {"notifications": filter}),
    )
    answers = [await wire.next() for _ in range(5)]
    assert {each["id"] for each in answers if "id" in each} == {1, 2, 3}
    wire.send(notice("notifications/cancelled", requestId=5))
    wire.connection.end_subscriptions()
    assert (await wire.next())["id"] == 4
    assert await wire.next() == notice("notifications/cancelled", requestId=4)
    [last] = await wire.ask(modern(6, "tools/list"))
    assert last["id"] == 6
    assert wire.rest() == []
    await wire.aclose()


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
