"""Reading responses: any split of the bytes, size limits, errors, the end of reuse."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from malformed_responses import MALFORMED
from traced_memory import traced_memory

from mcpwire.errors import MCPError, MessageTooLarge, RemoteProtocolError
from mcpwire.limits import Limits
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.h1 import MAX_JOINED_BYTES, ResponseReader, encode

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


class ReplyRecorder:
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


def read(*pieces, limits=None):
    reader, recorder = ResponseReader(limits or Limits()), ReplyRecorder()
    reader.expect(recorder)
    for piece in pieces:
        reader.feed(piece)
    return reader, recorder


def bytewise(data):
    return [data[at : at + 1] for at in range(len(data))]


def outcome(pieces, limits=None, *, eof=False):
    """Return the outcome of reading: the callbacks, or the type of the error."""
    reader, recorder = read(limits=limits)
    try:
        for piece in pieces:
            reader.feed(piece)
    except MCPError as error:
        return type(error), reader.may_reuse
    ended = reader.eof() if eof else None
    return recorder.received, reader.is_complete, reader.may_reuse, ended


START = b"POST / HTTP/1.1\r\nhost: a\r\n"
LARGE = b"x" * (MAX_JOINED_BYTES + 1)


@pytest.mark.parametrize(
    ("body", "first", "rest"),
    [
        (None, START + b"\r\n", None),
        (b"ab", START + b"content-length: 2\r\n\r\nab", None),
        (LARGE, START + b"content-length: 65537\r\n\r\n", LARGE),
    ],
    ids=["none", "small", "large"],
)
def test_request_is_encoded_with_its_content_length(body, first, rest):
    assert encode(Request(START, body)) == (first, rest)


GOOD = {
    "a length": (
        OK + b"content-length: 3\r\n\r\nabc",
        (200, {b"content-length": b"3"}),
        b"abc",
    ),
    "chunks with extensions and a dropped trailer": (
        CHUNKED + b"3;a=b\r\nabc\r\n1\r\nd\r\n0\r\ntrailer: 1\r\n\r\n",
        (200, {b"transfer-encoding": b"chunked"}),
        b"abcd",
    ),
    "CHUNKED in capitals": (
        OK + b"Transfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n",
        (200, {b"transfer-encoding": b"CHUNKED"}),
        b"a",
    ),
    "no body at all": (b"HTTP/1.1 204 No\r\n\r\n", (204, {}), b""),
    "a 304 tells a length it does not have": (
        b"HTTP/1.1 304 X\r\ncontent-length: 5\r\n\r\n",
        (304, {b"content-length": b"5"}),
        b"",
    ),
    "100 first": (
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 104 X\r\ncontent-length: 0\r\n\r\n"
        + OK
        + b"content-length: 1\r\n\r\na",
        (200, {b"content-length": b"1"}),
        b"a",
    ),
    "two 103 first, whose fields are theirs": (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2
        + OK
        + b"content-length: 1\r\n\r\na",
        (200, {b"content-length": b"1"}),
        b"a",
    ),
    "an upgrade offered, not taken": (
        OK + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 1\r\n\r\na",
        (200, {b"upgrade": b"h2c", b"connection": b"upgrade", b"content-length": b"1"}),
        b"a",
    ),
    "repeated fields, blanks around values": (
        OK + b"A: \t1 \t\r\na:2\r\nB:\r\ncontent-length: 0\r\n\r\n",
        (200, {b"a": b"1, 2", b"b": b"", b"content-length": b"0"}),
        b"",
    ),
    "no reason": (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", None, b""),
    "a status nobody knows": (
        b"HTTP/1.1 799 X\r\ncontent-length: 0\r\n\r\n",
        (799, {b"content-length": b"0"}),
        b"",
    ),
    "close": (
        OK + b"connection: keep-alive, close\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", None, b"a"),
    "HTTP/1.0 with keep-alive": (
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
    ),
    "Keep-Alive: timeout=0": (
        OK + b"keep-alive: timeout=0\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
    ),
    "identity": (
        OK + b"content-encoding: identity\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
    ),
    "an error whose body nobody can read": (
        b"HTTP/1.1 502 X\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        (502, {b"content-encoding": b"gzip", b"content-length": b"3"}),
        b"",
    ),
}

LAST = {"close", "HTTP/1.0", "Keep-Alive: timeout=0"}
"""Of `GOOD`: after it, the connection takes no other request."""


@pytest.mark.parametrize("name", GOOD)
def test_response_is_delivered_once_and_complete_for_any_split(name):
    data, head, body = GOOD[name]
    whole = outcome([data])
    (heads, got, ends), is_complete, reusable, _ = whole
    assert head is None or heads == [head]
    assert (got, ends, is_complete) == (body, 1, True)
    assert reusable is (name not in LAST)
    assert outcome(bytewise(data)) == whole
    for at in range(1, len(data)):
        assert outcome([data[:at], data[at:]]) == whole
        assert outcome([memoryview(data)[:at], memoryview(data)[at:]]) == whole


UNTIL_CLOSE = {
    "no length": OK + b"\r\nabc",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n\r\nabc",
    "no body": OK + b"\r\n",
}


@pytest.mark.fault("F22")
@pytest.mark.parametrize("name", UNTIL_CLOSE)
def test_body_without_length_ends_with_the_stream_and_ends_reuse(name):
    data = UNTIL_CLOSE[name]
    whole = outcome([data], eof=True)
    body = data.partition(b"\r\n\r\n")[2]
    assert whole[0][1:] == (body, 1)
    assert whole[1:] == (True, False, True)
    assert outcome(bytewise(data), eof=True) == whole
    reader, recorder = read(data)
    assert not reader.is_complete
    assert recorder.ends == 0


SHORT = {
    "nothing": (b"", "before the response"),
    "half a head": (OK + b"content-le", "within the head"),
    "a 1xx only": (b"HTTP/1.1 100 Continue\r\n\r\n", "within the head"),
    "a short body": (OK + b"content-length: 3\r\n\r\nab", "within the body"),
    "no last chunk": (CHUNKED + b"3\r\nabc\r\n", "within the body"),
    "no end of trailers": (CHUNKED + b"0\r\n", "within the body"),
}


@pytest.mark.fault("F22")
@pytest.mark.parametrize("name", SHORT)
def test_end_of_stream_does_not_complete_a_response_with_a_length(name):
    data, place = SHORT[name]
    reader, recorder = read(*bytewise(data))
    assert reader.phase == place
    assert reader.has_started == bool(data)
    assert reader.eof() is False
    assert recorder.ends == 0
    assert not reader.is_complete
    assert not reader.may_reuse


@pytest.mark.attack("S33")
@pytest.mark.parametrize("name", MALFORMED)
def test_ambiguous_response_is_refused(name):
    data = MALFORMED[name]
    refused = (RemoteProtocolError, False)
    assert outcome([data]) == refused
    assert outcome(bytewise(data)) == refused
    for at in range(1, len(data)):
        assert outcome([data[:at], data[at:]]) == refused


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x15\x03\x01\x00\x02\x02", "https"),
        (b"\x00\x00\x12\x04\x00", "HTTP/2"),
        (b"SSH-2.0-x", None),
    ],
)
def test_error_for_bytes_that_are_not_http_quotes_them_with_a_hint(data, hint):
    with pytest.raises(RemoteProtocolError, match="status line") as caught:
        read(data)
    assert repr(data) in str(caught.value)
    assert (hint or "") in (caught.value.hint or "")
    assert (caught.value.hint is None) == (hint is None)


LEFTOVERS = [
    *(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"x", b"HTTP/1.1 2", b"\0"),
    b"\r\n",
]


@pytest.mark.attack("S33")
@pytest.mark.parametrize("leftover", LEFTOVERS)
@pytest.mark.parametrize(
    "response",
    [
        OK + b"content-length: 1\r\n\r\na",
        CHUNKED + b"1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 204 X\r\ncontent-length: 1\r\n\r\n",
        OK + b"connection: close\r\ncontent-length: 1\r\n\r\na",
    ],
)
def test_bytes_after_a_response_end_reuse_and_reach_no_reply(response, leftover):
    expected = read(response)[1].received
    for pieces in ([response + leftover], [response, leftover], bytewise(response)):
        reader, recorder = read(*pieces)
        reader.feed(leftover)
        assert recorder.received == expected
        assert reader.is_complete
        assert not reader.may_reuse


def test_end_of_an_idle_stream_ends_reuse():
    reader, recorder = read(OK + b"content-length: 0\r\n\r\n")
    assert reader.eof() is False
    assert not reader.may_reuse
    assert recorder.ends == 1


def test_one_reader_reads_consecutive_responses():
    reader = ResponseReader(Limits())
    assert reader.is_complete
    assert reader.may_reuse
    for at, name in enumerate(n for n in GOOD if n not in LAST):
        data = GOOD[name][0]
        recorder = ReplyRecorder()
        reader.expect(recorder)
        assert not reader.has_started
        assert reader.phase == "before the response"
        for piece in [data] if at % 2 else bytewise(data):
            reader.feed(piece)
        assert recorder.ends == 1
        assert recorder.received == outcome([data])[0]


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        (b"timeout=5", 5),
        (b"timeout=5, max=100", 5),
        (b"max=100, Timeout=7", 7),
        (b"max=100;timeout=7", 7),
        (b"timeout=", inf),
        (b"timeout=-1", inf),
        (b"timeout=99999999999", inf),
        (b"xtimeout=5", inf),
        (b"nonsense", inf),
    ],
)
@pytest.mark.fault("F35")
def test_keep_alive_timeout_is_read(field, seconds):
    head = OK + b"keep-alive: " + field + b"\r\ncontent-length: 0\r\n\r\n"
    reader, _ = read(head)
    assert reader.idle_s == seconds
    reader.expect(ReplyRecorder())
    reader.feed(OK + b"content-length: 0\r\n\r\n")
    assert reader.idle_s == inf


PIECES = st.sampled_from(
    [
        *(OK, b"HTTP/1.1 100 C\r\n\r\n", b"content-length: 3\r\n"),
        *(b"transfer-encoding: chunked\r\n", b"x: y\r\n", b"\r\n", b"abc"),
        *(b"3\r\nabc\r\n", b"0\r\n\r\n", b"\n", b" ", b"\0"),
    ]
)


@given(st.lists(PIECES, max_size=8).map(b"".join), st.data())
def test_outcome_does_not_depend_on_the_split_of_any_bytes(data, draw):
    cuts = sorted(draw.draw(st.sets(st.integers(1, max(len(data), 2) - 1), max_size=5)))
    pieces = [
        data[begin:end]
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
        if data[begin:end]
    ]
    limits = Limits(head=60)
    whole = outcome([data] if data else [], limits, eof=True)[0]
    # With two errors at once, the split decides which is detected first; and an empty
    # line after a response is detected only by a later poll of the reader.
    for other in (pieces, bytewise(data)):
        cut = outcome(other, limits, eof=True)[0]
        assert cut == whole or (isinstance(cut, type) and isinstance(whole, type))


HEADS = [
    (b"", OK + b"x: " + b"y" * 50 + b"\r\n\r\n"),
    (b"", OK + b"x: " + b"y" * 30 + b"\r\ncontent-length: 100\r\n\r\n"),
    (b"HTTP/1.1 103 X\r\n\r\n", OK + b"x: " + b"y" * 30 + b"\r\n\r\n"),
    (b"HTTP/1.1 100 X\r\n\r\n" * 3, b"HTTP/1.1 204 X\r\n\r\n"),
    (b"", CHUNKED),
]


@pytest.mark.attack("S33")
@pytest.mark.parametrize(("interim", "head"), HEADS)
def test_head_is_refused_at_the_first_byte_over_the_limit(interim, head):
    size = len(interim + head)
    body = b"1\r\na\r\n0\r\n\r\n" if head == CHUNKED else b"z" * 100
    data = interim + head + (b"" if b"204" in head else body)
    fits, over = Limits(head=size), Limits(head=size - 1)
    whole = outcome([data], fits)
    assert whole[0][0]
    assert outcome(bytewise(data), fits) == whole
    too_large = (MessageTooLarge, False)
    assert outcome(bytewise(data), over) == too_large
    for at in range(1, len(data)):
        assert outcome([data[:at], data[at:]], fits) == whole
        assert outcome([data[:at], data[at:]], over) == too_large
    with pytest.raises(MessageTooLarge) as caught:
        read(data, limits=over)
    assert caught.value.limit == size - 1


def test_malformed_head_is_refused_regardless_of_following_bytes():
    data = OK + b"a b\r\n\r\n"
    with pytest.raises(RemoteProtocolError, match="not acceptable"):
        read(data + b"z" * 100, limits=Limits(head=len(data)))


def test_bytes_after_a_head_at_the_limit_end_reuse():
    data = b"HTTP/1.1 204 X\r\n\r\n"
    for leftover in (b"HTTP/1.1 200 OK\r\n", b"\r\n"):
        reader, recorder = read(data + leftover, limits=Limits(head=len(data)))
        assert recorder.ends == 1
        assert not reader.may_reuse


ENDLESS = {
    "head": (OK + b"x: ", b"y" * 4096),
    "reason": (b"HTTP/1.1 200 ", b"y" * 4096),
    "fields": (OK, b"x: y\r\n" * 500),
    "1xx": (b"", b"HTTP/1.1 103 X\r\n\r\n" * 100),
    "chunk extension": (CHUNKED + b"1;", b"y" * 4096),
    "trailer": (CHUNKED + b"1\r\na\r\n0\r\nx: ", b"y" * 4096),
    "trailers": (CHUNKED + b"1\r\na\r\n0\r\n", b"x: y\r\n" * 500),
}


def flood(reader, more):
    for _ in range(100):
        reader.feed(more)


@pytest.mark.attack("S33")
@pytest.mark.parametrize("name", ENDLESS)
def test_endless_bytes_outside_a_body_are_refused_at_the_limit(name):
    begin, more = ENDLESS[name]
    reader = ResponseReader(Limits(head=16384))
    reader.expect(ReplyRecorder())
    with traced_memory() as memory:
        reader.feed(begin + more)
        with pytest.raises(MessageTooLarge) as caught:
            flood(reader, more)
    assert memory.peak < 200_000
    assert caught.value.limit == 16384
    assert not reader.may_reuse


def test_head_limit_does_not_apply_to_bodies():
    limits = Limits(head=100)
    for framed in (
        OK + b"content-length: 3000\r\n\r\n" + b"x" * 3000,
        CHUNKED + b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n",
    ):
        for pieces in ([framed], bytewise(framed)):
            reader, recorder = read(*pieces, limits=limits)
            assert recorder.body == b"x" * 3000
            assert reader.may_reuse
    reader, recorder = read(*bytewise(OK + b"\r\n" + b"x" * 3000), limits=limits)
    assert recorder.body == b"x" * 3000


@pytest.mark.parametrize("place", ["head", "data", "end"])
def test_error_of_a_reply_is_raised_and_ends_reuse(place):
    def feed_a_failing_reply():
        reader = ResponseReader(Limits())
        reader.expect(ReplyRecorder(fails_at=place))
        with pytest.raises(KeyError, match=place):
            reader.feed(OK + b"content-length: 1\r\n\r\na")
        assert not reader.may_reuse

    feed_a_failing_reply()
    try:
        int("the caller's own")
    except ValueError:
        feed_a_failing_reply()
        reader, recorder = read(OK + b"content-length: 1\r\n\r\na" + OK)
    assert recorder.body == b"a"
    assert not reader.may_reuse


def test_error_of_a_reply_at_the_end_of_the_stream_is_raised():
    reader = ResponseReader(Limits())
    reader.expect(ReplyRecorder(fails_at="end"))
    reader.feed(OK + b"\r\na")
    with pytest.raises(KeyError, match="end"):
        reader.eof()
    assert not reader.may_reuse


BEHIND = {
    "what is no chunk": b"xyz\r\n",
    "a field that is none": b"0\r\na b\r\n",
    "trailers without end": b"0\r\n" + b"x: y\r\n" * 5000,
}


@pytest.mark.attack("S33")
@pytest.mark.parametrize("name", BEHIND)
def test_invalid_bytes_after_the_reply_is_over_only_end_reuse(name):
    answer = CHUNKED + b"1\r\na\r\n"
    for pieces in (
        [answer + b"0\r\n", BEHIND[name]],
        [answer, *bytewise(BEHIND[name])],
    ):
        reader, recorder = ResponseReader(Limits(head=8192)), ReplyRecorder()
        reader.expect(recorder)
        recorder.is_over = True
        for piece in pieces:
            reader.feed(piece)
        assert recorder.received == (recorder.heads, b"a", 0)
        assert reader.is_complete
        assert not reader.may_reuse


@pytest.mark.parametrize("error", [RemoteProtocolError, KeyError, KeyboardInterrupt])
def test_only_bugs_and_interrupts_after_the_reply_is_over_are_raised(error):
    reader, recorder = ResponseReader(Limits()), ReplyRecorder(fails_at="data")
    recorder.is_over, recorder.fails_with = True, error
    reader.expect(recorder)
    data = OK + b"content-length: 2\r\n\r\na"
    if error is RemoteProtocolError:
        reader.feed(data)
        assert reader.is_complete
    else:
        with pytest.raises(error):
            reader.feed(data)
    assert not reader.may_reuse


class Interrupted(dict):
    def __setitem__(self, name, value):
        raise KeyboardInterrupt


def test_interrupt_within_a_callback_is_raised():
    reader = ResponseReader(Limits())
    reader.expect(ReplyRecorder())
    reader.feed(OK)
    reader._fields = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        reader.feed(b"content-length: 0\r\n\r\n")
    assert not reader.may_reuse
