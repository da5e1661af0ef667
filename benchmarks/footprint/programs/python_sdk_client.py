"""Smallest program with the official Python SDK."""

import asyncio

import measurements
from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(server, *repeats):
    async with Client(StdioServerParameters(command=server), mode="legacy") as client:
        await measurements.measure_calls(
            lambda: client.call_tool("echo", {"text": "hi"}), *repeats
        )


if arguments := measurements.report_import():
    asyncio.run(main(*arguments))
