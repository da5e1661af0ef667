"""HTTP/1.1 without I/O: the encoding of requests and the framing of responses.

`httptools` (llhttp) parses the bytes. This module decides the rest, and rejects in case
of doubt: a client that frames a response differently from the server and its proxies
assigns responses to the wrong requests (RFC 9112 section 11).

One reader serves one connection::

    expect(sink) -> feed(data) ... -> is_complete, may_reuse -> expect(next sink)
                    eof()              the end of the stream

Bytes after a complete response never reach a sink; they only prevent the reuse.
"""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from httptools import HttpParserCallbackError, HttpParserError, HttpResponseParser

from mcpwire.errors import MCPError, MessageTooLarge, RemoteProtocolError

if TYPE_CHECKING:
    from mcpwire.limits import Limits
    from mcpwire.protocol.http_reply import Request

MAX_JOINED_BYTES: Final = 65_536
"""Maximum size of a body that is copied, for one write together with its head."""

_SHOWN_BYTES: Final = 40
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_FRAMING_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding"})
_KEEP_ALIVE: Final = re.compile(
    rb"(?:^|[,; \t])timeout=([0-9]{1,9})(?![0-9])", re.IGNORECASE
)

# Hints by the first byte, if that is not the first byte of an HTTP/1 response.
_HINTS: Final = {
    0x15: "the server seems to speak TLS there: try https",
    0x00: "the server seems to speak HTTP/2 only",
}


class ResponseSink(Protocol):
    """The receiver of one response. An exception of any method ends the response."""

    @property
    def is_over(self) -> bool:
        """Whether the sink needs no more data; a later fault is then not an error."""

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Receive the final head; names are lowercase, repeated fields are joined."""

    def data(self, chunk: bytes) -> None:
        """Receive the next bytes of the body."""

    def end(self) -> None:
        """Receive the end of the body."""


def encode(request: Request) -> tuple[bytes, memoryview | None]:
    """Return the bytes of the first write, and a large body for further writes."""
    body = request.body
    if body is None:
        return request.start + b"\r\n", None
    size = len(body)
    joined, rest = (body, None) if size <= MAX_JOINED_BYTES else (b"", memoryview(body))
    return b"%bcontent-length: %d\r\n\r\n%b" % (request.start, size, joined), rest


class ResponseReader:
    """Parser of the responses on one connection, one at a time.

    Callbacks of `httptools` only collect; the sink is called after all received bytes
    are parsed. `Limits.head` limits the heads of one response, 1xx included, and its
    chunk extensions and trailers.
    """

    def __init__(self, limits: Limits, max_idle_s: float = inf) -> None:
        self.is_complete = True
        """Whether the expected response is complete; also true before the first."""
        self.may_reuse = True
        """Whether another request may follow once the response is complete."""
        self.has_started = False
        """Whether any byte of the expected response was received."""
        self.idle_s = self._max_idle_s = max_idle_s
        """Seconds that the connection may be idle; less if ``Keep-Alive`` says so."""
        self._head_max = limits.head
        self._sink: ResponseSink | None = None
        self._fields: dict[bytes, bytes] = {}
        self._status = 0  # of a head that is not passed to the sink yet
        self._chunks: list[bytes] = []
        self._overhead = 0  # bytes of heads, then of chunk framing since the last data
        self._is_head_done = self._discards_body = False
        self.on_body = self._chunks.append
        self._parser = HttpResponseParser(self)

    def expect(self, sink: ResponseSink) -> None:
        """Expect a response, and pass it to a sink."""
        self._sink = sink
        self._overhead = 0
        self.is_complete = self.has_started = self._is_head_done = False

    @property
    def phase(self) -> str:
        """The progress of the response, for error messages."""
        if not self.has_started:
            return "before the response"
        return "within the body" if self._is_head_done else "within the head"

    def feed(self, data: bytes | memoryview) -> None:
        """Parse the next bytes, at least one.

        A fault after the sink is over only prevents the reuse of the connection.
        """
        if self.is_complete:  # no bytes may follow, not even an empty line
            self.may_reuse = False
            return
        if not self.has_started:
            self.has_started = True
            if data[0] != 0x48:  # "H": llhttp also accepts RTSP/, ICE/ and empty lines
                self.may_reuse = False
                shown = bytes(data[:_SHOWN_BYTES])
                text = f"expected an HTTP/1.1 status line, got {shown!r}"
                raise RemoteProtocolError(text, hint=_HINTS.get(data[0]))
        self._overhead += len(data)
        if self._overhead > self._head_max and not self._is_head_done:
            self._feed_over_limit(data)
            return
        refusal = None
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            refusal = self._refusal(error)
        sink = self._sink
        assert sink is not None, "a response without a sink"
        try:
            self._pass_to_sink(sink, refusal)
        except BaseException as error:
            self.may_reuse = False
            if not (sink.is_over and isinstance(error, MCPError)):
                raise
            self._sink = None
            self.is_complete = True

    def _feed_over_limit(self, data: bytes | memoryview) -> None:
        self._overhead -= len(data)
        room = self._head_max - self._overhead
        if room:
            self.feed(data[:room])
        if not self._is_head_done:
            self.may_reuse = False
            raise self._too_large_error("the head of the response is")
        self.feed(data[room:])

    def _refusal(self, parser_error: HttpParserError) -> BaseException | None:
        """Return the error of a callback or of llhttp; the parser cannot continue."""
        self.may_reuse = False
        if self.is_complete:  # the fault is in bytes after the response
            return None
        if isinstance(parser_error, HttpParserCallbackError):
            return parser_error.__context__ or parser_error
        return RemoteProtocolError(
            f"the response is not acceptable HTTP: {parser_error}"
        )

    def _pass_to_sink(self, sink: ResponseSink, refusal: BaseException | None) -> None:
        """Pass the collected parts to the sink, then raise `refusal`."""
        if self._status:
            sink.head(self._status, self._fields)
            self._status = 0
        chunks = self._chunks
        if chunks:
            self._overhead = 0
            data = b"".join(chunks)  # without a copy if it is one chunk
            chunks.clear()
            if not self._discards_body:
                sink.data(data)
        if self.is_complete:
            self._sink = None
            sink.end()
        elif refusal is not None:
            raise refusal from None
        elif self._overhead > self._head_max:
            raise self._too_large_error("chunk extensions or trailers are")

    def _too_large_error(self, part: str) -> MessageTooLarge:
        limit = self._head_max
        return MessageTooLarge(f"{part} over the limit of {limit} bytes", limit=limit)

    def eof(self) -> bool:
        """Record a clean end of the stream; return whether it completes a response.

        It does only if the response has neither Content-Length nor Transfer-Encoding.
        """
        self.may_reuse = False
        if (
            self.is_complete
            or not self._is_head_done
            or _FRAMING_FIELDS & self._fields.keys()
        ):
            return False
        sink, self._sink = self._sink, None
        self.is_complete = True
        assert sink is not None, "complete without a sink"
        sink.end()
        return True

    # Callbacks of llhttp

    def on_message_begin(self) -> None:
        """Start a message: the response, or an interim response before it."""
        if self.is_complete:
            raise EOFError("no response is expected")
        self._fields = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a field; discard trailers (RFC 9110 section 6.5.1)."""
        if self._is_head_done:
            return
        name = name.lower()
        value = value.rstrip(b" \t")
        fields = self._fields
        fields[name] = fields[name] + b", " + value if name in fields else value

    def on_headers_complete(self) -> None:
        """Check the head; keep a final head for the sink."""
        fields = self._fields
        keeps_alive = self._parser.should_keep_alive()
        version = "1.1"
        # RFC 9112 section 9.3: only HTTP/1.1 persists without that field. Reading the
        # version costs 2 % of a call.
        if not keeps_alive or b"connection" in fields:
            version = self._parser.get_http_version()
        if version not in _VERSIONS:
            raise RemoteProtocolError(f"expected HTTP/1.0 or HTTP/1.1, got {version}")
        status = self._parser.get_status_code()
        if status < 200:
            _check_interim(status, fields)
            return
        if b"transfer-encoding" in fields:
            _check_transfer_encoding(fields[b"transfer-encoding"], version)
        self._discards_body = b"content-encoding" in fields and _is_unreadable(
            status, fields[b"content-encoding"]
        )
        self.idle_s = self._max_idle_s
        if b"keep-alive" in fields:
            match = _KEEP_ALIVE.search(fields[b"keep-alive"])
            self.idle_s = min(self.idle_s, inf if match is None else float(match[1]))
        self.may_reuse = keeps_alive and self.idle_s > 0
        self._is_head_done = True
        self._overhead = 0
        self._status = status

    def on_message_complete(self) -> None:
        """Mark the response as complete, unless the message is an interim one."""
        if self._is_head_done:
            self.is_complete = True


def _check_interim(status: int, fields: dict[bytes, bytes]) -> None:
    if status < 100:
        raise RemoteProtocolError(f"invalid status {status:03}")
    if status == 101:
        raise RemoteProtocolError(
            "the server switches protocols, although no upgrade was requested"
        )
    # RFC 9110 section 15.2: it has no content; llhttp would read one.
    length = fields.get(b"content-length", b"0")
    if length != b"0" or b"transfer-encoding" in fields:
        raise RemoteProtocolError(f"the interim response {status} has a body")


def _check_transfer_encoding(encoding: bytes, version: str) -> None:
    if encoding.lower() != b"chunked":
        raise RemoteProtocolError(f"unknown transfer-encoding {encoding!r}")
    if version == "1.0":  # RFC 9112 section 6.1: its framing is faulty
        raise RemoteProtocolError("transfer-encoding in an HTTP/1.0 response")


def _is_unreadable(status: int, encoding: bytes) -> bool:
    """Return whether to discard an encoded body; raise if the response is a success."""
    if encoding.lower() == b"identity":
        return False
    if 200 <= status < 300:
        raise RemoteProtocolError(
            f"content-encoding {encoding!r} although only identity is accepted"
        )
    return True
