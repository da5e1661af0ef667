"""mcp-use's client: `MCPSession.call_tool`."""

import logging
from contextlib import ExitStack, asynccontextmanager

from leg import ARGUMENTS, NAME, parse_leg
from mcp_use import MCPClient

# mcp-use logs each call.
logging.getLogger("mcp_use").setLevel(logging.CRITICAL)


@asynccontextmanager
async def connect(argument):
    leg = parse_leg(argument)
    with ExitStack() as stack:
        if leg.is_stdio:
            target = {"command": leg.server, "args": [leg.era]}
        else:
            target = {"url": stack.enter_context(leg.url())}
        client = MCPClient({"mcpServers": {"null": target}})
        session = await client.create_session("null")
        try:

            async def call():
                return await session.call_tool(NAME, ARGUMENTS)

            leg.check((await call()).content[0].text)
            yield call
        finally:
            await client.close_all_sessions()
