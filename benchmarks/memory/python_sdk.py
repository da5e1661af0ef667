"""The official Python SDK 2.x: its client, given its server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.client import Client
from mcp.server.mcpserver import MCPServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# As it names the eras; of its own accord it takes the newer one, where it hands over
# objects and no messages.
MODES = {"session": "legacy", "stateless": "auto"}

server = MCPServer("benchmark", version="1", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Answer with the text."""
    return text


@asynccontextmanager
async def typed(era: str) -> AsyncIterator[Any]:
    """Call a tool as a program does."""
    async with Client(server, mode=MODES[era], read_timeout_seconds=30) as client:

        async def call() -> Any:
            return await client.call_tool("echo", {"text": "hi"})

        result = await call()
        assert result.content[0].text == "hi", result
        yield call
