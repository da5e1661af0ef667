"""Reads responses piece by piece, and tells all that a reply is told of them."""

from mcpwire.errors import MCPError
from mcpwire.limits import Limits
from mcpwire.transports.http.h1 import ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


class Taker:
    """A reply that writes down what it is told."""

    fails_with = KeyError

    def __init__(self, fails_at=None):
        self.heads = []
        self.body = b""
        self.ends = 0
        self.is_over = False
        self.fails_at = fails_at

    def _note(self, what):
        if what == self.fails_at:
            raise self.fails_with(what)

    def head(self, status, fields):
        assert not self.heads
        self.heads.append((status, dict(fields)))
        self._note("head")

    def data(self, chunk):
        assert self.heads
        assert not self.ends
        self.body += chunk
        self._note("data")

    def end(self):
        self.ends += 1
        self._note("end")

    @property
    def told(self):
        return self.heads, self.body, self.ends


def read(*pieces, limits=None, eof=False):
    reader, taker = ResponseReader(limits or Limits()), Taker()
    reader.expect(taker)
    for piece in pieces:
        reader.feed(piece)
    if eof:
        reader.eof()
    return reader, taker


def bytewise(data):
    return [data[at : at + 1] for at in range(len(data))]


def outcome(pieces, limits=None, *, eof=False):
    """What a reader makes of it: all it tells, or the type of its refusal."""
    reader, taker = ResponseReader(limits or Limits()), Taker()
    reader.expect(taker)
    try:
        for piece in pieces:
            reader.feed(piece)
    except MCPError as error:
        return type(error), reader.may_reuse
    ended = reader.eof() if eof else None
    return taker.told, reader.is_complete, reader.may_reuse, ended
