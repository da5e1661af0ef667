"""Where one HTTP/1 response begins and ends.

`httptools` (llhttp) reads the bytes. What it leaves to its user is decided here, in
favour of refusing: whoever reads a response differently from the server and the proxies
before it takes one call's answer for another's (RFC 9112 section 11).

One reader serves one connection. ::

    expect(reply) -> feed(data) ... -> is_complete, may_reuse -> expect(next reply)
                     eof()              the end of the stream

Bytes behind a complete response never reach a reply; they only end the re-use.
"""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpResponseParser,
)

from mcpwire.errors import MCPError, MessageTooLarge, RemoteProtocolError

if TYPE_CHECKING:
    from mcpwire.limits import Limits

__all__ = ["Receiver", "ResponseReader"]

_SHOWN_BYTES: Final = 40
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_BLANKS: Final = b" \t"
_END_OF_HEAD: Final = b"\r\n\r\n"
_KEEP_ALIVE: Final = re.compile(
    rb"(?:^|[,; \t])timeout=([0-9]{1,9})(?![0-9])", re.IGNORECASE
)

# First bytes of what is no HTTP/1 response.
_SPEAKS: Final = {
    0x15: "the server seems to speak TLS there: try https",
    0x00: "the server seems to speak HTTP/2 only",
}


class _Leftover(Exception):
    """A message begins that nobody expects; never leaves this module."""


class Receiver(Protocol):
    """Who is told of the response; each method may raise."""

    @property
    def is_over(self) -> bool:
        """Whether it has what it waits for; then nothing that follows is an error."""

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head; names in lower case, repeated fields in one.

        The fields belong to other responses as well: they are not to be changed.
        """

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""

    def end(self) -> None:
        """Take note that the body is complete."""


class ResponseReader:
    """Reads the responses of one connection, one at a time.

    Args:
        limits: `Limits.head` bounds the heads of one response, 1xx included.
    """

    __slots__ = (
        "_counted",
        "_fields",
        "_has_body",
        "_head_max",
        "_is_head_done",
        "_is_muted",
        "_is_version_known",
        "_parse",
        "_parser",
        "_raised",
        "_reply",
        "_tail",
        "_until_close",
        "has_begun",
        "is_complete",
        "keep_alive_s",
        "may_reuse",
    )

    is_complete: bool
    """Whether nothing more of the expected response is read; before the first too."""

    may_reuse: bool
    """Whether another request may follow on this connection, once it is complete."""

    has_begun: bool
    """Whether any byte came since the response is expected."""

    keep_alive_s: float
    """How long the server keeps an idle connection, as far as it says so."""

    def __init__(self, limits: Limits) -> None:
        self._head_max = limits.head
        self._parser = HttpResponseParser(self)
        self._parse = self._parser.feed_data
        self._reply: Receiver | None = None
        # What a callback raised. Its context in what httptools raises is that of the
        # caller, where this is called while an exception is handled.
        self._raised: BaseException | None = None
        self._fields: dict[bytes, bytes] = {}
        self._counted = 0
        self._tail = b""
        self._is_head_done = self._until_close = False
        self._has_body = self._is_muted = self._is_version_known = False
        self.is_complete = self.may_reuse = True
        self.has_begun = False
        self.keep_alive_s = inf

    def expect(self, reply: Receiver) -> None:
        """Feed what comes next to that reply."""
        self._reply = reply
        self.is_complete = self.has_begun = self._is_head_done = False

    @property
    def place(self) -> str:
        """Say how far the response has come, for messages."""
        if not self.has_begun:
            return "before the response"
        return "within the body" if self._is_head_done else "within the head"

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes, at least one.

        What is wrong behind the answer of a reply only ends the re-use.

        Raises:
            RemoteProtocolError: They are not acceptable HTTP.
            MessageTooLarge: The head is over its limit.
            BaseException: What the reply raised.
        """
        if self.is_complete:  # nobody asked: not even an empty line belongs here
            self.may_reuse = False
            return
        if not self.has_begun:
            self.has_begun = True
            self._begin(data)
        was_body = self._is_head_done
        if not was_body and self._counted + len(data) > self._head_max:
            self._feed_long_head(bytes(data))
            return
        try:
            self._parse(data)
        except HttpParserError as error:
            self._refuse(error)
        if self._reply is None:  # it is complete
            return
        if was_body:
            self._count_framing(len(data))
        elif not self._is_head_done:
            self._count_head(data)

    def _begin(self, data: bytes | memoryview) -> None:
        if data[0] != 0x48:  # "H"
            raise self._no_http(data)
        # "HTTP/1.1": llhttp checks the other characters.
        self._is_version_known = len(data) > 8 and data[7] == 0x31 and data[5] == 0x31
        self._counted = 0
        self._tail = b""

    def eof(self) -> bool:
        """Take note of a clean end of the stream; return whether that ends a response.

        It does where the response has neither a length nor chunks, and nowhere else.
        """
        self.may_reuse = False
        if self.is_complete or not (self._is_head_done and self._until_close):
            return False
        self._end()
        return True

    def _no_http(self, data: bytes | memoryview) -> RemoteProtocolError:
        # llhttp also takes RTSP/, ICE/ and empty lines.
        self.may_reuse = False
        return RemoteProtocolError(
            f"expected an HTTP/1.1 status line, got {bytes(data[:_SHOWN_BYTES])!r}",
            hint=_SPEAKS.get(data[0]),
        )

    def _refuse(self, found: HttpParserError) -> None:
        """Raise what a callback raised, or what llhttp found; it reads no more now."""
        self.may_reuse = False
        if isinstance(found, HttpParserCallbackError):
            # An interrupt may come in a callback that notes nothing down.
            error = self._raised or found.__context__ or found
            self._raised = None
            if isinstance(error, _Leftover):
                return
            self._give_up(error)
        elif not self.is_complete:
            self._give_up(
                RemoteProtocolError(f"the response is not acceptable HTTP: {found}")
            )

    def _give_up(self, error: BaseException) -> None:
        """Raise that, or read no more where it cannot matter."""
        reply = self._reply
        if reply is None or not reply.is_over or not isinstance(error, MCPError):
            raise error from None
        self._reply = None
        self.is_complete = True

    def _count_head(self, data: bytes | memoryview) -> None:
        self._counted += len(data)
        self._tail = (self._tail + bytes(data))[-3:]

    def _feed_long_head(self, data: bytes) -> None:
        # There is more than the limit; which part of it is head must be looked for.
        while not self._is_head_done:
            end = (self._tail + data).find(_END_OF_HEAD)
            size = end + len(_END_OF_HEAD) - len(self._tail)
            if end < 0 or self._counted + size > self._head_max:
                raise self._too_large("the head of the response is")
            head, data = data[:size], data[size:]
            try:
                self._parse(head)
            except HttpParserError as error:
                self._refuse(error)
            self._count_head(head)
        self._counted = 0
        self.feed(data)  # there is some: all of it was more than the limit

    def _count_framing(self, size: int) -> None:
        # Chunk sizes, their extensions and trailers: bytes without a body's byte.
        if self._has_body or self._until_close:
            self._has_body = False
            self._counted = 0
            return
        self._counted += size
        if self._counted > self._head_max:
            self._give_up(self._too_large("chunk extensions or trailers are"))

    def _too_large(self, what: str) -> MessageTooLarge:
        self.may_reuse = False
        limit = self._head_max
        return MessageTooLarge(f"{what} over the limit of {limit} bytes", limit=limit)

    def _end(self) -> None:
        reply, self._reply = self._reply, None
        self.is_complete = True
        assert reply is not None, "complete without a reply"
        reply.end()

    # What llhttp calls.

    def on_message_begin(self) -> None:
        """Begin a message: the response, or a 1xx before it."""
        if self.is_complete:
            self._raised = _Leftover()
            raise self._raised
        self._fields = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field; trailers are dropped (RFC 9110 6.5.1: ours to ignore)."""
        if self._is_head_done:
            return
        name = name.lower()
        if value and value[-1] in _BLANKS:
            value = value.rstrip(_BLANKS)
        fields = self._fields
        if name in fields:
            value = fields[name] + b", " + value
        fields[name] = value

    def on_headers_complete(self) -> None:
        """Check the head, and tell the reply of a final one."""
        status = self._parser.get_status_code()
        fields = self._fields
        try:
            if self._is_version_known:
                self._is_version_known = False  # of the one after a 1xx it is not
            else:
                self._check_version()
            if status < 200:
                _check_interim(status)
                return
            encoding = fields.get(b"transfer-encoding")
            if encoding is not None:
                self._check_transfer_encoding(encoding)
            self._until_close = encoding is None and b"content-length" not in fields
            self._is_muted = b"content-encoding" in fields and _is_unreadable(
                status, fields[b"content-encoding"]
            )
            self.keep_alive_s = (
                _keep_alive(fields[b"keep-alive"]) if b"keep-alive" in fields else inf
            )
            self._is_head_done = True
            self._has_body = False
            self._counted = 0
            reply = self._reply
            assert reply is not None, "a head without a reply"
            reply.head(status, fields)
        except BaseException as error:
            self._raised = error
            raise

    def _check_version(self) -> None:
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            raise RemoteProtocolError(f"expected HTTP/1.0 or HTTP/1.1, got {version}")

    def _check_transfer_encoding(self, encoding: bytes) -> None:
        # RFC 9112 6.1: with HTTP/1.0 its framing is faulty; we offer no other coding.
        if encoding.lower() != b"chunked":
            raise RemoteProtocolError(f"unknown transfer-encoding {encoding!r}")
        if self._parser.get_http_version() == "1.0":
            raise RemoteProtocolError("transfer-encoding in an HTTP/1.0 response")

    def on_body(self, chunk: bytes) -> None:
        """Take bytes of the body, chunk framing removed."""
        self._has_body = True
        if not self._is_muted:
            assert self._reply is not None, "a body without a reply"
            try:
                self._reply.data(chunk)
            except BaseException as error:
                self._raised = error
                raise

    def on_message_complete(self) -> None:
        """End the message; only the final response ends the reply."""
        if self._is_head_done:
            self.may_reuse = self._parser.should_keep_alive() and self.keep_alive_s > 0
            # As in `_end`, without a call more for each response.
            reply, self._reply = self._reply, None
            self.is_complete = True
            assert reply is not None, "complete without a reply"
            try:
                reply.end()
            except BaseException as error:
                self._raised = error
                raise


def _check_interim(status: int) -> None:
    if status < 100:
        raise RemoteProtocolError(f"invalid status {status:03}")
    if status == 101:
        raise RemoteProtocolError("the server switches protocols, which nobody asked")


def _is_unreadable(status: int, encoding: bytes) -> bool:
    # We accept identity only. What an error says by its status holds all the same, so
    # there only the body is dropped.
    if encoding.lower() == b"identity":
        return False
    if 200 <= status < 300:
        raise RemoteProtocolError(
            f"content-encoding {encoding!r} although only identity is accepted"
        )
    return True


def _keep_alive(value: bytes) -> float:
    found = _KEEP_ALIVE.search(value)
    return float(found[1]) if found else inf
