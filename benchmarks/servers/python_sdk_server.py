"""Server of the official Python SDK 2.x: on stdio, or over HTTP if PORT is set."""

import os

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("benchmark", version="1", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    if "PORT" in os.environ:
        uvicorn.run(
            server.streamable_http_app(json_response=True),
            port=int(os.environ["PORT"]),
            log_level="warning",
            access_log=False,
            timeout_keep_alive=3_600,
        )
    else:
        server.run("stdio")
