"""A gateway can be served over streams and messages of the user, as a server can."""

import asyncio

import pytest
from gateway_servers import ERAS, Counted, named, tool_names
from loop_polling import until

import mcpwire
from mcpwire import Context
from mcpwire.gateway import Gateway
from mcpwire.transports import Messages, Reverse, Stream

BOUND_S = 20

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}

both_eras = pytest.mark.parametrize("era", ERAS)


def port_of(listener):
    return listener.sockets[0].getsockname()[1]


def client_of(target, era, **options):
    return mcpwire.Client(target, mode=era, **options)


@both_eras
async def test_gateway_serves_clients_over_tcp(era):
    upstream = Counted(named("a", "x"))
    gateway = Gateway({"a": upstream})
    listener = await asyncio.start_server(gateway.serve_stream, "127.0.0.1", 0)
    async with listener:
        target = Stream.tcp("127.0.0.1", port_of(listener))
        async with client_of(target, era) as one, client_of(target, era) as other:
            assert tool_names(await one.list_tools()) == ["a_x"]
            texts = [(await c.call_tool("a_x")).text for c in (one, other)]
            assert texts == ["a.x()", "a.x()"]
            assert upstream.open > 0
        await until(lambda: upstream.open == 0)
    assert (len(gateway.pool.session_sets), len(gateway.pool.shared)) == (0, 0)


async def test_shared_connections_stay_open_until_the_last_client_leaves():
    upstream = Counted(named("a", "x"))
    gateway = Gateway({"a": upstream}, share="identity")
    listener = await asyncio.start_server(gateway.serve_stream, "127.0.0.1", 0)
    async with listener:
        target = Stream.tcp("127.0.0.1", port_of(listener))
        async with mcpwire.Client(target) as one:
            async with mcpwire.Client(target) as other:
                await other.call_tool("a_x")
            assert (await one.call_tool("a_x")).text == "a.x()"
            assert (upstream.opened, upstream.open) == (1, 1)
        await until(lambda: upstream.open == 0)


@both_eras
async def test_gateway_serves_messages_and_relays_elicitation(era):
    server = mcpwire.Server("a")

    @server.tool
    async def who(ctx: Context) -> str:
        return (await ctx.elicit("Who?", FORM)).content["name"]

    gateway = Gateway({"a": server})
    to_gateway, to_client = asyncio.Queue(), asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(
            gateway.serve_messages(to_client.put, to_gateway.get, form="dict")
        )
        target = Messages(
            to_gateway.put,
            to_client.get,
            close=lambda: to_gateway.put(None),
            form="dict",
        )
        options = {"elicitation": lambda _: {"name": "Ada"}}
        async with client_of(target, era, **options) as client:
            assert (await client.call_tool("a_who")).text == "Ada"
        await serving
    assert len(gateway.pool.session_sets) == 0


async def test_gateway_behind_a_firewall_can_dial_out():
    gateway = Gateway({"a": named("a", "x")})
    reverse = Reverse(name="site", timeout=BOUND_S)

    async def dial(port):
        await gateway.serve_stream(*await asyncio.open_connection("127.0.0.1", port))

    async with (
        reverse,
        await asyncio.start_server(reverse.accept, "127.0.0.1", 0) as listener,
    ):
        dialling = asyncio.create_task(dial(port_of(listener)))
        async with mcpwire.Client(reverse) as client:
            assert (await client.call_tool("a_x")).text == "a.x()"
        await dialling


async def test_cancelling_serve_messages_closes_the_server_connections():
    upstream = Counted(named("a", "x"))
    gateway = Gateway({"a": upstream})
    to_gateway, to_client = asyncio.Queue(), asyncio.Queue()
    serving = asyncio.create_task(
        gateway.serve_messages(to_client.put, to_gateway.get, form="dict")
    )
    async with mcpwire.Client(
        Messages(to_gateway.put, to_client.get, form="dict")
    ) as client:
        await client.call_tool("a_x")
        assert upstream.open == 1
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert upstream.open == 0
        to_client.put_nowait(None)


async def test_unknown_message_form_is_refused_and_holds_no_user():
    gateway = Gateway({"a": named("a", "x")})
    to_gateway, to_client = asyncio.Queue(), asyncio.Queue()
    with pytest.raises(ValueError, match="xml"):
        await gateway.serve_messages(to_client.put, to_gateway.get, form="xml")
    async with gateway:
        pass
    assert gateway._users == 0
