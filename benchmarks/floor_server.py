"""Floor of stdio servers: the least loop that a careful programmer writes.

Without mcpwire: `add_reader`, `os.read` of 64 KiB, orjson, one coroutine per call and
one write per read, no tasks and no deadlines. Only the method, the id and the arguments
of a message are read; there is no error recovery. The server exits at the end of stdin.

    python floor_server.py [task]

With ``task`` each call has a task and a write of its own, as in any server whose
handlers may wait.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import orjson

READ_SIZE = 64 * 1024
META = "_meta"
INFO = {"name": "floor", "version": "1"}
SERVER_META = {"io.modelcontextprotocol/serverInfo": INFO}
OTHER_RESULT = {
    "capabilities": {"tools": {}},
    # The result of `initialize`,
    "protocolVersion": "2025-11-25",
    "serverInfo": INFO,
    # of `server/discover` and of `tools/list`: each ignores the other members.
    "supportedVersions": ["2026-07-28"],
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
    META: SERVER_META,
}


async def echo(text: str) -> str:
    """Return the text."""
    return text


async def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request of either era."""
    if message["method"] != "tools/call":
        return {"jsonrpc": "2.0", "id": message["id"], "result": OTHER_RESULT}
    params = message["params"]
    text = await echo(**params["arguments"])
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"result": text},
    }
    if META in params:
        result["resultType"] = "complete"
        result[META] = SERVER_META
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Pipes:
    """A reader of requests from stdin and writer of responses to stdout."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.rest = b""

    def readable(self) -> None:
        data = os.read(0, READ_SIZE)
        if not data:
            self.ended.set()
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        messages = [orjson.loads(line) for line in lines]
        self.perform([message for message in messages if "id" in message])

    def perform(self, requests: list[dict[str, Any]]) -> None:
        if requests:
            os.write(
                1, b"".join([run_without_task(answer(request)) for request in requests])
            )


class Tasks(Pipes):
    """A variant with a task for each request."""

    def __init__(self) -> None:
        super().__init__()
        self.running: set[asyncio.Task[None]] = set()

    def perform(self, requests: list[dict[str, Any]]) -> None:
        for request in requests:
            task = asyncio.create_task(self.write(request))
            self.running.add(task)
            task.add_done_callback(self.running.discard)

    async def write(self, request: dict[str, Any]) -> None:
        message = await answer(request)
        os.write(1, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))


def run_without_task(coroutine: Any) -> bytes:
    """Run a coroutine that never waits, without a task; return its encoded result."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return orjson.dumps(done.value, option=orjson.OPT_APPEND_NEWLINE)
    raise AssertionError


async def main(kind: str = "") -> None:
    pipes = Tasks() if kind == "task" else Pipes()
    asyncio.get_running_loop().add_reader(0, pipes.readable)
    await pipes.ended.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
