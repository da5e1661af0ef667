"""mcp-proxy before one server: on stdio, or over HTTP where PORT says so.

It has these two ways only: over HTTP before a child, on stdio before a URL.
"""

import functools
import json
import os
import sys

import uvicorn
from mcp_proxy.__main__ import main

upstream = json.loads(os.environ["UPSTREAM"])
# It has no option for how long a connection may be idle; five seconds are too few where
# others are measured meanwhile.
uvicorn.Config = functools.partial(uvicorn.Config, timeout_keep_alive=3_600)
words = ["--log-level", "WARNING"]
if "PORT" in os.environ:
    words += ["--port", os.environ["PORT"], "--", upstream[0], *upstream[1]]
else:
    words += ["--transport", "streamablehttp", upstream]
sys.argv = ["mcp-proxy", *words]

if __name__ == "__main__":
    main()
