"""Smallest program with the official Python SDK."""

import asyncio

import told
from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(server, *many):
    async with Client(StdioServerParameters(command=server), mode="legacy") as client:
        await told.calls(lambda: client.call_tool("echo", {"text": "hi"}), *many)


if words := told.imported():
    asyncio.run(main(*words))
