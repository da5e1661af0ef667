"""Smallest program with chuk-mcp's client."""

import asyncio

import told
from chuk_mcp.client import connect_to_server
from chuk_mcp.transports.stdio import StdioParameters


async def main(server, *many):
    async with connect_to_server(StdioParameters(command=server, args=[])) as client:
        await told.calls(lambda: client.call_tool("echo", {"text": "hi"}), *many)


if words := told.imported():
    asyncio.run(main(*words))
