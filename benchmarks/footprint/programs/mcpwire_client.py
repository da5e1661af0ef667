"""Smallest program with mcpwire: connect over stdio, call a tool."""

import asyncio

import measurements

import mcpwire


async def main(server, *repeats):
    async with mcpwire.Client(mcpwire.Stdio(server)) as client:
        await measurements.measure_calls(
            lambda: client.call_tool("echo", {"text": "hi"}), *repeats
        )


mcpwire.Client  # noqa: B018 - loads the class
if arguments := measurements.report_import():
    asyncio.run(main(*arguments))
