"""Smallest program with mcp-use's client."""

import asyncio

import told
from mcp_use import MCPClient


async def main(server, *many):
    client = MCPClient({"mcpServers": {"null": {"command": server, "args": []}}})
    session = await client.create_session("null")
    await told.calls(lambda: session.call_tool("echo", {"text": "hi"}), *many)
    await client.close_all_sessions()


if words := told.imported():
    asyncio.run(main(*words))
