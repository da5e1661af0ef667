"""A scripted client's connection over HTTP: each message that leaves is a POST.

What comes back passes as it is, from bodies, event streams and the server's own stream,
which is asked for once `notifications/initialized` has been accepted. The head of each
request is that of `HttpChannel`, so that a script need not write HTTP.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from mcpwire.errors import MCPError
from mcpwire.protocol.http.reply import Reply
from mcpwire.protocol.http.request import Request
from mcpwire.testing.wire import ChannelWire
from mcpwire.versions import find_revision
from mcpwire.wire.json import JSONDecodeError, encode, loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.testing.wire import WireOwner
    from mcpwire.transports.http.streamable.channel import HttpChannel

__all__ = ["HttpWire"]


class _RawReply(Reply):
    """What comes back to one request, each message as bytes and unchecked."""

    __slots__ = ("_passes", "deadline", "id")

    _takes_json = True

    def __init__(
        self, owner: HttpChannel, what: str, passes: Callable[[_RawReply, bytes], None]
    ) -> None:
        super().__init__(owner, what)
        self._passes = passes
        self.deadline = None
        self.id: Any = None

    def _judge_head(self) -> None:
        self.is_over = self.status == 202 or self.what == "GET"

    def _complete(self, body: bytes) -> None:
        self._passes(self, body or b"HTTP %d" % self.status)

    def _take_message(self, data: bytes) -> None:
        self._passes(self, data)


class HttpWire(ChannelWire):
    """A connection over HTTP; its channel makes the heads and keeps the session.

    Args:
        owner: Hears what comes.
        answers_all: Whether a request that gets no message of its own is answered with
            an error, for a peer that knows nothing of HTTP.
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

    def _deliver(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        self._lines += filter(bytes.strip, lines)
        if self._lines and not self._is_posting:
            self._is_posting = True
            self._spawn(self._post_all)

    def _spawn(self, work: Any, *args: Any) -> None:
        channel: Any = self.channel
        channel._shell.spawn(work, *args)  # noqa: SLF001 - it ends with the channel

    async def _post_all(self) -> None:
        """Post in order; what is no request is accepted before the next one goes."""
        while self._lines:
            line = self._lines.popleft()
            message = _message(line)
            if "method" in message and "id" in message:
                self._spawn(self._exchange, message, line)
            else:
                await self._exchange(message, line)
                if message.get("method") == "notifications/initialized":
                    self._spawn(self._exchange, {}, None)
        self._is_posting = False

    async def _exchange(self, message: dict[str, Any], body: bytes | None) -> None:
        """Perform one POST, or the GET of the server's own stream."""
        channel: Any = self.channel
        method, params = message.get("method"), message.get("params")
        what = "GET" if body is None else method if type(method) is str else "POST"
        reply = _RawReply(channel, what, self._heard)
        reply.id = (
            message.get("id") if self._answers_all and "method" in message else None
        )
        streams: set[Reply] = channel._streams  # noqa: SLF001 - closing ends them
        streams.add(reply)
        try:
            extra = await channel._own_fields(reply)  # noqa: SLF001 - as a call does
            if body is None:
                start = channel._heads.get(None, extra)  # noqa: SLF001 - as above
            else:
                params = params if type(params) is dict else None
                start = channel._start(what, params, extra)  # noqa: SLF001 - as above
            await channel._exchange(reply, Request(start, body))  # noqa: SLF001 - as above
        except MCPError as error:
            if body is not None and self.is_open:
                self.lost(error)  # type: ignore[arg-type]  # it only says that it is over
        finally:
            streams.discard(reply)
            channel._end(reply)  # noqa: SLF001 - as above

    def _heard(self, reply: _RawReply, data: bytes) -> None:
        if reply.id is not None:
            data = _addressed(data, reply.id)
        if reply.what == "initialize":
            result = _message(data).get("result")
            version = result.get("protocolVersion") if type(result) is dict else None
            channel: Any = self.channel
            if type(version) is str:
                channel._note_session(reply)  # noqa: SLF001 - as a call does
                channel.revision = find_revision(version)
        # A line break in JSON is white space, and ends a message here.
        self.received(data.replace(b"\n", b" ") + b"\n")


def _message(data: bytes) -> dict[str, Any]:
    """Return the object that this is; nothing in it, where it is none."""
    try:
        value = loads(data)
    except JSONDecodeError:
        return {}
    return value if type(value) is dict else {}


def _addressed(data: bytes, id: Any) -> bytes:
    """Return what came as a message to whoever made the request with that id."""
    message = _message(data)
    if "jsonrpc" not in message:
        text = data[:200].decode("utf-8", "replace")
        message = {"jsonrpc": "2.0", "error": {"code": -32000, "message": text}}
    elif message.get("id") is not None or "error" not in message:
        return data
    return encode({**message, "id": id})
