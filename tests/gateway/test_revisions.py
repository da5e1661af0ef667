"""A gateway that speaks some revisions only answers what those have."""

from __future__ import annotations

import asyncio

import pytest

import mcpwire
from mcpwire.gateway import Gateway
from mcpwire.versions import REVISIONS

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
async def test_it_may_speak_a_single_one(revision):
    server = mcpwire.Server("one")

    @server.tool
    async def echo(text: str) -> str:
        return text

    gateway = Gateway({"one": server}, revisions=[revision])
    async with asyncio.timeout(PATIENCE_S), mcpwire.Client(gateway) as client:
        assert client.protocol_version == revision
        result = await client.call_tool("one_echo", {"text": "hi"})
    assert result.text == "hi"
