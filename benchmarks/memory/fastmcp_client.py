"""FastMCP 4: client connected to a server in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastmcp import Client, FastMCP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODES = {"session": "legacy", "stateless": "auto"}

server = FastMCP("benchmark", version="1")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@asynccontextmanager
async def typed(era: str) -> AsyncIterator[Any]:
    """Yield a function that calls the tool by `Client.call_tool`."""
    async with Client(server, mode=MODES[era], timeout=30) as client:

        async def call() -> Any:
            return await client.call_tool("echo", {"text": "hi"})

        result = await call()
        assert result.data == "hi", result
        yield call
