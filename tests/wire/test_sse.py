"""Server-sent events: read as the HTML standard says, on bytes, with a limit."""

import pytest
from delivery import cut, deliver_three_ways, feed_all
from hypothesis import given
from hypothesis import strategies as st
from traced_memory import traced_memory

from mcpwire.errors import LocalProtocolError
from mcpwire.wire.sse import SSEDecoder, SSEEvent, encode_event

LIMIT = 64
BOM = b"\xef\xbb\xbf"


def message(data, *, event="message", id="", retry=None):
    return SSEEvent(event, data, id, retry)


STREAMS = {
    "one event": (b"data: {}\n\n", [message(b"{}")]),
    "named event": (b"event: x\ndata: 1\n\n", [message(b"1", event="x")]),
    "a name without data is dropped": (b"event: x\n\ndata: 2\n\n", [message(b"2")]),
    "the last name counts": (
        b"event: x\nevent: y\ndata: 1\n\n",
        [message(b"1", event="y")],
    ),
    "several data lines": (
        b"data: a\ndata:b\ndata\ndata: \n\n",
        [message(b"a\nb\n\n")],
    ),
    "no space behind the colon": (b"data:{}\n\n", [message(b"{}")]),
    "one space is stripped and no more": (
        b"data:  a \n\ndata:\ta\n\n",
        [message(b" a "), message(b"\ta")],
    ),
    "a field without a colon": (b"data\n\n", [message(b"")]),
    "priming: empty data with a data line": (
        b"id: 1\ndata:\n\n",
        [message(b"", id="1")],
    ),
    "no data line, no event": (b"id: 1\nevent: x\nretry: 5\n\n", []),
    "empty lines": (b"\n\n\ndata: 1\n\n\n", [message(b"1")]),
    "comments": (b": a\n:b\n:\ndata: 1\n: c\n\n: d\n\n", [message(b"1")]),
    "an id lasts until the next": (
        b"id: 1\ndata: a\n\ndata: b\n\nid: 2\n\ndata: c\n\nid\ndata: d\n\n",
        [
            message(b"a", id="1"),
            message(b"b", id="1"),
            message(b"c", id="2"),
            message(b"d", id=""),
        ],
    ),
    "an id with NUL is ignored": (
        b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n",
        [message(b"a", id="1"), message(b"b", id="1")],
    ),
    "an id in UTF-8": ("id: ü😀\ndata: a\n\n".encode(), [message(b"a", id="ü😀")]),
    "an id in invalid UTF-8": (b"id: \xff\ndata: a\n\n", [message(b"a", id="\ufffd")]),
    "retry in digits": (
        b"retry: 3000\ndata: a\n\ndata: b\n\n",
        [message(b"a", retry=3000), message(b"b")],
    ),
    "retry with leading zeros": (
        b"retry: %s5\ndata: a\n\n" % (b"0" * 40),
        [message(b"a", retry=5)],
    ),
    "retry beyond the maximum": (
        b"retry: %s\ndata: a\n\nretry: 9999999999999\ndata: b\n\n" % (b"9" * 50),
        [message(b"a", retry=10**12), message(b"b", retry=10**12)],
    ),
    "retry that is no number": (
        b"retry: "
        + b"\nretry: ".join(
            [b"1_000", b"-1", b"+1", b"1.5", b"0x10", b"1 ", b"", b"\xd9\xa3", b"a"]
        )
        + b"\ndata: a\n\n",
        [message(b"a")],
    ),
    "unknown fields and other cases": (
        b"Data: a\nDATA: b\n data: c\ndata : d\nfoo: e\n\xff: f\ndata: g\n\n",
        [message(b"g")],
    ),
    "CR": (b"data: a\rdata: b\r\rdata: c\r\r", [message(b"a\nb"), message(b"c")]),
    "CRLF": (
        b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
        [message(b"a\nb"), message(b"c")],
    ),
    "mixed ends": (
        b"data: a\rdata: b\r\ndata: c\n\r\ndata: d\n\rdata: e\r\n\n",
        [message(b"a\nb\nc"), message(b"d"), message(b"e")],
    ),
    "a mark at the start": (BOM + b"data: 1\n\n", [message(b"1")]),
    "a mark later is part of a field's name": (
        b"data: 1\n\n" + BOM + b"data: 2\n\n",
        [message(b"1")],
    ),
    "two marks at the start": (BOM * 2 + b"data: 1\n\n", []),
    "other line separators": (
        "data: \u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\n\n".encode(),
        [message("\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e".encode())],
    ),
    "invalid UTF-8 in data is handed on": (
        b"data: \xff\0\n\ndata: 1\n\n",
        [message(b"\xff\0"), message(b"1")],
    ),
    "data of exactly the limit": (
        b"data: %s\n\n" % (b"x" * LIMIT),
        [message(b"x" * LIMIT)],
    ),
    "lines of exactly the limit together": (
        b"data:%s\ndata:\n: comment\ndata:\n\n" % (b"x" * (LIMIT - 2)),
        [message(b"x" * (LIMIT - 2) + b"\n\n")],
    ),
}


@pytest.mark.pain("P14", "P19")
@pytest.mark.fault("F30")
@pytest.mark.parametrize(("stream", "events"), STREAMS.values(), ids=STREAMS)
def test_events_are_the_same_for_every_delivery(stream, events):
    """The table contains traps 1 to 5."""
    outcomes = deliver_three_ways(
        lambda: SSEDecoder(LIMIT), stream, begun=b": x\ndata: en", ended=b"d\n\n"
    )
    assert outcomes == dict.fromkeys(outcomes, events)


@pytest.mark.pain("P19")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize("mark", [b"", BOM], ids=["no mark", "mark"])
def test_stream_may_be_cut_anywhere(end, mark):
    lines = b"id: 1\nevent: e\ndata: a\n: c\ndata: b\n\ndata: c\n\n"
    stream = mark + lines.replace(b"\n", end)
    expected = [message(b"a\nb", event="e", id="1"), message(b"c", id="1")]
    for first in range(len(stream)):
        for second in range(first, len(stream)):
            chunks = cut(stream, [first, second])
            assert feed_all(SSEDecoder(LIMIT), chunks) == expected


@pytest.mark.pain("P19")
def test_event_is_returned_at_its_last_carriage_return():
    """Waiting for a line feed that never comes would delay the event."""
    decoder = SSEDecoder(LIMIT)
    assert decoder.feed(b"data: a\r\n\r") == [message(b"a")]
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\ndata: b\r\n\r") == [message(b"b")]


@pytest.mark.pain("P19")
@pytest.mark.fault("F30")
@pytest.mark.parametrize("tail", [b"data: 2", b"data: 2\n", b"id: 2\ndata: 2\n: c"])
def test_event_cut_off_by_the_end_of_the_stream_is_dropped(tail):
    """Trap 4: its data may be incomplete, and its id does not count yet."""
    decoder = SSEDecoder(LIMIT)
    assert decoder.feed(b"id: 1\ndata: 1\n\n" + tail) == [message(b"1", id="1")]
    assert decoder.last_event_id == "1"


@pytest.mark.pain("P22")
def test_last_event_id_is_the_newest_id_of_a_finished_event():
    decoder = SSEDecoder(LIMIT)
    event_ids = [decoder.last_event_id]
    for block in [b"data: a\n\n", b"id: 1\ndata: a\n", b"\n", b"id: 2\n\n", b": c\n\n"]:
        decoder.feed(block)
        event_ids.append(decoder.last_event_id)
    assert event_ids == ["", "", "", "1", "2", "2"]


def test_reconnection_time_applies_at_once_without_an_event():
    decoder = SSEDecoder(LIMIT)
    assert decoder.retry is None
    decoder.feed(b"retry: 10\n")
    assert decoder.retry == 10
    assert decoder.feed(b"\ndata: a\n\n") == [message(b"a")]
    assert decoder.retry == 10


OVERFLOWS = {
    "data one byte too long": b"data: %s\n\n" % (b"x" * (LIMIT + 1)),
    "without the space": b"data:%s\n\n" % (b"x" * (LIMIT + 1)),
    "many data lines": b"data: %s\n" % (b"x" * 10) * 10 + b"\n",
    "many empty data lines": b"data\n" * (LIMIT + 2) + b"\n",
    "an endless line of data": b"data: " + b"x" * 2 * LIMIT,
    "an endless comment": b":" + b"x" * 2 * LIMIT,
    "a long comment": b":" + b"x" * 2 * LIMIT + b"\n",
    "an endless name": b"x" * 2 * LIMIT,
    "a long id": b"id: " + b"x" * 2 * LIMIT + b"\ndata: 1\n\n",
    "an endless line after data": b"data: %s\ndata: " % (b"x" * 40) + b"x" * 25,
}


@pytest.mark.pain("P13")
@pytest.mark.attack("S15")
@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("stream", OVERFLOWS.values(), ids=OVERFLOWS)
def test_event_over_the_limit_overflows_after_the_earlier_events(stream, size):
    decoder = SSEDecoder(LIMIT)
    stream = b"id: 1\ndata: 1\n\n" + stream + b"\n\ndata: 2\n\n"
    chunks = cut(stream, range(0, len(stream), size))
    assert feed_all(decoder, chunks) == [message(b"1", id="1")]
    assert decoder.overflow
    assert decoder.feed(b"data: 3\n\n") == []
    assert decoder.last_event_id == "1"
    assert not decoder._lines._partial
    assert decoder._data is None


def test_heartbeats_yield_no_events_and_do_not_overflow():
    decoder = SSEDecoder(LIMIT)
    assert feed_all(decoder, [b": ping\n\n", b":\n"] * 1000) == []
    assert not decoder.overflow


class CountingBytes(bytes):
    searched = 0
    split_bytes = 0

    def __contains__(self, item):
        CountingBytes.searched += len(self)
        return super().__contains__(item)

    def split(self, separator):
        CountingBytes.split_up += len(self)
        return super().split(separator)


@pytest.mark.pain("P13", "P19")
def test_event_of_16_mib_in_one_line_takes_linear_time():
    """Linear by structure: no byte is searched twice, and the buffer only grows."""
    chunk = CountingBytes(b"x" * 65536)
    decoder = SSEDecoder(64 * 1024 * 1024)
    decoder.feed(b": \n\ndata: ")
    CountingBytes.searched = CountingBytes.split_up = 0
    partial = decoder._lines._partial
    with traced_memory() as memory:
        for _ in range(256):
            assert decoder.feed(chunk) == []
            assert decoder._lines._partial is partial
        del partial
        (event,) = decoder.feed(b"\n\n")
    assert len(event.data) == 256 * len(chunk)
    # Once for a carriage return and once for a line feed.
    assert CountingBytes.searched == 2 * len(event.data)
    assert CountingBytes.split_up == 0
    assert memory.peak < 2.3 * len(event.data)


@pytest.mark.attack("S15")
def test_empty_data_lines_take_one_byte_each():
    decoder = SSEDecoder(10**7)
    with traced_memory() as memory:
        for _ in range(100):
            decoder.feed(b"data\n" * 200)
    assert memory.held < 60_000
    assert decoder.feed(b"\n") == [message(b"\n" * 19_999)]


BITS = [b"\n", b"\r", b"data:", b"data", b"id: 1", b"event: e", b"retry: 1", b": ", BOM]
STREAM = st.lists(st.sampled_from(BITS) | st.binary(max_size=3)).map(b"".join)
PLACES = st.lists(st.integers(0, 300))


@pytest.mark.pain("P19")
@given(STREAM, PLACES)
def test_events_do_not_depend_on_the_chunks(stream, places):
    whole, pieces = SSEDecoder(5), SSEDecoder(5)
    assert feed_all(pieces, cut(stream, places)) == whole.feed(stream)
    assert pieces.overflow == whole.overflow
    assert pieces.last_event_id == whole.last_event_id
    assert pieces.retry == whole.retry


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))


@given(
    st.lists(
        st.tuples(
            st.binary().map(lambda data: data.replace(b"\r", b"")),
            st.none() | LINE,
            st.none() | LINE,
            st.none() | st.integers(0, 10**12),
        )
    )
)
def test_encoded_event_is_decoded_back(sent_events):
    decoder = SSEDecoder(10_000)
    last_id = ""
    for data, event, id, retry in sent_events:
        last_id = last_id if id is None else id
        stream = b": comment\n\n" + encode_event(data, event=event, id=id, retry=retry)
        assert decoder.feed(stream) == [
            SSEEvent(event or "message", data, last_id, retry)
        ]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (encode_event(b"{}"), b"data: {}\n\n"),
        (encode_event(b""), b"data: \n\n"),
        (encode_event(b"a\n\nb"), b"data: a\ndata: \ndata: b\n\n"),
        (
            encode_event(b"{}", event="message", id="a 1", retry=0),
            b"event: message\nid: a 1\nretry: 0\ndata: {}\n\n",
        ),
        (encode_event(b"", id=""), b"id: \ndata: \n\n"),
    ],
)
def test_encoded_events_have_these_bytes(event, text):
    assert event == text


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda: encode_event(b"a\rb"), "data cannot contain a carriage return"),
        (lambda: encode_event(b"", event="a\ndata: b"), "type must be one line"),
        (lambda: encode_event(b"", event="a\rb"), "type must be one line"),
        (lambda: encode_event(b"", id="a\nb"), "id must be one line"),
        (lambda: encode_event(b"", id="a\0b"), "id must be one line"),
        (lambda: encode_event(b"", id="\ud800"), "id must be Unicode"),
        (lambda: encode_event(b"", retry=-1), "retry must not be negative, got -1"),
    ],
)
def test_unencodable_event_is_refused(encode, message):
    with pytest.raises(LocalProtocolError, match=message):
        encode()
