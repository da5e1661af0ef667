"""HTTP with server-sent events, the transport of 2024-11-05.

::

      GET  .../sse                     event: endpoint ─► the URL for POSTs
           (stays open)                event: message  ─► all messages of the server
      POST .../messages?session_id=... 202 for every message

The pair of requests forms one duplex connection, so `server.connection` serves it.
2026-07-28 streamable-http discourages this transport: it is for clients that support no
other.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import attrs

from mcpwire.errors import InvalidRequest, TransportError
from mcpwire.protocol.request_validation import UnreadableMessage, is_json, read_json
from mcpwire.server.connection import ServerConnection
from mcpwire.server.fair_pool import FairPool
from mcpwire.server.http.exchange import Exchange, HttpProblem
from mcpwire.server.http.sessions import TOO_MANY_SESSIONS, UNKNOWN_SESSION
from mcpwire.server.http.streams import SseWriter, as_event
from mcpwire.transports.duplex import Duplex
from mcpwire.wire.sse import encode_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.server.auth.resource_server import Principal
    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.wire.json import Json

ID_BYTES: Final = 32
"""Random bytes of a connection's id."""

PARAMETER: Final = "session_id"
"""The query parameter of the id; a path would show in more logs.

Its name is the one that the official SDKs use, and that some clients look for.
"""


class _Channel(Duplex):
    """The server's end of a connection: it writes events and reads POSTs."""

    def __init__(self, dispatcher: Dispatcher, principal: Principal | None) -> None:
        self.connection = ServerConnection(dispatcher, transport="http")
        limits = dispatcher.limits
        super().__init__(self.connection, role="server", limits=limits, target="SSE")
        self.connection.attach(self)
        self.writer = SseWriter(limits.unwritten)
        self.owner = principal and principal.key

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        for line in data.splitlines():
            self.writer.put(as_event(line))


@attrs.define(eq=False, repr=False)
class LegacySse:
    """The connections of one server; see the module docstring."""

    _dispatcher: Dispatcher
    _check_message: Callable[[Exchange, Json], None]
    _maximum: int = 10_000
    _channels: dict[str, _Channel] = attrs.field(factory=dict, init=False)
    _pool: FairPool[str] = attrs.field(factory=FairPool, init=False)

    def __len__(self) -> int:
        return len(self._channels)

    async def serve_stream(self, exchange: Exchange) -> None:
        """Serve a GET: open a connection, which lasts as long as the response."""
        if exchange.verb != "GET":
            raise HttpProblem(405, "only GET is allowed here", (("allow", "GET"),))
        owner = exchange.owner
        if len(self._channels) >= self._maximum:
            evicted = self._pool.find_evictable(owner)
            if evicted is None or self._pool.owner(evicted) == owner:
                raise HttpProblem(*TOO_MANY_SESSIONS)
            self._channels[evicted].writer.end()
            self._remove(evicted)
        id = secrets.token_urlsafe(ID_BYTES)
        channel = self._channels[id] = _Channel(self._dispatcher, exchange.principal)
        self._pool.add(id, owner)
        # A relative URL is valid whatever prefix a proxy adds to the path.
        parent = "../" if exchange.path.endswith("/") else ""
        url = f"{parent}messages?{PARAMETER}={id}".encode()
        channel.writer.put(encode_event(url, event="endpoint"))
        try:
            await channel.writer.run(exchange)
        finally:
            self._remove(id)
            channel.give_up(
                TransportError("the client closed it", target=channel.target)
            )
            await channel.connection.finished()

    def _remove(self, id: str) -> None:
        self._channels.pop(id, None)
        self._pool.discard(id)

    async def serve_message(self, exchange: Exchange) -> None:
        """Serve a POST that carries a message of a connection."""
        if exchange.verb != "POST":
            raise HttpProblem(405, "only POST is allowed here", (("allow", "POST"),))
        if not is_json(exchange.headers.get("content-type")):
            raise HttpProblem(415, "the Content-Type must be application/json")
        try:
            body = await exchange.body()
            value = read_json(body, exchange.limits.values)
        except UnreadableMessage as problem:
            raise HttpProblem(400, problem.error) from None
        if type(value) is not dict and type(value) is not list:
            raise HttpProblem(400, InvalidRequest("the body is not a message"))
        self._check_message(exchange, value)
        # After the body: the stream may end while it is read.
        query = parse_qs(exchange.scope.get("query_string", b"").decode("latin-1"))
        channel = self._channels.get(query.get(PARAMETER, [""])[0])
        principal = exchange.principal
        if channel is None or channel.owner != (principal and principal.key):
            raise HttpProblem(*UNKNOWN_SESSION)
        # The body may span several lines; line breaks are whitespace in JSON.
        line = body.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        channel.connection.request_info = exchange.info  # each message has its own head
        channel.receive(line)
        # 2024-11-05 basic/transports: responses are sent on the stream.
        await exchange.reply_bytes(202, b"Accepted", "text/plain")

    async def settle(self, seconds: float) -> None:
        """Wait until all requests are answered, up to this many seconds."""
        channels = self._channels.values()
        await asyncio.gather(*(each.connection.settle(seconds) for each in channels))

    def reset(self) -> None:
        """Discard the connections of an event loop that has ended."""
        self._channels.clear()
        self._pool.clear()

    async def aclose(self) -> None:
        """End all connections and their requests."""
        for channel in list(self._channels.values()):
            await channel.connection.aclose()
            channel.writer.end()
