"""The official Python SDK 2.x: client connected to a server in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.client import Client
from mcp.server.mcpserver import MCPServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# The SDK's names of the eras; with its default, the newer one, it passes objects
# instead of messages.
MODES = {"session": "legacy", "stateless": "auto"}

server = MCPServer("benchmark", version="1", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


@asynccontextmanager
async def typed(era: str) -> AsyncIterator[Any]:
    """Yield a function that calls the tool by `Client.call_tool`."""
    async with Client(server, mode=MODES[era], read_timeout_seconds=30) as client:

        async def call() -> Any:
            return await client.call_tool("echo", {"text": "hi"})

        result = await call()
        assert result.content[0].text == "hi", result
        yield call
