"""The floor: the least loop for calls within one process on asyncio.

Two ends that are never called from inside their own calls, and share no object: each
message is encoded, cut into lines and decoded, and what one turn of the loop brings is
handed over together. One future per call, one timer for all deadlines, and no task: the
server runs a function that never waits where it reads the request. It checks nothing,
survives nothing and cannot be cancelled.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from floor import STAMP, Call, Pending, check
from floor_server import at_once
from leg import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SERVED_BY = {
    "io.modelcontextprotocol/serverInfo": {"name": "benchmark", "version": "1"}
}


async def echo(text: str) -> str:
    """Return the text: the work that every server does here."""
    return text


class Wire:
    """Hands over what was written during one turn of the loop in the next."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.receive = receive
        self.gathered: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self.gathered:
            self.loop.call_soon(self.flush)
        self.gathered.append(data)

    def flush(self) -> None:
        data = b"".join(self.gathered)
        self.gathered.clear()
        self.receive(data)


async def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return what a request is answered with."""
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
    """The calls that are not answered yet, and the server that answers them."""

    def __init__(self) -> None:
        self.requests = Wire(self.serve)
        self.answers = Wire(self.receive)
        self.pending = Pending()
        self.last_id = 0

    def serve(self, data: bytes) -> None:
        for line in data.splitlines():
            self.answers.write(at_once(answer(orjson.loads(line))))

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
