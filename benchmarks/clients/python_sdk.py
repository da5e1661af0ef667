"""The official Python SDK's client: `Client.call_tool`."""

from contextlib import ExitStack, asynccontextmanager

from clients.leg import ARGUMENTS, NAME, parse
from mcp import Client
from mcp.client.stdio import StdioServerParameters


@asynccontextmanager
async def connected(argument):
    leg = parse(argument)
    with ExitStack() as stack:
        if leg.is_stdio:
            target = StdioServerParameters(command=leg.server, args=[leg.era])
        else:
            target = stack.enter_context(leg.url())
        async with Client(target, mode="auto" if leg.is_modern else "legacy") as client:

            async def call():
                return await client.call_tool(NAME, ARGUMENTS)

            leg.check((await call()).content[0].text, client.protocol_version)
            yield call
