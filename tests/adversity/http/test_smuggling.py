"""Names and values of a server inject no header."""

import re
import string

import pytest
from faulty import ONCE, connected, outcome
from mcp_server import scripted_mcp, tool
from raw_server import json_reply

import mcpwire
from mcpwire import MCPError


def shown(value):
    return ascii(value)[:20]


NASTY = {
    "lines": "a\r\nX-Evil: 1",
    "line feed": "a\nb",
    "nul": "a\x00b",
    "escape": "\x1b[2J",
    "not ascii": "Zürich ☃",
    "astral": "\U0001f600",
    "spaces around": " a ",
    "tab": "\ta",
    "like ours": "=?base64?eA==?=",
    "empty": "",
    "delete": "a\x7fb",
}


def heads_are_clean(server):
    """Check that no request head has a control character besides its line ends."""
    for request in server.requests:
        start = request.raw[: len(request.raw) - len(request.body)]
        lines = start.removesuffix(b"\r\n\r\n").split(b"\r\n")
        assert all(re.fullmatch(rb"[\x20-\x7e\x80-\xff]+", line) for line in lines), (
            start
        )
        assert not any(line.lower().startswith(b"x-evil") for line in lines)
    return True


@pytest.mark.parametrize("case", NASTY)
@pytest.mark.attack("S19")
@pytest.mark.rule("HDR-17", "HDR-18")
async def test_mirrored_values_cannot_inject_headers(case):
    value = NASTY[case]
    with scripted_mcp("stateless") as server:
        server.tools.append(tool(f"tool {value}"))
        async with connected(server) as client:
            await client.list_tools()
            result = await client.call_tool("mirrored", {"region": value})
            assert result.text == value
            # The name of a tool and a URI are sent in a header, too.
            await outcome(client.call_tool(f"tool {value}"))
            await outcome(client.read_resource(f"memo://{value}"))
    assert heads_are_clean(server)


@pytest.mark.system("U27")
@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "a\r\nX-Evil: 1", "ä", "a\x00"], ids=shown
)
@pytest.mark.attack("S19")
@pytest.mark.rule("HDR-11")
async def test_tool_with_an_invalid_header_name_is_dropped(name):
    with scripted_mcp("stateless") as server:
        evil = {"type": "string", "x-mcp-header": name}
        server.tools.append(tool("evil", region=evil))
        async with connected(server) as client:
            names = [each.name for each in await client.list_tools()]
            assert "evil" not in names
            assert "mirrored" in names
            result = await client.call_tool("mirrored", {"region": "x"})
            assert result.text == "x"
    assert heads_are_clean(server)


@pytest.mark.parametrize("id", ["a b", "ä", "x" * 70_000], ids=shown)
@pytest.mark.attack("S19")
@pytest.mark.rule("LHTTP-23")
async def test_invalid_session_id_is_never_sent(id):
    def handler(request, conn):
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"},
        }
        answer = {"jsonrpc": "2.0", "id": request.json["id"], "result": result}
        conn.send(json_reply(answer, mcp_session_id=id))
        return True

    with scripted_mcp() as server:
        server.on["initialize"] = handler
        client = mcpwire.Client(server.url, recovery=ONCE)
        error = await outcome(client.connect())
        await client.aclose()
    assert isinstance(error, MCPError), error
    assert len(str(error)) < 2000
    assert all("mcp-session-id" not in request.headers for request in server.requests)


@pytest.mark.parametrize("name", string.printable[62:94])
@pytest.mark.attack("S19")
def test_non_token_character_in_a_header_name_is_refused(name):
    if name not in "!#$%&'*+-.^_`|~":
        with pytest.raises(ValueError, match="header"):
            mcpwire.Http("http://127.0.0.1/mcp", headers={f"x{name}y": "1"})
