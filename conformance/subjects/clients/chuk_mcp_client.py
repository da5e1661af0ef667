"""Call the tool `echo` sequentially: 1,000 times over stdio, 200 over HTTP."""

import asyncio
import shlex
import sys

from chuk_mcp.client import connect_to_server
from chuk_mcp.transports.http import StreamableHTTPParameters, StreamableHTTPTransport
from chuk_mcp.transports.stdio import StdioParameters


async def main(target: str) -> None:
    calls = 1_000
    if target.startswith("http"):
        calls = 200  # each takes 60 ms
        transport = StreamableHTTPTransport(StreamableHTTPParameters(url=target))
    else:
        command, *arguments = shlex.split(target)
        transport = StdioParameters(command=command, args=arguments)
    async with connect_to_server(transport) as client:
        for _ in range(calls):
            await client.call_tool("echo", {"text": "hi"})


asyncio.run(main(sys.argv[1]))
