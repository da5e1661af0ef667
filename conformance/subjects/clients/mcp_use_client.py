"""Call the tool `echo` 1,000 times, one call after the other."""

import asyncio
import shlex
import sys

from mcp_use import MCPClient


async def main(target: str) -> None:
    if target.startswith("http"):
        config = {"url": target}
    else:
        command, *arguments = shlex.split(target)
        config = {"command": command, "args": arguments}
    client = MCPClient({"mcpServers": {"null": config}})
    session = await client.create_session("null")
    for _ in range(1_000):
        await session.call_tool("echo", {"text": "hi"})
    await client.close_all_sessions()


asyncio.run(main(sys.argv[1]))
