"""A client and a server in one process, for tests: real messages, no child process."""

import asyncio

import mcpwire
from mcpwire.server.demo import demo_dispatcher


async def main() -> None:
    """Call the embedded server without a process."""
    async with mcpwire.Client(demo_dispatcher()) as client:
        print(client.protocol_version, client.server_info.name)
        print((await client.call_tool("echo", {"message": "hi"})).text)
        print(await client.read_text("demo://greeting/Ada"))


asyncio.run(main())
