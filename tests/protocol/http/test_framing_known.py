"""Reading responses whose head came before: faster, and with no other outcome."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from framed import CHUNKED, OK, Taker, bytewise
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import MCPError, RemoteProtocolError
from mcpwire.limits import Limits
from mcpwire.protocol.http.framing import ResponseReader

JSON = OK + b"Content-Type: application/json\r\nContent-Length: 3\r\n\r\n"
STREAM = OK + b"Keep-Alive: timeout=7\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = {
    "a length": (JSON + b"abc", b"abc"),
    "one chunk": (STREAM + b"b\r\ndata: abcde\r\n0\r\n\r\n", b"data: abcde"),
}


class Diary(Taker):
    """Writes down every single thing it is told; may raise, or have had enough."""

    def __init__(self, fails_at=None, fails_with=KeyError, over_at=None):
        super().__init__(fails_at)
        self.fails_with = fails_with
        self.over_at = over_at
        self.events = []

    def _note(self, what):
        if what == self.over_at:
            self.is_over = True
        super()._note(what)

    def head(self, status, fields):
        self.events.append((status, dict(fields)))
        super().head(status, fields)

    def data(self, chunk):
        assert type(chunk) is bytes
        self.events.append(chunk)
        super().data(chunk)

    def end(self):
        self.events.append("end")
        super().end()


def parsing(reader):
    """Count how often a reader has its bytes read by httptools."""
    counts = SimpleNamespace(parsed=0)
    parse = reader._parse

    def counted(data):
        counts.parsed += 1
        parse(data)

    reader._parse = counted
    return counts


def one_more(reader, data, reply=None):
    """Feed one more response in one piece, and return the reply that was told."""
    reply = reply or Diary()
    reader.expect(reply)
    reader.feed(data)
    return reply


def warm(*responses, limits=None):
    reader = ResponseReader(limits or Limits())
    for response in responses:
        for _ in range(2):
            one_more(reader, response)
            assert reader.is_complete
            assert reader.may_reuse
    return reader


@pytest.mark.parametrize("name", WHOLE)
def test_from_the_third_time_on_a_head_is_not_read_again(name):
    data, body = WHOLE[name]
    reader = ResponseReader(Limits())
    counts = parsing(reader)
    first, second, third = (one_more(reader, data) for _ in range(3))
    assert counts.parsed == 2
    assert first.events == second.events == third.events
    assert third.told == (first.heads, body, 1)
    assert (reader.is_complete, reader.may_reuse, reader.has_begun) == (True,) * 3
    assert reader.place == "within the body"


def test_another_body_behind_a_known_head_is_its_own():
    reader = warm(WHOLE["one chunk"][0], WHOLE["a length"][0])
    counts = parsing(reader)
    for body in (b"x", b"y" * 500, b"\r\n\r\n", b"0\r\n\r\n", b"\r\n0\r\n\r\n"):
        for size in (b"%x" % len(body), b"%X" % len(body)):
            told = one_more(reader, STREAM + size + b"\r\n" + body + b"\r\n0\r\n\r\n")
            assert told.body == body
            assert reader.keep_alive_s == 7
    assert one_more(reader, JSON + b"\r\n\r").body == b"\r\n\r"
    assert counts.parsed == 0


class AtOnce(Diary):
    """Takes whole responses in one call, or will not."""

    def __init__(self, takes):
        super().__init__()
        self.takes = takes

    def whole(self, fields, body):
        if self.takes is KeyboardInterrupt:
            raise KeyboardInterrupt
        if self.takes:
            self.events.append((dict(fields), body))
        return self.takes


@pytest.mark.parametrize("name", WHOLE)
def test_a_reply_that_takes_a_response_in_one_call_is_told_in_one(name):
    data, body = WHOLE[name]
    reader = warm(data)
    told = one_more(reader, data, AtOnce(takes=True))
    assert [entry[1] for entry in told.events] == [body]
    assert told.told[2] == 0
    assert (reader.is_complete, reader.may_reuse) == (True, True)
    assert one_more(reader, data, AtOnce(takes=False)).told[1:] == (body, 1)
    with pytest.raises(KeyboardInterrupt):
        one_more(reader, data, AtOnce(takes=KeyboardInterrupt))
    assert (reader.is_complete, reader.may_reuse) == (False, False)


READ_AGAIN = {
    "too little": JSON + b"ab",
    "too much": JSON + b"abcd",
    "an empty line behind": JSON + b"abc\r\n",
    "another length": JSON.replace(b"3", b"4") + b"abcd",
    "no body": JSON[:-4],
    "no end of the chunks": STREAM + b"1\r\na\r\n",
    "two chunks": STREAM + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
    "no chunk but the last": STREAM + b"0\r\n\r\n",
    "the last chunk twice": STREAM + b"0\r\n\r\n0\r\n\r\n",
    "a size with zeros": STREAM + b"01\r\na\r\n0\r\n\r\n",
    "an extension": STREAM + b"1;a\r\na\r\n0\r\n\r\n",
    "a trailer": STREAM + b"1\r\na\r\n0\r\na: b\r\n\r\n",
    "a size too large": STREAM + b"2\r\na\r\n0\r\n\r\n",
    "a size too small": STREAM + b"1\r\nab\r\n0\r\n\r\n",
    "another chunk's beginning": STREAM + b"1\r\na\r\n1\r\n\r\n",
    "a last chunk that is none": STREAM + b"1\r\na\r\n0\r\n\n\n",
    "no end of a chunk": STREAM + b"1\r\naxx0\r\n\r\n",
    "a size with a sign": STREAM + b"+1\r\na\r\n0\r\n\r\n",
    "a size with a blank": STREAM + b"1 \r\na\r\n0\r\n\r\n",
    "a bare line feed": STREAM + b"1\na\r\n0\r\n\r\n",
    "mixed hexadecimals": STREAM + b"aA\r\n" + b"x" * 170 + b"\r\n0\r\n\r\n",
    "a 1xx before": b"HTTP/1.1 100 C\r\n\r\n" + JSON + b"abc",
    "a response behind": (JSON + b"abc") * 2,
    "an empty line before": b"\r\n" + JSON + b"abc",
    "a bare line feed in the head": JSON.replace(b"OK\r\n", b"OK\n") + b"abc",
}


@pytest.mark.attack("S33")
@pytest.mark.parametrize("name", READ_AGAIN)
def test_what_is_more_or_less_than_a_known_response_is_read_from_its_beginning(name):
    reader = warm(WHOLE["one chunk"][0], WHOLE["a length"][0])
    assert known_and_unknown_agree(reader, [(READ_AGAIN[name], (), {})] * 2)


STRANGE = {
    "a status": b"HTTP/1.1 201 C\r\ncontent-length: 1\r\n\r\na",
    "an older version": OK.replace(b"1.1", b"1.0")
    + b"connection: keep-alive\r\ncontent-length: 1\r\n\r\na",
    "no body": OK + b"content-length: 0\r\n\r\n",
    "a length with zeros": OK + b"content-length: 01\r\n\r\na",
    "a long head": OK + b"x: " + b"y" * 2048 + b"\r\ncontent-length: 1\r\n\r\na",
    "a long body": OK + b"content-length: 16384\r\n\r\n" + b"x" * 16384,
    "a 1xx before": b"HTTP/1.1 100 C\r\n\r\n" + JSON + b"abc",
    "two chunks": CHUNKED + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
    "a trailer": CHUNKED + b"1\r\na\r\n0\r\na: b\r\n\r\n",
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_not_the_usual_answer_is_read_each_time(name):
    reader = ResponseReader(Limits())
    counts = parsing(reader)
    replies = [one_more(reader, STRANGE[name]) for _ in range(4)]
    assert counts.parsed == 4
    assert all(reply.events == replies[0].events for reply in replies)
    assert reader.may_reuse


def test_a_head_that_comes_in_pieces_is_not_remembered():
    reader = ResponseReader(Limits())
    counts = parsing(reader)
    data = WHOLE["a length"][0]
    for pieces in ([data[:-1], data[-1:]], [data[:30], data[30:]], bytewise(data)) * 3:
        reader.expect(Diary())
        for piece in pieces:
            reader.feed(piece)
    assert reader.may_reuse
    counts.parsed = 0
    one_more(reader, data)
    one_more(reader, data)
    assert counts.parsed == 2


@pytest.mark.parametrize("place", ["head", "data", "end"])
@pytest.mark.parametrize("error", [RemoteProtocolError, KeyError, KeyboardInterrupt])
def test_what_a_reply_raises_comes_out_of_a_known_response_too(place, error):
    reader = warm(WHOLE["a length"][0])
    counts = parsing(reader)
    try:
        int("the caller's own")
    except ValueError:
        with pytest.raises(error, match=place) as caught:
            one_more(reader, WHOLE["a length"][0], Diary(place, error))
    assert caught.value.__cause__ is None
    assert not reader.may_reuse
    assert counts.parsed == 0


def test_what_stands_in_the_middle_of_another_response_is_no_known_one():
    data = WHOLE["a length"][0]
    reader = warm(data)
    reader.expect(Diary())
    reader.feed(JSON)
    counts = parsing(reader)
    # Who expects too early is told what stands there by the rules of the first.
    with pytest.raises(AssertionError):
        one_more(reader, data)
    assert counts.parsed == 1
    assert not reader.may_reuse


# Whatever comes: the same as from a reader that remembers nothing.


class Forgetful:
    def find(self, view):
        return None

    def learn(self, size, fields, keep_alive_s):
        return None


def cold(limits):
    reader = ResponseReader(limits)
    reader._known = Forgetful()
    return reader


def fed(reader, pieces, reply):
    """Feed one response; return all that can be seen of it after each piece."""
    reader.expect(reply)
    seen = []
    flags = ("has_begun", "place", "is_complete", "may_reuse", "keep_alive_s")
    try:
        for piece in pieces:
            reader.feed(piece)
            seen.append((len(reply.events), *(getattr(reader, f) for f in flags)))
        seen.append(reader.is_complete or reader.eof())
    except (MCPError, KeyError) as error:
        seen.append((type(error), str(error)))
    return seen, reply.events, [getattr(reader, f) for f in flags]


def cut(data, cuts):
    marks = [0, *sorted({at % len(data) for at in cuts} - {0}), len(data)]
    return [data[begin:end] for begin, end in pairwise(marks)]


def known_and_unknown_agree(reader, exchanges, limits=None):
    """Compare that reader, over any number of responses, with a forgetful one."""
    other = cold(limits or Limits())
    for data, cuts, how in exchanges:
        pieces = cut(data, cuts)
        expected = fed(other, pieces, Diary(**how))
        assert fed(reader, pieces, Diary(**how)) == expected
        if not (other.is_complete and other.may_reuse):
            return True  # nobody uses that connection again
    return True


HEADS = st.sampled_from(
    [
        JSON,
        STREAM,
        CHUNKED,
        OK + b"content-length: 1\r\nkeep-alive: timeout=0\r\n\r\n",
        OK + b"content-length: 1\r\nconnection: close\r\n\r\n",
        OK + b"content-length: 1\r\ncontent-encoding: identity\r\n\r\n",
        OK + b"content-length: 7\n\n",  # whose first CRLF CRLF may be in its body
        b"HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n",
        OK + b"x: \r\n y\r\ncontent-length: 1\r\n\r\n",
        OK + b"content-length: 0\r\n\r\n",
        b"HTTP/1.1 100 C\r\n\r\n" + JSON,
    ]
)
BODIES = st.sampled_from(
    [
        b"abc",
        b"a",
        b"a\r\n\r\nbc",
        b"\r\n\r",
        b"",
        b"1\r\na\r\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"a\r\n0123456789\r\n0\r\n\r\n",
        b"A\r\n0\r\n\r\nabcde\r\n0\r\n\r\n",
        b"0\r\n\r\n",
        b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
        b"1\r\na\r\n0\r\nx: y\r\n\r\n",
        b"1\r\na\r\n1\r\n\r\n",
        b"1\r\naxx0\r\n\r\n",
        b"01\r\na\r\n0\r\n\r\n",
    ]
)
BEHIND = st.sampled_from([b""] * 8 + [b"\r\n", b"x", OK, JSON + b"abc", b"0\r\n\r\n"])
HOWS = st.one_of(
    st.just({}),
    st.builds(
        dict,
        fails_at=st.sampled_from([None, "head", "data", "end"]),
        fails_with=st.sampled_from([KeyError, RemoteProtocolError]),
        over_at=st.sampled_from([None, "head", "data"]),
    ),
)


@st.composite
def mutated(draw, responses):
    """Break one byte: another one in its place, none, or one more."""
    data = draw(responses)
    at = draw(st.integers(0, len(data) - 1))
    put = draw(st.sampled_from([b"", b"\r", b"\n", b"0", b"1", b" ", b"\0", b";"]))
    return data[:at] + put + data[at + draw(st.integers(0, 1)) :]


RESPONSES = st.builds(lambda *parts: b"".join(parts), HEADS, BODIES, BEHIND)
EXCHANGES = st.lists(
    st.tuples(
        RESPONSES | mutated(st.sampled_from([JSON + b"abc", CHUNKED + b"1\r\na"])),
        st.just(()) | st.lists(st.integers(1, 400), max_size=3),
        HOWS,
    ),
    min_size=1,
    max_size=4,
)
KEPT = [
    JSON + b"abc",
    STREAM + b"1\r\na\r\n0\r\n\r\n",
    CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
    OK + b"content-length: 1\r\ncontent-encoding: identity\r\n\r\na",
]


@pytest.mark.attack("S33")
@given(EXCHANGES, st.sampled_from([90, 65536]))
def test_a_reader_that_knows_the_heads_tells_and_refuses_as_any_other(exchanges, head):
    limits = Limits(head=head)
    reader = warm(*KEPT, limits=limits)
    assert known_and_unknown_agree(reader, exchanges, limits)


@pytest.mark.attack("S33")
@given(RESPONSES | mutated(RESPONSES), EXCHANGES)
def test_what_is_learned_of_whatever_a_server_sends_changes_nothing(first, exchanges):
    twice = [(first, (), {})] * 3
    assert known_and_unknown_agree(ResponseReader(Limits()), [*twice, *exchanges])
