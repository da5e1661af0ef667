"""Floor of HTTP servers: uvicorn and a bare ASGI callable.

Without mcpwire: the whole body, orjson, a response of two ASGI events. Path and header
fields are ignored. uvicorn is configured as by `mcpwire.Server`, so the difference is
the cost that a server adds to uvicorn, which is not the least HTTP server itself.

    PORT=8000 python floor_server_http.py [h11]
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import orjson
import uvicorn
from floor_server import answer

HEAD = (b"content-type", b"application/json")


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["method"] != "POST":  # a client opens the session's stream
        await send({"type": "http.response.start", "status": 405, "headers": []})
        await send({"type": "http.response.body"})
        return
    event = await receive()
    body = event["body"]
    while event["more_body"]:
        event = await receive()
        body += event["body"]
    message = orjson.loads(body)
    data = orjson.dumps(await answer(message)) if "id" in message else b""
    head = [HEAD, (b"content-length", b"%d" % len(data))]
    status = 200 if data else 202
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": data})


def main(parser: str = "httptools") -> None:
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
        http=parser,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=3_600,  # a connection may wait for its next slice
    )
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(*sys.argv[1:])
