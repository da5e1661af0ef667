"""Connections of a scripted peer: ordered output, input, and the end of the stream.

A `Wire` transports bytes without regard to messages. A single queue holds the output,
so that a message in parts, with turns of the loop between them, stays in order with
later messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mcpwire.errors import MCPError
from mcpwire.protocol.http_reply import Reply, Request
from mcpwire.transports.base import is_on_loop
from mcpwire.transports.duplex import PipeDuplex
from mcpwire.transports.memory import memory_pair
from mcpwire.versions import find_revision
from mcpwire.wire.json import encode, loads_object

if TYPE_CHECKING:
    from mcpwire.errors import TransportError
    from mcpwire.limits import Limits
    from mcpwire.transports.base import Inbound
    from mcpwire.wire.jsonrpc import Line


class WireOwner(Protocol):
    """The receiver of a wire's input."""

    def wire_received(self, wire: Wire, data: bytes) -> None:
        """Process received bytes."""

    def wire_ended(self, wire: Wire) -> None:
        """Handle the end of the connection, from either side."""


class Wire:
    """One connection over a channel that carries messages as bytes.

    It is also the channel's `Inbound`, of which only `lost` is ever called.
    """

    def __init__(self, owner: WireOwner) -> None:
        self._owner = owner
        self.channel: Any = None  # a `Duplex`, or over HTTP an `HttpChannel`
        self._closing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[int, Callable[[], object]]] = deque()
        self._timers: list[asyncio.TimerHandle] = []
        self.is_open = True
        self.is_silent = False  # whether output is dropped
        self.problem = ""  # the loss of the connection, or an HTTP error
        self.partial = bytearray()  # an incomplete line, used by the owner

    def attach(self, channel: Any) -> None:
        """Take over a channel that has just been opened, bypassing its `Peer`."""
        channel.receive = self.received
        self.channel = channel

    def put(self, parts: Iterable[bytes], turns: int) -> None:
        """Queue parts to be sent in order, `turns` turns of the loop before each."""
        for part in parts:
            self._enqueue(turns, partial(self._send, part))

    def finish(self) -> None:
        """Close after the parts put before; a pipe closes our direction only."""
        self._enqueue(1, self._finish)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Call `action` after some seconds of the loop's clock, if still open."""
        timer = self._loop.call_later(seconds, self.after_turns, 0, action)
        self._timers.append(timer)

    def after_turns(self, turns: int, action: Callable[[], object]) -> None:
        """Call `action` after some turns of the loop, if still open."""
        if not self.is_open:
            return
        if turns <= 0:
            action()
        else:
            self._loop.call_soon(self.after_turns, turns - 1, action)

    def close(self) -> None:
        """Close now; queued parts are dropped."""
        if self.is_open:
            self.is_open = False
            self._queue.clear()
            for timer in self._timers:
                timer.cancel()
            self._hang_up()
            self._owner.wire_ended(self)

    async def aclose(self) -> None:
        """Close the channel, within the time limit of the channel's `aclose`."""
        self.close()
        if self._closing is not None:
            await self._closing

    def received(self, data: bytes) -> None:
        """Handle bytes from the other side."""
        if self.is_open:
            self._owner.wire_received(self, data)

    def _enqueue(self, turns: int, action: Callable[[], object]) -> None:
        if not is_on_loop(self._loop):
            # In tests of a blocking client the thread that runs the loop changes.
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._enqueue, turns, action)
            return
        if not self.is_open:
            return
        # At least one turn before each, so that no caller is called back during a call.
        self._queue.append((max(turns, 1), action))
        if len(self._queue) == 1:
            self.after_turns(self._queue[0][0], self._run_next)

    def _run_next(self) -> None:
        # The action stays queued during its call, so that parts it puts come after it.
        self._queue[0][1]()
        if self._queue:
            self._queue.popleft()
            if self._queue:
                self.after_turns(self._queue[0][0], self._run_next)

    def _send(self, data: bytes) -> None:
        if not self.is_silent:
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Write these bytes in one piece."""
        self.channel._write(data)  # noqa: SLF001 - bypasses every check on purpose

    def _finish(self) -> None:
        # A pipe's other direction stays open: a server may still answer requests.
        if isinstance(self.channel, PipeDuplex):
            self.channel._stop_writing()  # noqa: SLF001 - no user of `Channel` does this
        else:
            self.close()

    def _hang_up(self) -> None:
        if self.channel is not None:
            self._closing = self._loop.create_task(self.channel.aclose())

    # Callbacks of the channel (`transports.base.Inbound`)

    def notification(self, *_: Any) -> None:
        """Ignore a decoded message; never called, since messages pass as bytes."""

    request = cancelled = missed = notification

    def lost(self, error: TransportError) -> None:
        """Handle the loss of the connection."""
        self.problem = str(error)
        self.close()


class MemoryWire(Wire):
    """An in-memory connection; its channel is the server's end."""

    def __init__(
        self, owner: WireOwner, inbound: Inbound, limits: Limits, target: str
    ) -> None:
        super().__init__(owner)
        self.client_end, server_end = memory_pair(
            inbound, self, limits=limits, target=target
        )
        self.attach(server_end)

    def _write(self, data: bytes) -> None:
        self.client_end.deliver(data)  # now, so that each part is received alone

    def _hang_up(self) -> None:
        self.channel.abandon()

    def lost(self, error: TransportError) -> None:
        """Handle the end of the client, which is no problem."""
        self.close()


class _RawReply(Reply):
    """The HTTP response to one request, passed on as bytes without any check."""

    id: Any
    on_message: Callable[[_RawReply, bytes], None]

    def _process_head(self) -> None:
        self.is_over = self.status == 202 or self.what == "GET"

    def end(self) -> None:
        if self._body_kind == "stream":
            super().end()
        elif not self.is_over:
            self.is_over = True
            self.on_message(self, bytes(self._body) or b"HTTP %d" % self.status)

    def _receive_message(self, data: Line) -> None:
        self.on_message(self, bytes(data))


class HttpWire(Wire):
    """A connection over HTTP that sends each message as a POST.

    Messages from response bodies, event streams and the GET stream are received
    unchanged; the GET stream is opened after `notifications/initialized` is accepted.
    The channel makes the headers of each request and keeps the session.

    Args:
        owner: The receiver of the input.
        answers_all: Whether HTTP errors, and JSON-RPC errors without an id, become
            error responses to their request, for a peer that is not aware of HTTP.
    """

    def __init__(self, owner: WireOwner, *, answers_all: bool = False) -> None:
        super().__init__(owner)
        self._answers_all = answers_all
        self._line = b""
        self._lines: deque[bytes] = deque()
        self._is_posting = False

    def attach(self, channel: Any) -> None:
        """Take over a channel that has just been opened."""
        self.channel = channel

    def _write(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        self._lines += filter(bytes.strip, lines)
        if self._lines and not self._is_posting:
            self._is_posting = True
            self.channel.spawn(self._post_all)  # it ends with the channel

    async def _post_all(self) -> None:
        """Post in order; wait for the response to each message that is no request."""
        while self._lines:
            line = self._lines.popleft()
            message = loads_object(line) or {}
            if "method" in message and "id" in message:
                self.channel.spawn(self._exchange, message, line)
            else:
                await self._exchange(message, line)
                if message.get("method") == "notifications/initialized":
                    self.channel.spawn(self._exchange, {}, None)
        self._is_posting = False

    async def _exchange(self, message: dict[str, Any], body: bytes | None) -> None:
        """Perform one POST, or the GET of the server's stream (no body)."""
        channel, method, params = self.channel, message.get("method"), None
        if body is None:
            reply = _RawReply(channel, "stream", "GET")
        else:
            reply = _RawReply(
                channel, "call", method if type(method) is str else "POST"
            )
        is_answered = self._answers_all and "method" in message
        reply.id = message.get("id") if is_answered else None
        reply.on_message = self._receive_reply
        streams: set[Reply] = channel._streams  # noqa: SLF001 - closing ends them
        streams.add(reply)
        try:
            extra = await channel._user_fields(reply)  # noqa: SLF001 - as a call does
            if body is None:
                start = channel._heads.get(None, extra)  # noqa: SLF001 - as above
            else:
                if type(message.get("params")) is dict:
                    params = message["params"]
                start = channel._request_head(reply.what, params, extra)  # noqa: SLF001 - as above
            await channel._exchange(reply, Request(start, body))  # noqa: SLF001 - as above
            if reply.status >= 400 and body is not None:
                self.problem = f"HTTP {reply.status}"
        except MCPError as error:
            if body is not None and self.is_open:
                self.lost(error)  # type: ignore[arg-type]  # only its text is used
        finally:
            streams.discard(reply)
            channel.remove_exchange(0, reply)  # 0 is no id

    def _receive_reply(self, reply: _RawReply, data: bytes) -> None:
        if reply.id is not None:
            data = _with_id(data, reply.id)
        if reply.what == "initialize":
            result = (loads_object(data) or {}).get("result")
            version = result.get("protocolVersion") if type(result) is dict else None
            if type(version) is str:
                self.channel._store_session_id(reply)  # noqa: SLF001 - as a call does
                self.channel.revision = find_revision(version)
        # A line break is white space in JSON, but ends a message on a wire.
        self.received(data.replace(b"\n", b" ") + b"\n")


def _with_id(data: bytes, id: Any) -> bytes:
    """Return the message; an error without an id becomes a response with that id."""
    message = loads_object(data) or {}
    if "jsonrpc" not in message:
        text = data[:200].decode("utf-8", "replace")
        message = {"jsonrpc": "2.0", "error": {"code": -32000, "message": text}}
    elif message.get("id") is not None or "error" not in message:
        return data
    return encode({**message, "id": id})


Split: TypeAlias = int | Iterable[int] | Callable[[bytes], Iterable[bytes]] | None


def cut(data: bytes, split: Split) -> list[bytes]:
    """Split bytes into parts as a split specifies; empty parts are left out.

    Offsets outside the bytes are ignored; negative offsets count from the end.
    """
    if split is None:
        parts = [data]
    elif isinstance(split, int):
        if split < 1:
            raise ValueError(f"a part has at least one byte, got {split!r}")
        parts = [data[i : i + split] for i in range(0, len(data), split)]
    elif callable(split):
        parts = list(split(data))
        if b"".join(parts) != data:
            raise ValueError(f"the parts of {split!r} are not the bytes it was given")
    else:
        size = len(data)
        offsets = {offset + size if offset < 0 else offset for offset in split}
        cuts = sorted(offset for offset in offsets if 0 < offset < size)
        parts = [data[a:b] for a, b in pairwise([0, *cuts, size])]
    return [part for part in parts if part]


def at_random(seed: int, longest: int = 16) -> Callable[[bytes], list[bytes]]:
    """Return a split into parts of 1 to `longest` bytes, reproducible by its seed.

    The random sequence continues from one message to the next.

    Raises:
        ValueError: `longest` is below one.
    """
    if longest < 1:
        raise ValueError(f"a part has at least one byte, got longest={longest!r}")
    rng = random.Random(seed)  # noqa: S311 - to repeat a test, not to keep a secret

    def split(data: bytes) -> list[bytes]:
        parts = []
        start = 0
        while start < len(data):
            end = start + rng.randint(1, longest)
            parts.append(data[start:end])
            start = end
        return parts

    return split
