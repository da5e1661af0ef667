"""The floor: the least that a call over stdio can cost in Python on asyncio.

Written by hand and free of mcpwire: `Popen`, `add_reader`, `os.read` of 64 KiB, orjson,
one future and one timer per call, one write per call. It checks nothing, survives
nothing and cannot be cancelled; a client's cost above it is what the client adds.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import orjson

Call = Callable[[], Awaitable[Any]]

READ_SIZE = 64 * 1024
TIMEOUT_S = 30.0
ARGUMENTS = {"text": "hi"}
STAMP = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "mcpwire", "version": "0.1.0.dev0"},
}


class Floor:
    """One child and the calls it has not answered yet."""

    def __init__(self, command: list[str]) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        self.pending: dict[int, asyncio.Future[Any]] = {}
        self.last_id = 0
        self.rest = b""
        self.loop.add_reader(self.stdout, self.readable)

    def readable(self) -> None:
        data = os.read(self.stdout, READ_SIZE)
        if not data:
            raise ConnectionError("the null server went away")
        if self.rest:
            data = self.rest + data
        lines = data.split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            message = orjson.loads(line)
            self.pending.pop(message["id"]).set_result(message["result"])

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        self.last_id = request_id = self.last_id + 1
        future = self.pending[request_id] = self.loop.create_future()
        timer = self.loop.call_later(TIMEOUT_S, expire, future)
        message = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": method,
            "params": params,
        }
        os.write(self.stdin, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        try:
            return await future
        finally:
            timer.cancel()

    def close(self) -> None:
        self.loop.remove_reader(self.stdout)
        with self.process:
            self.process.kill()


def expire(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def check(result: dict[str, Any]) -> None:
    """Fail before anything is measured when the call does not do its work."""
    assert result["content"][0]["type"] == "text", result


@asynccontextmanager
async def legacy(server: str) -> AsyncIterator[Call]:
    """Call a tool as the session era does: nothing but name and arguments."""
    with closing(Floor([server, "--legacy"])) as floor:

        async def call() -> Any:
            params = {"name": "echo", "arguments": ARGUMENTS}
            return await floor.call("tools/call", params)

        check(await call())
        yield call


@asynccontextmanager
async def modern(server: str) -> AsyncIterator[Call]:
    """Call a tool as 2026-07-28 does: each request carries its metadata."""
    with closing(Floor([server, "--modern"])) as floor:

        async def call() -> Any:
            params = {"name": "echo", "arguments": ARGUMENTS, "_meta": STAMP}
            return await floor.call("tools/call", params)

        check(await call())
        yield call
