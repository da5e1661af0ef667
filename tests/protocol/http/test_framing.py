"""Reading responses: the same bytes mean the same, however they are cut."""

import tracemalloc
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed_responses import MALFORMED

from mcpwire.errors import MCPError, MessageTooLarge, RemoteProtocolError
from mcpwire.limits import Limits
from mcpwire.protocol.http.framing import ResponseReader

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


GOOD = {
    "a length": (
        OK + b"content-length: 3\r\n\r\nabc",
        (200, {b"content-length": b"3"}),
        b"abc",
        True,
    ),
    "chunks with extensions and a dropped trailer": (
        CHUNKED + b"3;a=b\r\nabc\r\n1\r\nd\r\n0\r\ntrailer: 1\r\n\r\n",
        (200, {b"transfer-encoding": b"chunked"}),
        b"abcd",
        True,
    ),
    "CHUNKED in capitals": (
        OK + b"Transfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n",
        (200, {b"transfer-encoding": b"CHUNKED"}),
        b"a",
        True,
    ),
    "no body at all": (b"HTTP/1.1 204 No\r\n\r\n", (204, {}), b"", True),
    "a 304 tells a length it does not have": (
        b"HTTP/1.1 304 X\r\ncontent-length: 5\r\n\r\n",
        (304, {b"content-length": b"5"}),
        b"",
        True,
    ),
    "100 first": (
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 1\r\n\r\na",
        (200, {b"content-length": b"1"}),
        b"a",
        True,
    ),
    "two 103 first, whose fields are theirs": (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2
        + OK
        + b"content-length: 1\r\n\r\na",
        (200, {b"content-length": b"1"}),
        b"a",
        True,
    ),
    "an upgrade offered, not taken": (
        OK + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 1\r\n\r\na",
        (
            200,
            {b"upgrade": b"h2c", b"connection": b"upgrade", b"content-length": b"1"},
        ),
        b"a",
        True,
    ),
    "repeated fields, blanks around values": (
        OK + b"A: \t1 \t\r\na:2\r\nB:\r\ncontent-length: 0\r\n\r\n",
        (200, {b"a": b"1, 2", b"b": b"", b"content-length": b"0"}),
        b"",
        True,
    ),
    "no reason": (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", None, b"", True),
    "a status nobody knows": (
        b"HTTP/1.1 799 X\r\ncontent-length: 0\r\n\r\n",
        (799, {b"content-length": b"0"}),
        b"",
        True,
    ),
    "close": (
        OK + b"connection: keep-alive, close\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
        False,
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", None, b"a", False),
    "HTTP/1.0 with keep-alive": (
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
        True,
    ),
    "Keep-Alive: timeout=0": (
        OK + b"keep-alive: timeout=0\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
        False,
    ),
    "identity": (
        OK + b"content-encoding: identity\r\ncontent-length: 1\r\n\r\na",
        None,
        b"a",
        True,
    ),
    "an error whose body nobody can read": (
        b"HTTP/1.1 502 X\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        (502, {b"content-encoding": b"gzip", b"content-length": b"3"}),
        b"",
        True,
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_response_is_told_once_and_whole_however_it_is_cut(name):
    data, head, body, may_reuse = GOOD[name]
    whole = outcome([data])
    (heads, got, ends), is_complete, reusable, _ = whole
    assert head is None or heads == [head]
    assert (got, ends, is_complete, reusable) == (body, 1, True, may_reuse)
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
def test_a_body_without_length_ends_with_the_stream_and_the_connection(name):
    data = UNTIL_CLOSE[name]
    whole = outcome([data], eof=True)
    body = data.partition(b"\r\n\r\n")[2]
    assert whole[0][1:] == (body, 1)
    assert whole[1:] == (True, False, True)
    assert outcome(bytewise(data), eof=True) == whole
    reader, taker = read(data)
    assert not reader.is_complete
    assert taker.ends == 0


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
def test_the_end_of_the_stream_ends_no_response_that_tells_its_length(name):
    data, place = SHORT[name]
    reader, taker = read(*bytewise(data))
    assert reader.place == place
    assert reader.has_begun == bool(data)
    assert reader.eof() is False
    assert taker.ends == 0
    assert not reader.is_complete
    assert not reader.may_reuse


@pytest.mark.attack("S33")
@pytest.mark.parametrize("name", MALFORMED)
def test_what_could_be_read_in_two_ways_is_refused(name):
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
def test_what_is_no_http_is_quoted_with_a_hint(data, hint):
    with pytest.raises(RemoteProtocolError, match="status line") as caught:
        read(data)
    assert repr(data) in str(caught.value)
    assert (hint or "") in (caught.value.hint or "")
    assert (caught.value.hint is None) == (hint is None)


LEFTOVERS = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    b"x",
    b"HTTP/1.1 2",
    b"\0",
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
def test_bytes_behind_a_response_end_the_reuse_and_reach_no_reply(response, leftover):
    expected = read(response)[1].told
    for pieces in ([response + leftover], [response, leftover], bytewise(response)):
        reader, taker = read(*pieces)
        reader.feed(leftover)
        assert taker.told == expected
        assert reader.is_complete
        assert not reader.may_reuse


def test_an_empty_line_behind_a_response_that_comes_later_ends_the_reuse():
    reader, _ = read(OK + b"content-length: 0\r\n\r\n")
    assert reader.may_reuse
    reader.feed(b"\r\n")
    assert not reader.may_reuse


def test_the_end_of_an_idle_stream_ends_the_reuse():
    reader, taker = read(OK + b"content-length: 0\r\n\r\n")
    assert reader.eof() is False
    assert not reader.may_reuse
    assert taker.ends == 1


def test_one_reader_reads_one_response_after_the_other():
    reader = ResponseReader(Limits())
    assert reader.is_complete
    assert reader.may_reuse
    for at, name in enumerate(n for n in GOOD if GOOD[n][3]):
        data = GOOD[name][0]
        taker = Taker()
        reader.expect(taker)
        assert not reader.has_begun
        assert reader.place == "before the response"
        for piece in [data] if at % 2 else bytewise(data):
            reader.feed(piece)
        assert taker.ends == 1
        assert taker.told == outcome([data])[0]


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
def test_how_long_the_server_keeps_idle_connections_is_read(field, seconds):
    head = OK + b"keep-alive: " + field + b"\r\ncontent-length: 0\r\n\r\n"
    reader, _ = read(head)
    assert reader.keep_alive_s == seconds
    reader.expect(Taker())
    reader.feed(OK + b"content-length: 0\r\n\r\n")
    assert reader.keep_alive_s == inf


HEADS = [
    (b"", OK + b"x: " + b"y" * 50 + b"\r\n\r\n"),
    (b"", OK + b"x: " + b"y" * 30 + b"\r\ncontent-length: 100\r\n\r\n"),
    (b"HTTP/1.1 103 X\r\n\r\n", OK + b"x: " + b"y" * 30 + b"\r\n\r\n"),
    (b"HTTP/1.1 100 X\r\n\r\n" * 3, b"HTTP/1.1 204 X\r\n\r\n"),
    (b"", CHUNKED),
]


@pytest.mark.attack("S33")
@pytest.mark.parametrize(("interim", "head"), HEADS)
def test_a_head_is_refused_from_its_first_byte_over_the_limit(interim, head):
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


def test_a_malformed_head_is_refused_whatever_comes_behind_it():
    data = OK + b"a b\r\n\r\n"
    with pytest.raises(RemoteProtocolError, match="not acceptable"):
        read(data + b"z" * 100, limits=Limits(head=len(data)))


def test_leftovers_behind_a_long_head_end_the_reuse():
    data = b"HTTP/1.1 204 X\r\n\r\n"
    for leftover in (b"HTTP/1.1 200 OK\r\n", b"\r\n"):
        reader, taker = read(data + leftover, limits=Limits(head=len(data)))
        assert taker.ends == 1
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
def test_what_never_ends_outside_of_a_body_is_cut_off(name):
    begin, more = ENDLESS[name]
    reader = ResponseReader(Limits(head=16384))
    reader.expect(Taker())
    tracemalloc.start()
    try:
        reader.feed(begin + more)
        with pytest.raises(MessageTooLarge) as caught:
            flood(reader, more)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    assert caught.value.limit == 16384
    assert not reader.may_reuse


def test_a_long_body_is_no_head_whatever_its_framing():
    limits = Limits(head=100)
    for framed in (
        OK + b"content-length: 3000\r\n\r\n" + b"x" * 3000,
        CHUNKED + b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n",
    ):
        for pieces in ([framed], bytewise(framed)):
            reader, taker = read(*pieces, limits=limits)
            assert taker.body == b"x" * 3000
            assert reader.may_reuse
    reader, taker = read(*bytewise(OK + b"\r\n" + b"x" * 3000), limits=limits)
    assert taker.body == b"x" * 3000


@pytest.mark.parametrize("place", ["head", "data", "end"])
def test_what_a_reply_raises_comes_out_and_ends_the_reuse(place):
    reader = ResponseReader(Limits())
    reader.expect(Taker(fails_at=place))
    with pytest.raises(KeyError, match=place):
        reader.feed(OK + b"content-length: 1\r\n\r\na")
    assert not reader.may_reuse


@pytest.mark.parametrize("place", ["head", "data", "end"])
def test_what_a_reply_raises_comes_out_where_an_exception_is_handled(place):
    reader = ResponseReader(Limits())
    reader.expect(Taker(fails_at=place))
    try:
        raise ValueError("the caller's own")
    except ValueError:
        with pytest.raises(KeyError, match=place):
            reader.feed(OK + b"content-length: 1\r\n\r\na")
        reader, taker = read(OK + b"content-length: 1\r\n\r\na" + OK)
    assert taker.body == b"a"
    assert not reader.may_reuse


def test_what_a_reply_raises_at_the_end_of_the_stream_comes_out():
    reader = ResponseReader(Limits())
    reader.expect(Taker(fails_at="end"))
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
def test_what_is_wrong_behind_the_answer_only_ends_the_reuse(name):
    answer = CHUNKED + b"1\r\na\r\n"
    for pieces in (
        [answer + b"0\r\n", BEHIND[name]],
        [answer, *bytewise(BEHIND[name])],
    ):
        reader, taker = ResponseReader(Limits(head=8192)), Taker()
        reader.expect(taker)
        taker.is_over = True
        for piece in pieces:
            reader.feed(piece)
        assert taker.told == (taker.heads, b"a", 0)
        assert reader.is_complete
        assert not reader.may_reuse


@pytest.mark.parametrize("error", [RemoteProtocolError, KeyError, KeyboardInterrupt])
def test_of_what_is_raised_behind_the_answer_only_bugs_and_interrupts_come_out(error):
    reader, taker = ResponseReader(Limits()), Taker(fails_at="data")
    taker.is_over, taker.fails_with = True, error
    reader.expect(taker)
    data = OK + b"content-length: 2\r\n\r\na"
    if error is RemoteProtocolError:
        reader.feed(data)
        assert reader.is_complete
    else:
        with pytest.raises(error):
            reader.feed(data)
    assert not reader.may_reuse


PIECES = st.sampled_from(
    [
        OK,
        b"HTTP/1.1 100 C\r\n\r\n",
        b"content-length: 3\r\n",
        b"transfer-encoding: chunked\r\n",
        b"x: y\r\n",
        b"\r\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\n",
        b" ",
        b"\0",
    ]
)


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=8).map(b"".join), st.data())
def test_cutting_changes_nothing_of_whatever_a_server_sends(data, draw):
    cuts = sorted(draw.draw(st.sets(st.integers(1, max(len(data), 2) - 1), max_size=5)))
    pieces = [
        data[begin:end]
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
        if data[begin:end]
    ]
    limits = Limits(head=60)
    whole = outcome([data] if data else [], limits, eof=True)[0]
    # Two things may be wrong at once, and the cut tells which is seen first; and of an
    # empty line behind a response only a later reader's poll can tell.
    for other in (pieces, bytewise(data)):
        cut = outcome(other, limits, eof=True)[0]
        assert cut == whole or (isinstance(cut, type) and isinstance(whole, type))
