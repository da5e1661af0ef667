"""Call `echo` sequentially: 1,000 times (200 over HTTP), or with `once` use all."""

import asyncio
import shlex
import sys
from typing import Any

from chuk_mcp.client import connect_to_server
from chuk_mcp.transports.http import StreamableHTTPParameters, StreamableHTTPTransport
from chuk_mcp.transports.stdio import StdioParameters


async def use_all(client: Any) -> None:
    await client.list_tools()
    await client.call_tool("echo", {"text": "hi"})
    await client.call_tool("add", {"a": 1, "b": 2})
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def main(target: str, mode: str = "") -> None:
    calls = 1_000
    if target.startswith("http"):
        calls = 200  # each takes 60 ms
        transport = StreamableHTTPTransport(StreamableHTTPParameters(url=target))
    else:
        command, *arguments = shlex.split(target)
        transport = StdioParameters(command=command, args=arguments)
    async with connect_to_server(transport) as client:
        if mode == "once":
            await use_all(client)
            return
        for _ in range(calls):
            await client.call_tool("echo", {"text": "hi"})


asyncio.run(main(*sys.argv[1:]))
