"""Smallest program with FastMCP's client."""

import asyncio

import told
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(server, *many):
    transport = StdioTransport(server, [], keep_alive=False)
    async with Client(transport, mode="legacy") as client:
        await told.calls(lambda: client.call_tool("echo", {"text": "hi"}), *many)


if words := told.imported():
    asyncio.run(main(*words))
