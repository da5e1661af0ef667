"""Reads responses in pieces, and records the callbacks of a reply."""

from mcpwire.errors import MCPError
from mcpwire.limits import Limits
from mcpwire.transports.http.h1 import ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


class ReplyRecorder:
    """A reply that records its callbacks."""

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
    def received(self):
        return self.heads, self.body, self.ends


def read(*pieces, limits=None, eof=False):
    reader, recorder = ResponseReader(limits or Limits()), ReplyRecorder()
    reader.expect(recorder)
    for piece in pieces:
        reader.feed(piece)
    if eof:
        reader.eof()
    return reader, recorder


def bytewise(data):
    return [data[at : at + 1] for at in range(len(data))]


def outcome(pieces, limits=None, *, eof=False):
    """Return the outcome of reading: the callbacks, or the type of the error."""
    reader, recorder = ResponseReader(limits or Limits()), ReplyRecorder()
    reader.expect(recorder)
    try:
        for piece in pieces:
            reader.feed(piece)
    except MCPError as error:
        return type(error), reader.may_reuse
    ended = reader.eof() if eof else None
    return recorder.received, reader.is_complete, reader.may_reuse, ended
