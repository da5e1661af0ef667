"""Call the tool `echo` 1,000 times, one after the other, or with `once` use all."""

import asyncio
import sys

from mcpwire import Client


async def use_all(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("echo", {"text": "hi"})
    await client.call_tool("add", {"a": 1, "b": 2})
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def main(target: str, mode: str = "") -> None:
    async with Client(target) as client:
        if mode == "once":
            await use_all(client)
            return
        for _ in range(1_000):
            await client.call_tool("echo", {"text": "hi"})


asyncio.run(main(*sys.argv[1:]))
