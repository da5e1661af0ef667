"""Tool schemas with remote references: none of them is fetched."""

import socket

import pytest
from attacked_server import build
from raw_client import Hand, request

import mcpwire


@pytest.fixture
def no_network(monkeypatch):
    """Fail every DNS lookup and connection."""

    def refuse(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


REMOTE = "http://127.0.0.1:9/schema.json"

REFERRING = [
    {"type": "object", "properties": {"x": {"$ref": REMOTE}}},
    {"type": "object", "allOf": [{"$ref": REMOTE}]},
    {"type": "object", "$defs": {"a": {"$ref": REMOTE}}, "$ref": "#/$defs/a"},
    {"type": "object", "properties": {"x": {"$dynamicRef": REMOTE}}},
    {"type": "object", "$schema": REMOTE},
    {"type": "object", "$id": REMOTE, "properties": {"x": {"$ref": "other.json"}}},
    {"type": "object", "properties": {"x": {"$ref": "file:///etc/passwd"}}},
]


@pytest.mark.case("F10")
@pytest.mark.parametrize("schema", REFERRING)
@pytest.mark.parametrize("which", ["input_schema", "output_schema"])
@pytest.mark.usefixtures("no_network")
async def test_remote_schema_references_are_not_fetched(which, schema):
    server = build()

    async def tool(arguments: dict):
        return arguments

    options = {"input_schema": {"type": "object"}, which: schema}
    try:
        server.add_tool(tool, **options)
    except (ValueError, mcpwire.MCPError):
        return  # the author gets the error at once
    hand = Hand(server.dispatcher, "2025-11-25")
    params = {"name": "tool", "arguments": {"x": 1}}
    hand.send(request(1, "tools/call", params), request(2, "tools/list"))
    assert {each["id"] for each in await hand.settled()} == {1, 2}
