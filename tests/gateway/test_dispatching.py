"""What a gateway's dispatcher tells transports about requests before responding."""

import pytest
from gateway_servers import named

import mcpwire
from mcpwire.gateway import Gateway
from mcpwire.server.request import RequestInfo
from mcpwire.types._base import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcpwire.versions import REVISIONS

HTTP = RequestInfo(transport="http")

META = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}


def mirrored(schema):
    """Return a server with one tool that has that schema."""
    server = mcpwire.Server("m")

    @server.method("tools/list")
    async def listing(params, request):
        return {"tools": [{"name": "x", "inputSchema": schema}]}

    return server


def schema(header):
    return {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": header}},
    }


def headers_of(gateway, name):
    params = {"name": name, "arguments": {}, "_meta": META}
    dispatcher = gateway.dispatcher
    request = dispatcher.admit(1, "tools/call", params, None, print, info=HTTP)
    return [each.name for each in dispatcher.param_headers(request, params)]


@pytest.mark.parametrize(
    ("header", "found"), [("Region", ["Mcp-Param-Region"]), ("not a token", [])]
)
async def test_param_headers_come_from_the_schema_of_the_servers_tool(header, found):
    gateway = Gateway({"m": mirrored(schema(header)), "a": named("a", "x")})
    async with mcpwire.Client(gateway) as client:
        assert headers_of(gateway, "m_x") == []
        await client.list_tools()
        for _ in range(2):
            assert headers_of(gateway, "m_x") == found
            assert headers_of(gateway, "a_x") == []
        assert headers_of(gateway, "gone") == []
        assert headers_of(gateway, 5) == []


async def test_param_headers_are_empty_before_the_first_connection():
    assert headers_of(Gateway({"m": mirrored(schema("Region"))}), "m_x") == []


async def test_dispatcher_start_keeps_connections_and_aclose_closes_them():
    gateway = Gateway({"a": named("a", "x")})
    dispatcher = gateway.dispatcher
    await dispatcher.start()
    async with mcpwire.Client(gateway) as client:
        await client.call_tool("a_x")
    assert len(gateway.pool.shared) == 1
    await dispatcher.aclose()
    assert len(gateway.pool.shared) == 0


async def test_resource_subscription_uses_the_alias_uri():
    def server(name):
        found = mcpwire.Server(name)
        found.add_resource("x:1", name)
        return found

    one, other = server("a"), server("b")
    gateway = Gateway({"a": one, "b": other})
    alias = "mcpgw://b/x%3A1"
    async with mcpwire.Client(gateway, mode="2025-11-25") as client:
        async with client.listen(uris=[alias]) as events:
            one.notify_resource_updated("x:1")
            other.notify_resource_updated("x:1")
            async for event in events:
                assert event.params.uri == alias
                break
        with pytest.raises(mcpwire.RPCError):
            await client.request("resources/subscribe", {"uri": "y:1"})
        await client.request("resources/unsubscribe", {"uri": alias})


# A gateway limited to some revisions...


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
async def test_gateway_can_be_limited_to_one_revision(revision):
    server = mcpwire.Server("one")

    @server.tool
    async def echo(text: str) -> str:
        return text

    gateway = Gateway({"one": server}, revisions=[revision])
    async with mcpwire.Client(gateway) as client:
        assert client.protocol_version == revision
        result = await client.call_tool("one_echo", {"text": "hi"})
    assert result.text == "hi"
