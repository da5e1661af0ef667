"""HTTP endpoint for the client under test: it sends any response, valid or not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httptools

from mcpwire.check.peer import MAX_MESSAGE_BYTES
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcpwire.check.peer import Transcript

_READ_SIZE: Final = 65_536
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

Fields = dict[str, str]
"""Header fields of a response; an empty value omits a default field."""


def event(message: Any, *, id: str = "") -> bytes:
    """Return a message as a server-sent event."""
    lead = f"id: {id}\n".encode() if id else b""
    return lead + b"data: " + encode(message) + b"\n\n"


class HttpRequest:
    """One request of the client, with the operations that answer it.

    Attributes:
        number: The number of the request, from 1 on.
        method: ``GET``, ``POST``, ``DELETE`` and so on.
        path: The path with its query.
        fields: The header fields, with names in lower case.
        body: The octets of the body.
        status: The status of the response; 0 before it.
        is_last: Whether the connection closes after the response.
        is_stream: Whether the response is an event stream.
        has_ended: Whether the response is complete, or the connection closed.
        closed: Set when the client has closed the connection.
    """

    def __init__(
        self, number: int, writer: asyncio.StreamWriter, transcript: Transcript
    ) -> None:
        self.number = number
        self.method = ""
        self.path = ""
        self.fields: list[tuple[str, str]] = []
        self.body = b""
        self.status = 0
        self.is_last = False
        self.is_stream = False
        self.has_ended = False
        self.closed = asyncio.Event()
        self._writer = writer
        self._transcript = transcript

    def values(self, name: str) -> list[str]:
        """Return the values of a header field; the name in lower case."""
        return [value for each, value in self.fields if each == name]

    def value(self, name: str) -> str | None:
        """Return the value of a header field; ``None`` if it is absent."""
        return ", ".join(self.values(name)) if self.values(name) else None

    def accepts(self, media_type: str) -> bool:
        """Return whether `Accept` names a media type."""
        types = ",".join(self.values("accept")).lower().split(",")
        return media_type in {each.partition(";")[0].strip() for each in types}

    async def respond(
        self, status: int, body: Any = b"", fields: Fields | None = None
    ) -> None:
        """Send a whole response; a body that is not bytes is sent as JSON."""
        content = {} if isinstance(body, bytes) else {"Content-Type": JSON}
        data = body if isinstance(body, bytes) else encode(body)
        size = {} if status in {204, 304} else {"Content-Length": str(len(data))}
        await self._send_head(status, {**content, **size, **(fields or {})}, data)
        self._end_response()

    async def start_stream(self, fields: Fields | None = None) -> None:
        """Send the head of an event stream."""
        default = {"Content-Type": EVENTS, "Transfer-Encoding": "chunked"}
        self.is_stream = True
        await self._send_head(200, {**default, **(fields or {})}, b"")

    async def write(self, data: bytes) -> None:
        """Send octets of the event stream, in a chunk of their own."""
        if data and not self.has_ended:
            await self._send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        """End the event stream."""
        if not self.has_ended:
            await self._send(b"0\r\n\r\n")
            self._end_response()

    def _end_response(self) -> None:
        self.has_ended = True
        if self.is_last:
            self._writer.close()

    def hold(self) -> bool:
        """Send the next octets only when the connection closes, together with its end.

        Return whether the system can do that.
        """
        option = getattr(socket, "TCP_CORK", None)
        if option is not None:
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        return option is not None

    def abort(self) -> None:
        """Close the connection, with or without a complete response."""
        self.has_ended = True
        self._writer.close()

    async def _send_head(self, status: int, fields: Fields, body: bytes) -> None:
        self.status = status
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Unknown"
        lines = [f"HTTP/1.1 {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in fields.items() if value]
        await self._send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    async def _send(self, data: bytes) -> None:
        self._transcript.add("sent", data, self.number)
        # A client may close the connection at any time.
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(data)
            await self._writer.drain()


class _Connection:
    """Parser of the requests of one connection (callbacks of httptools)."""

    def __init__(self, endpoint: HttpEndpoint, writer: asyncio.StreamWriter) -> None:
        self._endpoint = endpoint
        self._writer = writer
        self.open_requests: list[HttpRequest] = []
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self._request = self._endpoint.new_request(self._writer)
        self._body = bytearray()

    def on_url(self, data: bytes) -> None:
        self._request.path += data.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.fields.append(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
        )

    def on_headers_complete(self) -> None:
        self._request.method = self.parser.get_method().decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > MAX_MESSAGE_BYTES:  # it ends the connection
            raise ValueError("the body of a request is too large")

    def on_message_complete(self) -> None:
        if self._is_upgrade():
            return
        self._request.body = bytes(self._body)
        self.open_requests = [r for r in self.open_requests if not r.has_ended]
        self.open_requests.append(self._request)
        self._request.is_last = not self.parser.should_keep_alive()
        self._endpoint.handle(self._request)

    def feed(self, data: bytes) -> None:
        """Parse octets; an offer of another protocol is ignored (HTTP/2: by Java)."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as end:
            if not self._is_upgrade():
                raise
            request = self._request  # the parser took its body for the other protocol
            fields = [f"{n}: {v}\r\n" for n, v in request.fields if n != "upgrade"]
            head = f"{request.method} {request.path} HTTP/1.1\r\n{''.join(fields)}\r\n"
            self.parser = httptools.HttpRequestParser(self)
            self.feed(head.encode("latin-1") + data[end.args[0] :])

    def _is_upgrade(self) -> bool:
        has_field = self._request.value("upgrade") is not None
        return has_field and self.parser.should_upgrade()


class HttpEndpoint:
    """Listening socket on loopback; each request is handled in a task of its own.

    Args:
        handle: The handler of a request.
        transcript: The record of all octets.
        count: The number before that of the first request.
    """

    def __init__(
        self,
        handle: Callable[[HttpRequest], Awaitable[None]],
        transcript: Transcript,
        count: int = 0,
    ) -> None:
        self._handle = handle
        self._transcript = transcript
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._count = count

    async def open(self) -> None:
        """Start listening."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.origin = f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        """Close the socket and all connections; wait for the tasks."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await _cancel(self._tasks)
        await self._server.wait_closed()

    def new_request(self, writer: asyncio.StreamWriter) -> HttpRequest:
        """Return a request with the next number."""
        self._count += 1
        return HttpRequest(self._count, writer, self._transcript)

    def handle(self, request: HttpRequest) -> None:
        """Start the task of a complete request."""
        task = asyncio.create_task(_run(self._handle(request)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        connection = _Connection(self, writer)
        try:
            while data := await reader.read(_READ_SIZE):
                self._transcript.add("received", data, self._count)
                connection.feed(data)
        except (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass
        finally:
            self._writers.discard(writer)
            for request in connection.open_requests:
                request.has_ended = True
                request.closed.set()
            writer.close()


async def _run(work: Awaitable[None]) -> None:
    await work


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
