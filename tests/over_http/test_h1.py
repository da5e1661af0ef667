"""Reading responses: the result does not depend on how the bytes are split."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from malformed_responses import MALFORMED
from reply_recorder import CHUNKED, OK, ReplyRecorder, bytewise, outcome, read

from mcpwire.errors import RemoteProtocolError
from mcpwire.limits import Limits
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.h1 import MAX_JOINED_BYTES, ResponseReader, encode

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
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 104 X\r\ncontent-length: 0\r\n\r\n"
        + OK
        + b"content-length: 1\r\n\r\na",
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
        (200, {b"upgrade": b"h2c", b"connection": b"upgrade", b"content-length": b"1"}),
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
def test_response_is_delivered_once_and_complete_for_any_split(name):
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
def test_bytes_after_a_response_end_reuse_and_reach_no_reply(response, leftover):
    expected = read(response)[1].received
    for pieces in ([response + leftover], [response, leftover], bytewise(response)):
        reader, recorder = read(*pieces)
        reader.feed(leftover)
        assert recorder.received == expected
        assert reader.is_complete
        assert not reader.may_reuse


def test_late_empty_line_after_a_response_ends_reuse():
    reader, _ = read(OK + b"content-length: 0\r\n\r\n")
    assert reader.may_reuse
    reader.feed(b"\r\n")
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
    for at, name in enumerate(n for n in GOOD if GOOD[n][3]):
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
