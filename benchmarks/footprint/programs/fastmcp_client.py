"""Smallest program with FastMCP's client."""

import asyncio

import measurements
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(server, *repeats):
    transport = StdioTransport(server, [], keep_alive=False)
    async with Client(transport, mode="legacy") as client:
        await measurements.measure_calls(
            lambda: client.call_tool("echo", {"text": "hi"}), *repeats
        )


if arguments := measurements.report_import():
    asyncio.run(main(*arguments))
