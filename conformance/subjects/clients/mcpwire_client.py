"""Call the tool `echo` 1,000 times, one call after the other."""

import asyncio
import sys

from mcpwire import Client


async def main(target: str) -> None:
    async with Client(target) as client:
        for _ in range(1_000):
            await client.call_tool("echo", {"text": "hi"})


asyncio.run(main(sys.argv[1]))
