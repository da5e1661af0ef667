"""Floor server of large results: orjson on stdio, or with uvicorn if PORT is set."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

TEXTS: dict[int, str] = {}
HEAD = (b"content-type", b"application/json")
SIZE = 64 * 1024


def answer(request: bytes) -> bytes:
    """Return the encoded response to a request; empty for a notification."""
    message = orjson.loads(request)
    if "id" not in message:
        return b""
    result: dict[str, Any]
    if message["method"] == "initialize":
        info = {"name": "floor", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "serverInfo": info}
        result["capabilities"] = {"tools": {}}
    else:
        kib = message["params"]["arguments"]["kib"]
        text = TEXTS.setdefault(kib, "") or "x" * (kib * 1024)
        TEXTS[kib] = text
        result = {"content": [{"type": "text", "text": text}]}
    response = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE)


def stdio() -> None:
    while request := sys.stdin.buffer.readline():
        data = memoryview(answer(request))
        while data:
            data = data[os.write(1, data) :]


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["method"] != "POST":  # a client opens the session's stream
        await send({"type": "http.response.start", "status": 405, "headers": []})
        await send({"type": "http.response.body"})
        return
    data = answer((await receive())["body"])
    head = [HEAD, (b"content-length", b"%d" % len(data))]
    status = 200 if data else 202
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": data})


def http(port: int) -> None:
    import uvicorn

    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=3_600,
    )


if __name__ == "__main__":
    if "PORT" in os.environ:
        http(int(os.environ["PORT"]))
    else:
        stdio()
