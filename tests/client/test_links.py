"""Resource links of a result are replaced by the contents of listed resources."""

import pytest
from fakes import FakeServer

import mcpwire
import mcpwire.sync
from mcpwire import resolve_links


def link(uri):
    return {"type": "resource_link", "uri": uri, "name": uri}


TEXT = {"type": "text", "text": "see"}
CONTENT = [TEXT, link("a:1"), link("a:2"), link("a:other"), link("a:1"), link("a:no")]


def read(params, _):
    uri = params["uri"]
    if uri == "a:no":
        return mcpwire.RPCError("gone", code=-32002)
    contents = [{"uri": uri, "text": f"text of {uri}"}]
    return {"contents": contents * (2 if uri == "a:2" else 1)}


def linking(content=CONTENT, **changes):
    listed = [{"uri": uri, "name": uri} for uri in ("a:1", "a:2", "a:no", "a:unused")]
    methods = {
        "tools/call": lambda *_: {"content": content},
        "resources/list": lambda *_: {"resources": listed},
        "resources/read": read,
        **changes,
    }
    return FakeServer(methods)


def shown(result):
    return [
        getattr(block, "uri", None) or getattr(block, "text", None)
        if block.type != "resource"
        else block.resource.text
        for block in result.content
    ]


@pytest.mark.system("O87")
async def test_a_link_to_a_listed_resource_becomes_its_contents():
    server = linking()
    async with mcpwire.Client(server) as client:
        before = await client.call_tool("x")
        after = await resolve_links(client, before)
    one, two = "text of a:1", "text of a:2"
    assert shown(after) == ["see", one, two, two, "a:other", one, "a:no"]
    assert shown(before) == ["see", "a:1", "a:2", "a:other", "a:1", "a:no"]
    assert after.raw == {"content": CONTENT}
    assert [p["uri"] for p in server.requests("resources/read")] == [
        *("a:1", "a:2", "a:no")
    ]


@pytest.mark.system("O87")
@pytest.mark.parametrize("lists", [True, False])
async def test_links_stay_when_resources_cannot_be_listed(lists):
    server = linking(
        **{"resources/list": lambda *_: mcpwire.RPCError("no", code=-32603)}
    )
    if not lists:
        server.members["capabilities"] = {"tools": {}}
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x")
        assert await resolve_links(client, result) is result
    assert len(server.requests("resources/list")) == lists
    assert server.requests("resources/read") == []


async def test_a_result_without_links_sends_no_requests():
    server = linking([TEXT])
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x")
        assert await resolve_links(client, result) is result
    assert server.requests("resources/list") == []


async def test_a_malformed_read_result_is_raised():
    server = linking(**{"resources/read": lambda *_: {"contents": 7}})
    async with mcpwire.Client(server) as client:
        result = await client.call_tool("x")
        with pytest.raises(mcpwire.RemoteProtocolError, match="contents"):
            await resolve_links(client, result)


def test_the_blocking_client_has_the_same_function():
    with mcpwire.sync.Client(linking()) as client:
        after = mcpwire.sync.resolve_links(client, client.call_tool("x"))
    assert shown(after)[:2] == ["see", "text of a:1"]
