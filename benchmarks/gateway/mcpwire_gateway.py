"""mcpwire's `Gateway` for one server: on stdio, or over HTTP if PORT is set."""

import json
import os

import mcpwire
from mcpwire.gateway import Gateway

upstream = json.loads(os.environ["UPSTREAM"])
target = upstream if isinstance(upstream, str) else mcpwire.Stdio(*upstream)
share = os.environ.get("SHARE", "session")
gateway = Gateway({"null": target}, names=mcpwire.NamePolicy.bare(), share=share)

if __name__ == "__main__":
    if "PORT" in os.environ:
        gateway.run(
            http=f"127.0.0.1:{os.environ['PORT']}",
            quiet=True,
            uvicorn={"timeout_keep_alive": 3_600},
        )
    else:
        gateway.run()
