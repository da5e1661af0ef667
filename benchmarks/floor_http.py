"""Floor of HTTP clients: the least loop that a careful programmer writes.

Without mcpwire: a `BufferedProtocol` with 64 KiB, httptools, orjson, one future and one
write per call and no task. Each call in flight has its own connection; idle connections
wait in a list. One timer serves all deadlines. Status and header fields are ignored;
there is no error recovery or cancellation. The difference to a client's cost is the
client's own cost.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httptools
import orjson
from floor import META, READ_SIZE, Call, Pending, check
from leg import ARGUMENTS, parse_leg
from null.server import run_null_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BRACE = ord("{")
SESSION_FIELDS = (
    "mcp-protocol-version: 2025-11-25\r\n"
    "mcp-session-id: 00000000-0000-4000-8000-000000000000\r\n"
)
STATELESS_FIELDS = (
    "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n"
)


def head(port: int, *, modern: bool) -> bytes:
    """Return mcpwire's request head up to the number of the Content-Length."""
    return (
        "POST /mcp HTTP/1.1\r\n"
        f"host: 127.0.0.1:{port}\r\n"
        "user-agent: mcpwire/0.1.0.dev0\r\n"
        "accept-encoding: identity\r\n"
        f"{STATELESS_FIELDS if modern else SESSION_FIELDS}"
        "content-type: application/json\r\n"
        "accept: application/json, text/event-stream\r\n"
        "content-length: "
    ).encode()


def params(*, modern: bool) -> dict[str, Any]:
    """Return the parameters of a `tools/call` in an era."""
    meta = {"_meta": META} if modern else {}
    return {"name": "echo", "arguments": ARGUMENTS, **meta}


class Connection(asyncio.BufferedProtocol):
    """A connection with at most one call in flight."""

    body: bytes

    def __init__(self, owner: Floor) -> None:
        self.owner = owner
        self.memory = memoryview(bytearray(READ_SIZE))
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.memory

    def buffer_updated(self, nbytes: int) -> None:
        self.parser.feed_data(self.memory[:nbytes])

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        body = self.body
        if body[0] != BRACE:  # an SSE event: JSON data, then white space
            body = body[body.index(BRACE) :]
        self.owner.idle.append(self)
        self.owner.pending.finish(self, orjson.loads(body)["result"])


class Floor:
    """The connections to a server, and the pending calls."""

    def __init__(self, port: int, *, modern: bool) -> None:
        self.loop = asyncio.get_running_loop()
        self.port = port
        self.head = head(port, modern=modern)
        self.pending = Pending()
        self.idle: list[Connection] = []
        self.all: list[Connection] = []
        self.last_id = 0

    async def connect(self) -> Connection:
        _, connection = await self.loop.create_connection(
            lambda: Connection(self), "127.0.0.1", self.port
        )
        self.all.append(connection)
        return connection

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        connection = self.idle.pop() if self.idle else await self.connect()
        self.last_id = request_id = self.last_id + 1
        message = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": method,
            "params": params,
        }
        data = orjson.dumps(message)
        connection.transport.write(b"%b%d\r\n\r\n%b" % (self.head, len(data), data))
        return await self.pending.add(connection)

    def close(self) -> None:
        for connection in self.all:
            connection.transport.abort()


@asynccontextmanager
async def connect(argument: str) -> AsyncIterator[Call]:
    """Start a null server; yield a function that calls its tool."""
    leg = parse_leg(argument)
    with run_null_server(leg.server, leg.era, f"--{leg.shape}") as null:
        floor = Floor(null.port, modern=leg.is_modern)

        async def call() -> Any:
            return await floor.call("tools/call", params(modern=leg.is_modern))

        check(await call())
        yield call
        floor.close()
        await asyncio.sleep(0)  # asyncio closes the aborted sockets
