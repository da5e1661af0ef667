"""Servers with wrong or incomplete declarations about themselves."""

import asyncio

import pytest
from fakes import FakeServer, text
from scripted import ECHO_LOOP, scripted

import mcpwire

pytestmark = pytest.mark.fault("F49")

TOOLS = {"tools/call": lambda *_: text("ok")}
ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


def answering(result):
    """Return a server in a child that answers `initialize` with this result."""
    return scripted(
        "import ast\nresult = ast.literal_eval(sys.argv[1])\n"
        "while True:\n"
        "    m = recv()\n"
        "    if m['method'] == 'initialize': answer(m, result); break\n"
        "    send({'jsonrpc': '2.0', 'id': m['id'],\n"
        "          'error': {'code': -32601, 'message': 'Method not found'}})\n"
        "recv()\n" + ECHO_LOOP,
        repr(result),
    )


GOOD = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"},
}


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    "result",
    [
        without("serverInfo"),
        {**GOOD, "serverInfo": None},
        {**GOOD, "instructions": None},
        {**GOOD, "capabilities": {"tools": None}},
        {**GOOD, "capabilities": {"tools": {"listChanged": None}, "new": {"a": [1]}}},
        {**GOOD, "capabilities": {"tools": {}, "experimental": {"x": {}}}},
        {**GOOD, "unknown": {"member": True}},
    ],
    ids=repr,
)
async def test_missing_null_or_unknown_members_are_tolerated(result):
    async with mcpwire.Client(answering(result)) as client:
        assert (await client.request("tools/call", {"name": "x"}))["content"]
        assert client.protocol_version == "2025-11-25"
        assert repr(client)


@pytest.mark.parametrize("capabilities", ["absent", None])
@ERAS
async def test_missing_capabilities_mean_none_are_declared(version, capabilities):
    server = FakeServer(TOOLS, version=version)
    if capabilities is None:
        server.members["capabilities"] = None
    else:
        del server.members["capabilities"]
    async with mcpwire.Client(server) as client:
        with pytest.raises(mcpwire.LocalProtocolError, match="'tools'"):
            await client.call_tool("x")
        # Raw requests check no capability.
        assert (await client.request("tools/call", {"name": "x"}))["content"]


@pytest.mark.parametrize(
    "capabilities", [[], "tools", 7, True, {"tools": 7}, {"tools": ["x"]}], ids=repr
)
@ERAS
async def test_capabilities_of_a_wrong_type_are_refused_or_ignored(
    version, capabilities
):
    server = FakeServer(TOOLS, version=version)
    server.members["capabilities"] = capabilities
    client = mcpwire.Client(server)
    outcome = await asyncio.gather(client.connect(), return_exceptions=True)
    assert client.is_connected == (outcome == [None])
    if not client.is_connected:
        assert isinstance(outcome[0], mcpwire.NegotiationError)
        assert "capabilities: expected object" in str(outcome[0].negotiation)
        return
    assert (await client.request("tools/call", {"name": "x"}))["content"]
    with pytest.raises(mcpwire.InvalidMessage, match="apabilities"):
        _ = client.capabilities
    await client.aclose()


@pytest.mark.system("L-V5")
@pytest.mark.parametrize(
    "version", ["2030-01-01", "", "1.0", 20251125, 1.5, True, None, [], {}], ids=repr
)
async def test_unknown_version_is_refused_with_the_known_ones(version):
    client = mcpwire.Client(answering({**GOOD, "protocolVersion": version}))
    with pytest.raises(mcpwire.MCPError) as caught:
        await client.connect()
    assert type(caught.value) is mcpwire.NegotiationError
    assert not client.is_connected
    assert caught.value.negotiation.steps
    message = str(caught.value)
    if not isinstance(version, str):
        assert f"protocolVersion: expected str, got {version!r}" in message
        return
    assert caught.value.supported == (version,)
    assert repr(version) in message or version in message
    assert all(str(known) in message for known in mcpwire.REVISIONS)


@pytest.mark.parametrize(
    "info", [{}, {"name": 7, "version": "1"}, {"name": "x"}, [], "me"], ids=repr
)
async def test_invalid_server_info_fails_no_call(info):
    server = FakeServer(TOOLS)
    server.methods["initialize"] = lambda *_: {**GOOD, "serverInfo": info}
    async with mcpwire.Client(server) as client:
        assert (await client.call_tool("x")).text == "ok"
        if not isinstance(info, dict):
            assert client.server_info is None
            return
        with pytest.raises(mcpwire.InvalidMessage, match="Implementation"):
            _ = client.server_info
