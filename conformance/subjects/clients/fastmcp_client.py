"""Call the tool `echo` 1,000 times, one call after the other."""

import asyncio
import shlex
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(target: str) -> None:
    if not target.startswith("http"):
        command, *arguments = shlex.split(target)
        target = StdioTransport(command, arguments, keep_alive=False)
    async with Client(target) as client:
        for _ in range(1_000):
            await client.call_tool("echo", {"text": "hi"})


asyncio.run(main(sys.argv[1]))
