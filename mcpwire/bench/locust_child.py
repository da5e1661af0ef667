"""The child process that makes the calls of one Locust worker.

Its standard input is a socket to `mcpwire.bench.locust`. Requests and answers are
length-prefixed pickles. The process exits when the parent closes the socket.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mcpwire.client import Client
from mcpwire.errors import LocalProtocolError, ToolError
from mcpwire.types import CallToolResult, WireType, encode
from mcpwire.wire.json import encode as encode_json

LENGTH: Final = struct.Struct("!I")


class Request(NamedTuple):
    """A request of a user: a method of `Client` and its arguments."""

    number: int
    user: int
    operation: str
    arguments: tuple[Any, ...]


class Answer(NamedTuple):
    """The result or the error of a request, and its duration."""

    number: int
    seconds: float
    octets: int
    result: Any
    error: Exception | None


def encode_frame(message: Request | Answer) -> bytes:
    """Return a message pickled, with its length as a prefix."""
    data = pickle.dumps(tuple(message))
    return LENGTH.pack(len(data)) + data


class Clients:
    """The clients of all users of one worker."""

    def __init__(self) -> None:
        self._clients: dict[int, Client] = {}

    async def answer(self, request: Request) -> Answer:
        """Perform a request and measure its duration."""
        result: Any = None
        error: Exception | None = None
        began = time.perf_counter()
        try:
            result = await self._perform(request)
        except Exception as caught:  # noqa: BLE001 - reported to the user
            error = caught
        seconds = time.perf_counter() - began
        if isinstance(result, CallToolResult) and result.is_error:
            error = ToolError(result.text, result=result)
        return Answer(request.number, seconds, _octets(result), result, error)

    async def _perform(self, request: Request) -> Any:
        if request.operation == "connect":
            target, options = request.arguments
            client = self._clients[request.user] = Client(target, **options)
            return await client.connect()
        if request.operation == "aclose":
            closing = self._clients.pop(request.user, None)
            return None if closing is None else await closing.aclose()
        if request.user not in self._clients:
            raise LocalProtocolError("this user is not connected")
        return await getattr(self._clients[request.user], request.operation)(
            *request.arguments
        )

    async def close(self) -> None:
        """Close all open clients."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))


def _octets(result: Any) -> int:
    """Return the length of a result as JSON, in bytes."""
    parts = result if isinstance(result, list) else [result]
    return sum(
        len(encode_json(encode(part))) for part in parts if isinstance(part, WireType)
    )


async def main() -> None:
    """Answer requests until the parent closes the socket."""
    connection = socket.socket(fileno=0)
    reader, writer = await asyncio.open_connection(sock=connection)
    clients = Clients()
    running: set[asyncio.Task[None]] = set()

    async def perform(request: Request) -> None:
        answer = await clients.answer(request)
        try:
            data = encode_frame(answer)
        except Exception as error:  # noqa: BLE001 - pickle raises any
            failure = LocalProtocolError(f"cannot be sent to Locust: {error!r}")
            data = encode_frame(Answer(*answer[:3], None, failure))
        writer.write(data)

    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            request = Request(*pickle.loads(await reader.readexactly(size)))  # noqa: S301 (ours)
            task = asyncio.create_task(perform(request))
            running.add(task)
            task.add_done_callback(running.discard)
    for task in running:
        task.cancel()
    await clients.close()
    writer.close()


if __name__ == "__main__":
    asyncio.run(main())
