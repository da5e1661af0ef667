"""Call the tool `echo` 1,000 times, one after the other, or with `once` use all."""

import asyncio
import shlex
import sys

from mcp_use import MCPClient, MCPSession


async def use_all(session: MCPSession) -> None:
    await session.list_tools()
    await session.call_tool("echo", {"text": "hi"})
    await session.call_tool("add", {"a": 1, "b": 2})
    for resource in await session.list_resources():
        await session.read_resource(resource.uri)
    for prompt in await session.list_prompts():
        await session.get_prompt(prompt.name)


async def main(target: str, mode: str = "") -> None:
    if target.startswith("http"):
        config = {"url": target}
    else:
        command, *arguments = shlex.split(target)
        config = {"command": command, "args": arguments}
    client = MCPClient({"mcpServers": {"null": config}})
    session = await client.create_session("null")
    if mode == "once":
        await use_all(session)
    for _ in range(0 if mode == "once" else 1_000):
        await session.call_tool("echo", {"text": "hi"})
    await client.close_all_sessions()


asyncio.run(main(*sys.argv[1:]))
