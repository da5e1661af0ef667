"""Smallest program with mcpwire: connect over stdio, call a tool."""

import asyncio

import told

import mcpwire


async def main(server, *many):
    async with mcpwire.Client(mcpwire.Stdio(server)) as client:
        await told.calls(lambda: client.call_tool("echo", {"text": "hi"}), *many)


mcpwire.Client  # noqa: B018 - loads the class
if words := told.imported():
    asyncio.run(main(*words))
