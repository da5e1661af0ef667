"""Floor of stdio clients: the least loop that a careful programmer writes.

Without mcpwire: `Popen`, `add_reader`, `os.read` of 64 KiB, orjson, one future per call
and no task. One timer serves all deadlines. A request is written immediately if no
other is in flight; otherwise one write carries all requests of one loop iteration.
There is no validation, error recovery or cancellation. The difference to a client's
cost is the client's own cost.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import orjson
from leg import ARGUMENTS, parse_leg

Call = Callable[[], Awaitable[Any]]

READ_SIZE = 64 * 1024
TIMEOUT_S = 30.0
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "mcpwire", "version": "0.1.0.dev0"},
}


class Pending:
    """The calls in flight, and one timer for all of them.

    All calls have the same timeout, so the call that began first is due first.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.calls: dict[Any, tuple[asyncio.Future[Any], float]] = {}
        self.has_timer = False

    def add(self, key: Any) -> asyncio.Future[Any]:
        future = self.loop.create_future()
        due = self.loop.time() + TIMEOUT_S
        self.calls[key] = future, due
        if not self.has_timer:
            self.has_timer = True
            self.loop.call_at(due, self.expire)
        return future

    def finish(self, key: Any, result: Any) -> None:
        self.calls.pop(key)[0].set_result(result)

    def expire(self) -> None:
        now = self.loop.time()
        for key, (future, due) in list(self.calls.items()):
            if due > now:
                self.loop.call_at(due, self.expire)
                return
            del self.calls[key]
            future.set_exception(TimeoutError())
        self.has_timer = False


class Floor:
    """A child process and its pending calls."""

    def __init__(self, command: list[str]) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        self.pending = Pending()
        self.unsent: list[bytes] = []
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
            self.pending.finish(message["id"], message["result"])

    def call(self, method: str, params: dict[str, Any]) -> asyncio.Future[Any]:
        self.last_id = request_id = self.last_id + 1
        message = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": method,
            "params": params,
        }
        line = orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
        if not self.pending.calls:
            os.write(self.stdin, line)
        else:
            if not self.unsent:
                self.loop.call_soon(self.flush)
            self.unsent.append(line)
        return self.pending.add(request_id)

    def flush(self) -> None:
        os.write(self.stdin, b"".join(self.unsent))
        self.unsent.clear()

    def close(self) -> None:
        self.loop.remove_reader(self.stdout)
        with self.process:
            self.process.kill()


def check(result: dict[str, Any]) -> None:
    """Assert before the measurement that a call returns the expected result."""
    assert result["content"][0]["type"] == "text", result


@asynccontextmanager
async def connect(argument: str) -> AsyncIterator[Call]:
    """Yield a function that calls the tool; 2026-07-28 sends metadata each time."""
    leg = parse_leg(argument)
    meta = {"_meta": META} if leg.is_modern else {}
    with closing(Floor([leg.server, leg.era])) as floor:

        async def call() -> Any:
            params = {"name": "echo", "arguments": ARGUMENTS, **meta}
            return await floor.call("tools/call", params)

        check(await call())
        yield call
