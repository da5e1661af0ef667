"""mcpwire's `Server` with a tool of large results; over HTTP if PORT is set."""

import os

import mcpwire

server = mcpwire.Server("benchmark", "1")
TEXTS = {}


@server.tool(structured=False)
async def echo(kib: int) -> str:
    """Return a text of this size."""
    if kib not in TEXTS:
        TEXTS[kib] = "x" * (kib * 1024)
    return TEXTS[kib]


if __name__ == "__main__":
    if "PORT" in os.environ:
        server.run(
            http=f"127.0.0.1:{os.environ['PORT']}",
            quiet=True,
            uvicorn={"timeout_keep_alive": 3_600},
        )
    else:
        server.run()
