"""Reading responses: size limits, raised errors and the end of reuse."""

import tracemalloc

import pytest
from reply_recorder import CHUNKED, OK, ReplyRecorder, bytewise, outcome, read

from mcpwire.errors import MessageTooLarge, RemoteProtocolError
from mcpwire.limits import Limits
from mcpwire.transports.http.h1 import ResponseReader

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
    reader = ResponseReader(Limits())
    reader.expect(ReplyRecorder(fails_at=place))
    with pytest.raises(KeyError, match=place):
        reader.feed(OK + b"content-length: 1\r\n\r\na")
    assert not reader.may_reuse


@pytest.mark.parametrize("place", ["head", "data", "end"])
def test_error_of_a_reply_is_raised_while_another_is_handled(place):
    reader = ResponseReader(Limits())
    reader.expect(ReplyRecorder(fails_at=place))
    try:
        int("the caller's own")
    except ValueError:
        with pytest.raises(KeyError, match=place):
            reader.feed(OK + b"content-length: 1\r\n\r\na")
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
