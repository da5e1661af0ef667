"""The floor: the least that a call within one process can cost on asyncio.

Two ends that are never called from inside their own calls, and share no object: each
message is encoded, handed over in a turn of the loop, cut into lines and decoded. The
client has a future and a timer per call, the server a task per request. It checks
nothing, survives nothing and cannot be cancelled.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from floor import ARGUMENTS, STAMP, TIMEOUT_S, Call, check, expire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

LINE = orjson.OPT_APPEND_NEWLINE
SERVED_BY = {
    "io.modelcontextprotocol/serverInfo": {"name": "benchmark", "version": "1"}
}


async def echo(text: str) -> str:
    """Return the text: the work that every server does here."""
    return text


class Server:
    """Answers each request by a task of its own."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.send = send
        self.tasks: set[asyncio.Task[None]] = set()

    def receive(self, data: bytes) -> None:
        for line in data.splitlines():
            task = self.loop.create_task(self.answer(orjson.loads(line)))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def answer(self, message: dict[str, Any]) -> None:
        params = message["params"]
        text = await echo(**params["arguments"])
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": {"result": text},
        }
        if "_meta" in params:
            result = {"resultType": "complete", **result, "_meta": SERVED_BY}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self.send(orjson.dumps(answer, option=LINE))


class Client:
    """The calls that are not answered yet."""

    def __init__(self) -> None:
        self.loop = loop = asyncio.get_running_loop()
        server = Server(lambda data: void(loop.call_soon(self.receive, data)))
        self.send = lambda data: void(loop.call_soon(server.receive, data))
        self.pending: dict[int, asyncio.Future[Any]] = {}
        self.last_id = 0

    def receive(self, data: bytes) -> None:
        for line in data.splitlines():
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
        self.send(orjson.dumps(message, option=LINE))
        try:
            return await future
        finally:
            timer.cancel()


def void(_: object) -> None:
    """Return nothing."""


@asynccontextmanager
async def through_bytes(era: str) -> AsyncIterator[Call]:
    """Call a tool of the other end."""
    client = Client()
    stamp = {"_meta": STAMP} if era == "stateless" else {}

    async def call() -> Any:
        params = {"name": "echo", "arguments": ARGUMENTS, **stamp}
        return await client.call("tools/call", params)

    check(await call())
    yield call


@asynccontextmanager
async def bare_task(_: str) -> AsyncIterator[Call]:
    """Run the function in a task and wait for it: no bytes, nothing is kept apart."""

    def call() -> Awaitable[Any]:
        return asyncio.get_running_loop().create_task(echo(**ARGUMENTS))

    assert await call() == ARGUMENTS["text"]
    yield call
