"""mcp-proxy for one server: on stdio, or over HTTP if PORT is set.

It supports two directions only: HTTP to a child process, and stdio to a URL.
"""

import functools
import json
import os
import sys

import uvicorn
from mcp_proxy.__main__ import main

upstream = json.loads(os.environ["UPSTREAM"])
# mcp-proxy has no option for the idle timeout of connections; uvicorn's 5 s are too few
# while other programs are measured.
uvicorn.Config = functools.partial(uvicorn.Config, timeout_keep_alive=3_600)
words = ["--log-level", "WARNING"]
if "PORT" in os.environ:
    words += ["--port", os.environ["PORT"], "--", upstream[0], *upstream[1]]
else:
    words += ["--transport", "streamablehttp", upstream]
sys.argv = ["mcp-proxy", *words]

if __name__ == "__main__":
    main()
