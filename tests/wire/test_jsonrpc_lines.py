"""Newline framing: which bytes make which lines, whatever the chunks."""

import tracemalloc

import pytest
from delivery import cut, deliver_three_ways, feed_all
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.wire.jsonrpc import LineDecoder

LIMIT = 1024
KIB = 1024
BOM = b"\xef\xbb\xbf"

# Everything that some line reader somewhere takes for the end of a line.
SEPARATORS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"]

STREAMS = {
    "one line": (b"{}\n", [b"{}"]),
    "two lines": (b"{}\n[]\n", [b"{}", b"[]"]),
    "blank lines": (b"\n\n{}\n", [b"", b"", b"{}"]),
    "CRLF keeps its carriage return": (b"{}\r\n[]\r\n", [b"{}\r", b"[]\r"]),
    "a lone carriage return ends nothing": (b"a\rb\n", [b"a\rb"]),
    "a mark at the start": (BOM + b"{}\n", [b"{}"]),
    "a mark and nothing else": (BOM + b"\n", [b""]),
    "a second mark is data": (BOM + BOM + b"{}\n", [BOM + b"{}"]),
    "a mark on the second line is data": (b"{}\n" + BOM + b"\n", [b"{}", BOM]),
    "half a mark is data": (BOM[:2] + b"{}\n", [BOM[:2] + b"{}"]),
    "NUL is data": (b"\0\n", [b"\0"]),
    "invalid UTF-8 is data": (b"\xff\xfe\n{}\n", [b"\xff\xfe", b"{}"]),
    "emoji": ("😀\n".encode(), ["😀".encode()]),
    "every other separator": (
        "".join(SEPARATORS).encode() + b"\n",
        ["".join(SEPARATORS).encode()],
    ),
    "a line of exactly the limit": (b"x" * LIMIT + b"\n", [b"x" * LIMIT]),
    "and one behind a mark": (BOM + b"x" * LIMIT + b"\n", [b"x" * LIMIT]),
}


@pytest.mark.pain("P14", "P15")
@pytest.mark.fault("F10", "F11", "F12", "F13")
@pytest.mark.parametrize(("stream", "lines"), STREAMS.values(), ids=STREAMS)
def test_a_stream_makes_the_same_lines_however_it_is_delivered(stream, lines):
    ways = deliver_three_ways(
        lambda: LineDecoder(LIMIT), stream, begun=b"[tr", ended=b"ue]\n"
    )
    assert ways == dict.fromkeys(ways, lines)


@pytest.mark.pain("P14")
@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
def test_separators_of_other_worlds_do_not_end_a_line_wherever_they_are_cut(separator):
    """Trap 1: legal inside a JSON string, and a line's end to Python and Node."""
    line = f'{{"text":"a{separator}😀b"}}'.encode()
    for place in range(len(line)):
        decoder = LineDecoder(LIMIT)
        assert feed_all(decoder, cut(line + b"\n", [place])) == [line]


BITS = [b"\n", b"\r", b"\xef", b"\xbb", b"\xbf", BOM, b"{}", b"x" * 12]
STREAM = st.lists(st.sampled_from(BITS) | st.binary(max_size=3)).map(b"".join)
PLACES = st.lists(st.integers(0, 200))


@given(STREAM, PLACES)
def test_any_cut_makes_the_lines_of_the_whole(stream, places):
    whole, pieces = LineDecoder(20), LineDecoder(20)
    expected = [*whole.feed(stream), *whole.finish()]
    got = feed_all(pieces, cut(stream, places))
    assert [*got, *pieces.finish()] == expected
    assert pieces.overflow == whole.overflow


@given(STREAM, PLACES)
def test_every_byte_comes_back_out_when_nothing_is_too_long(stream, places):
    decoder = LineDecoder(10_000)
    lines = [*feed_all(decoder, cut(stream, places)), *decoder.finish()]
    assert b"\n".join(lines) == stream.removeprefix(BOM).removesuffix(b"\n")


@given(st.lists(st.binary()), st.integers(1, 20))
def test_bytes_of_any_kind_never_raise(chunks, limit):
    decoder = LineDecoder(limit)
    for line in [*feed_all(decoder, chunks), *decoder.finish()]:
        assert len(line) <= limit


def test_an_empty_read_changes_nothing():
    decoder = LineDecoder(LIMIT)
    chunks = [b"", b"\xef", b"", b"\xbb\xbf", b"", b"{", b"", b"}\n", b""]
    assert feed_all(decoder, chunks) == [b"{}"]


@pytest.mark.pain("P14")
def test_an_unterminated_last_line_is_handed_out_at_the_end_once():
    decoder = LineDecoder(LIMIT)
    assert decoder.feed(b"{}\n[]") == [b"{}"]
    assert list(decoder.finish()) == [b"[]"]
    assert list(decoder.finish()) == []


@pytest.mark.parametrize("stream", [b"", BOM, b"{}\n", BOM + b"{}\n"])
def test_a_stream_that_ends_between_lines_has_no_last_one(stream):
    decoder = LineDecoder(LIMIT)
    decoder.feed(stream)
    assert list(decoder.finish()) == []


def test_a_stream_that_ends_within_its_mark_shows_what_it_had():
    decoder = LineDecoder(LIMIT)
    decoder.feed(BOM[:2])
    assert list(decoder.finish()) == [BOM[:2]]


@pytest.mark.pain("P13")
@pytest.mark.parametrize("size", [1, 7, LIMIT, LIMIT + 2, 5000])
@pytest.mark.parametrize("prefix", [b"", b"{}\n"], ids=["first line", "later line"])
def test_one_byte_over_the_limit_ends_it_and_not_the_limit_itself(size, prefix):
    fits = prefix + b"x" * LIMIT + b"\n"
    over = prefix + b"x" * (LIMIT + 1) + b"\n"
    for stream, is_over in [(fits, False), (over, True)]:
        decoder = LineDecoder(LIMIT)
        chunks = cut(stream, range(0, len(stream), size))
        lines = [line for line in feed_all(decoder, chunks) if line != b"{}"]
        assert (lines, decoder.overflow) == (
            ([], True) if is_over else ([b"x" * LIMIT], False)
        )


@pytest.mark.pain("P13")
@pytest.mark.attack("S15", "S16")
def test_lines_before_an_overflow_in_the_same_chunk_are_still_returned():
    decoder = LineDecoder(LIMIT)
    long = b"x" * (LIMIT + 1)
    assert decoder.feed(b"1\n2\n" + long + b"\n3\n") == [b"1", b"2"]
    assert decoder.overflow


@pytest.mark.attack("S16")
def test_an_endless_line_is_given_up_without_waiting_for_its_end():
    decoder = LineDecoder(LIMIT)
    decoder.feed(b"1\n")
    assert feed_all(decoder, [b"x" * LIMIT]) == []
    assert not decoder.overflow
    assert feed_all(decoder, [b"x"]) == []
    assert decoder.overflow


def test_after_an_overflow_nothing_more_comes_and_nothing_is_kept():
    decoder = LineDecoder(4)
    decoder.feed(b"12345")
    assert [*decoder.feed(b"\n1\n"), *decoder.feed(b"1\n"), *decoder.finish()] == []
    assert decoder.overflow
    assert not decoder._partial


class CountingBytes(bytes):
    """Counts the bytes that somebody searches in it."""

    searched = 0

    def partition(self, separator):
        CountingBytes.searched += len(self)
        return super().partition(separator)

    def split(self, separator):
        CountingBytes.searched += len(self)
        return super().split(separator)


@pytest.mark.pain("P13")
@pytest.mark.fault("F11")
def test_a_line_of_32_mib_costs_each_byte_a_constant():
    """Linear by structure: no byte is searched again, and what is held only grows."""
    chunk = CountingBytes(b"x" * 64 * KIB)
    decoder = LineDecoder(64 * KIB * KIB)
    decoder.feed(b"{}\n")
    CountingBytes.searched = 0
    held = decoder._partial
    tracemalloc.start()
    try:
        for _ in range(512):
            assert not decoder.feed(chunk)
            assert decoder._partial is held
        (line,) = decoder.feed(CountingBytes(b"\n"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(line) == 512 * len(chunk)
    assert CountingBytes.searched <= len(line) + 10
    assert peak < 1.3 * len(line)


def test_many_lines_in_one_chunk_are_searched_once():
    decoder = LineDecoder(LIMIT)
    decoder.feed(b"{}\n")
    CountingBytes.searched = 0
    data = CountingBytes(b"{}\n" * 10_000)
    assert len(decoder.feed(data)) == 10_000
    assert CountingBytes.searched <= 2 * len(data)
