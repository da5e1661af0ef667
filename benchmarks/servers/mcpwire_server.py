"""mcpwire's `Server`: on stdio, or over HTTP if PORT is set."""

import os

import mcpwire

server = mcpwire.Server("benchmark", "1")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    if "PORT" in os.environ:
        server.run(
            http=f"127.0.0.1:{os.environ['PORT']}",
            quiet=True,
            uvicorn={"timeout_keep_alive": 3_600},
        )
    else:
        server.run()
