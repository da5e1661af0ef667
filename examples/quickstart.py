"""List a server's tools and call one."""

import asyncio, mcpwire  # noqa: E401, I001 - six lines are six lines


async def main() -> None:
    async with mcpwire.Client(
        "npx -y @modelcontextprotocol/server-everything"
    ) as client:
        print([tool.name for tool in await client.list_tools()])
        print((await client.call_tool("get-sum", {"a": 2, "b": 3})).text)


asyncio.run(main())
