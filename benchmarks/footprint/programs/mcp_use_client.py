"""Smallest program with mcp-use's client."""

import asyncio

import measurements
from mcp_use import MCPClient


async def main(server, *repeats):
    client = MCPClient({"mcpServers": {"null": {"command": server, "args": []}}})
    session = await client.create_session("null")
    await measurements.measure_calls(
        lambda: session.call_tool("echo", {"text": "hi"}), *repeats
    )
    await client.close_all_sessions()


if arguments := measurements.report_import():
    asyncio.run(main(*arguments))
