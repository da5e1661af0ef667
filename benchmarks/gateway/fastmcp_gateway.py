"""FastMCP proxy for one server: on stdio, or over HTTP if PORT is set.

The proxy gets a connected client: with an unconnected one, or with a target, it opens
and closes a session for each request.
"""

import json
import os

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy

upstream = json.loads(os.environ["UPSTREAM"])


async def main():
    if isinstance(upstream, str):
        transport = StreamableHttpTransport(upstream)
    else:
        command, *arguments = upstream[0], *upstream[1]
        transport = StdioTransport(command, arguments)
    async with Client(transport) as client:
        proxy = create_proxy(client, name="benchmark")
        if "PORT" in os.environ:
            await proxy.run_http_async(
                port=int(os.environ["PORT"]),
                json_response=True,
                log_level="WARNING",
                show_banner=False,
                uvicorn_config={
                    "access_log": False,
                    "log_level": "warning",
                    "timeout_keep_alive": 3_600,
                },
            )
        else:
            await proxy.run_stdio_async(log_level="WARNING", show_banner=False)


anyio.run(main)
