"""mcpwire's client and server: in memory, and over HTTP without a socket."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from leg import ARGUMENTS

import mcpwire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from floor import Call

REVISIONS = {"session": "2025-11-25", "stateless": "2026-07-28"}


def create_server() -> mcpwire.Server:
    """Return a server with the tool."""
    server = mcpwire.Server("benchmark", "1")

    @server.tool
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    return server


@asynccontextmanager
async def open_client(target: Any, era: str) -> AsyncIterator[mcpwire.Client]:
    """Yield a client with the protocol version of an era."""
    async with mcpwire.Client(target, mode=REVISIONS[era]) as client:
        assert str(client.protocol_version) == REVISIONS[era], client.protocol_version
        yield client


@asynccontextmanager
async def typed(era: str) -> AsyncIterator[Call]:
    """Yield a function that calls the tool by `call_tool`."""
    async with open_client(create_server(), era) as client:

        async def call() -> Any:
            return await client.call_tool("echo", ARGUMENTS)

        result = await call()
        assert result.text == ARGUMENTS["text"], result
        yield call


@asynccontextmanager
async def raw(era: str) -> AsyncIterator[Call]:
    """Yield a function that calls the tool by `request` with plain dicts."""
    async with open_client(create_server(), era) as client:

        async def call() -> Any:
            params = {"name": "echo", "arguments": ARGUMENTS}
            return await client.request("tools/call", params)

        result = await call()
        assert result["content"][0]["text"] == ARGUMENTS["text"], result
        yield call


@asynccontextmanager
async def asgi(era: str) -> AsyncIterator[Call]:
    """Yield a function that calls the tool through the ASGI application, by httpx."""
    import httpx

    from mcpwire.testing import AsgiTransport

    async with AsyncExitStack() as stack:
        transport = AsgiTransport(create_server().asgi())
        http = await stack.enter_async_context(httpx.AsyncClient(transport=transport))
        target = mcpwire.Http("http://localhost/mcp", http_client=http)
        client = await stack.enter_async_context(open_client(target, era))

        async def call() -> Any:
            return await client.call_tool("echo", ARGUMENTS)

        result = await call()
        assert result.text == ARGUMENTS["text"], result
        yield call
