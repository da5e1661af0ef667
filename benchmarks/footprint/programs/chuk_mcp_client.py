"""Smallest program with chuk-mcp's client."""

import asyncio

import measurements
from chuk_mcp.client import connect_to_server
from chuk_mcp.transports.stdio import StdioParameters


async def main(server, *repeats):
    async with connect_to_server(StdioParameters(command=server, args=[])) as client:
        await measurements.measure_calls(
            lambda: client.call_tool("echo", {"text": "hi"}), *repeats
        )


if arguments := measurements.report_import():
    asyncio.run(main(*arguments))
