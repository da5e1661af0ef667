"""The official Python SDK's client: `Client.call_tool`."""

from contextlib import AsyncExitStack, asynccontextmanager

from leg import ARGUMENTS, NAME, parse_leg
from mcp import Client
from mcp.client.stdio import StdioServerParameters


@asynccontextmanager
async def connect(argument):
    leg = parse_leg(argument)
    async with AsyncExitStack() as stack:
        if leg.is_stdio:
            target = StdioServerParameters(command=leg.server, args=[leg.era])
        else:
            target = stack.enter_context(leg.url())
        with leg.start_on_server_core():
            mode = "auto" if leg.is_modern else "legacy"
            client = await stack.enter_async_context(Client(target, mode=mode))

        async def call():
            return await client.call_tool(NAME, ARGUMENTS)

        leg.check((await call()).content[0].text, client.protocol_version)
        yield call
