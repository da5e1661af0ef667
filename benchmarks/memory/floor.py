"""Floor of calls within one process: the least loop on asyncio.

Client and server are not called reentrantly and share no object: each message is
encoded, split into lines and decoded, and all messages of one loop iteration are
delivered together. One future per call, one timer for all deadlines, and no task: the
server runs a function that never waits while it reads the request. There is no
validation, error recovery or cancellation.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from floor import META, Call, Pending, check
from floor_server import run_without_task
from leg import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SERVED_BY = {
    "io.modelcontextprotocol/serverInfo": {"name": "benchmark", "version": "1"}
}


async def echo(text: str) -> str:
    """Return the text; all servers of this benchmark have this tool."""
    return text


class Direction:
    """One direction: delivers the data of one loop iteration in the next one."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.receive = receive
        self.unsent: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self.unsent:
            self.loop.call_soon(self.flush)
        self.unsent.append(data)

    def flush(self) -> None:
        data = b"".join(self.unsent)
        self.unsent.clear()
        self.receive(data)


async def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request."""
    params = message["params"]
    text = await echo(**params["arguments"])
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"result": text},
    }
    if "_meta" in params:
        result = {"resultType": "complete", **result, "_meta": SERVED_BY}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Client:
    """A client with its pending calls, and the server."""

    def __init__(self) -> None:
        self.requests = Direction(self.serve)
        self.responses = Direction(self.receive)
        self.pending = Pending()
        self.last_id = 0

    def serve(self, data: bytes) -> None:
        for line in data.splitlines():
            self.responses.write(run_without_task(answer(orjson.loads(line))))

    def receive(self, data: bytes) -> None:
        for line in data.splitlines():
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
        self.requests.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        return self.pending.add(request_id)


@asynccontextmanager
async def through_bytes(era: str) -> AsyncIterator[Call]:
    """Yield a function that calls the tool through encoded messages."""
    client = Client()
    meta = {"_meta": META} if era == "stateless" else {}

    async def call() -> Any:
        params = {"name": "echo", "arguments": ARGUMENTS, **meta}
        return await client.call("tools/call", params)

    check(await call())
    yield call


@asynccontextmanager
async def bare_task(_: str) -> AsyncIterator[Call]:
    """Yield a call that runs the tool's function in a task, without messages."""

    def call() -> Awaitable[Any]:
        return asyncio.get_running_loop().create_task(echo(**ARGUMENTS))

    assert await call() == ARGUMENTS["text"]
    yield call
