"""chuk-mcp's client: `MCPClient.call_tool`."""

import logging
from contextlib import ExitStack, asynccontextmanager

from chuk_mcp.client import connect_to_server
from chuk_mcp.transports.http import StreamableHTTPParameters, StreamableHTTPTransport
from chuk_mcp.transports.stdio import StdioParameters
from leg import ARGUMENTS, NAME, parse_leg

# chuk-mcp kills its child without asyncio, which logs a warning each time.
logging.getLogger("asyncio").setLevel(logging.ERROR)


@asynccontextmanager
async def connect(argument):
    leg = parse_leg(argument)
    with ExitStack() as stack:
        if leg.is_stdio:
            target = StdioParameters(command=leg.server, args=[leg.era])
        else:
            url = stack.enter_context(leg.url())
            target = StreamableHTTPTransport(StreamableHTTPParameters(url=url))
        async with connect_to_server(target) as client:

            async def call():
                return await client.call_tool(NAME, ARGUMENTS)

            leg.check((await call()).content[0]["text"])
            yield call
