"""FastMCP 4 server: on stdio, or over HTTP if PORT is set."""

import os

from fastmcp import FastMCP

server = FastMCP("benchmark", version="1")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    if "PORT" in os.environ:
        server.run(
            "http",
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
        server.run("stdio", log_level="WARNING", show_banner=False)
