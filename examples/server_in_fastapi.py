"""A server in a FastAPI application: `uvicorn server_in_fastapi:app`.

Run as a script, it calls itself once, without a socket.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

import mcpwire
from mcpwire.testing import AsgiTransport

TOKENS = {"a-long-random-text": {"subject": "ada", "scopes": ["orders"]}}

server = mcpwire.Server(
    "orders",
    auth=mcpwire.ResourceServer(
        "http://localhost:8000/api/mcp", verifiers=[mcpwire.StaticTokens(TOKENS)]
    ),
)


@server.tool(scopes=["orders"])
async def order(drink: str, ctx: mcpwire.Context) -> str:
    """Order a drink."""
    assert ctx.principal is not None  # guaranteed by `auth`
    return f"{drink} for {ctx.principal.subject}"


mcp = server.asgi()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Start and end the MCP application."""
    await mcp.start()
    yield
    await mcp.drain()
    await mcp.aclose()


app = FastAPI(lifespan=lifespan)
app.mount("/api", mcp)


@app.get("/")
async def home() -> dict[str, str]:
    """Return the path of the MCP server."""
    return {"mcp": "/api/mcp"}


async def main() -> None:
    async with httpx.AsyncClient(transport=AsgiTransport(app)) as http_client:
        url = (
            "http://localhost:8000"
            + (await http_client.get("http://localhost:8000/")).json()["mcp"]
        )
        print((await http_client.post(url)).status_code, "without a token")
        target = mcpwire.Http(url, auth="a-long-random-text", http_client=http_client)
        async with mcpwire.Client(target) as client:
            print((await client.call_tool("order", {"drink": "tea"})).text)


if __name__ == "__main__":
    asyncio.run(main())
