"""JSON-RPC messages and their faults by path; lines of a stream, in any chunks."""

import math

import pytest
from delivery import cut, deliver_three_ways, feed_all
from hypothesis import example, given
from hypothesis import strategies as st
from traced_memory import traced_memory

from mcpwire.errors import InvalidMessage, InvalidParams, RPCError, UnsupportedVersion
from mcpwire.wire.json import encode, loads
from mcpwire.wire.jsonrpc import (
    Failure,
    LineDecoder,
    Notification,
    Request,
    Success,
    failure,
    intended_id,
    notification,
    parse_message,
    request,
    success,
)

IDS = st.integers(-(2**63), 2**64 - 1) | st.text(
    st.characters(exclude_categories=["Cs"])
)
PARAMS = st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3)
METHODS = st.text(st.characters(exclude_categories=["Cs"]))


def parse(text):
    return parse_message(loads(text))


@pytest.mark.rule("RPC-01", "RPC-03", "RPC-07", "RPC-11", "RPC-33")
@pytest.mark.attack("S18")
def test_members_may_be_in_any_order_beside_unknown_ones():
    text = '{"x":[1],"result":{},"id":-3,"jsonrpc":"2.0","Method":"a","param\u017f":1}'
    assert parse(text) == Success(-3, {})


FAILURES = {
    "without an id": (
        '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Origin not allowed"}}',
        (None, RPCError, -32600, "Origin not allowed", None),
    ),
    "with the null of older revisions": (
        '{"jsonrpc":"2.0","error":{"code":-32000,"message":""},"id":null}',
        (None, RPCError, -32000, "", None),
    ),
    "with data": (
        '{"jsonrpc":"2.0","id":"1","error":{"code":-32022,"message":"","data":[1]}}',
        ("1", UnsupportedVersion, -32022, "", [1]),
    ),
    "with an undefined code": (
        '{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"m","data":null}}',
        (1, RPCError, 0, "m", None),
    ),
}


@pytest.mark.rule("RPC-08", "RPC-09")
@pytest.mark.parametrize(("text", "expected"), FAILURES.values(), ids=FAILURES)
def test_error_response_carries_the_class_of_its_code(text, expected):
    found = parse(text)
    assert type(found) is Failure
    reply_to, cls, code, message, data = expected
    error = found.error
    assert isinstance(error, cls)
    assert (found.id, error.code, error.message, error.data) == (
        reply_to,
        code,
        message,
        data,
    )


BOTH = "message: expected one of result and error, got both of them"
SEVERAL = "message: expected one of method, result and error, got several of them"
NEITHER = "message: expected method, result or error, got none of them"

# The refusal, and the messages that are refused with it.
INVALID = {
    "message: expected object, got array": ["[]"],
    "message: expected object, got 'hi'": ['"hi"'],
    "message: expected object, got null": ["null"],
    "message: expected object, got bool": ["true"],
    "message.jsonrpc: expected '2.0', got nothing": ["{}", '{"id":1,"method":"m"}'],
    "message.jsonrpc: expected '2.0', got '1.0'": ['{"jsonrpc":"1.0","method":"m"}'],
    "message.jsonrpc: expected '2.0', got float": ['{"jsonrpc":2.0,"method":"m"}'],
    "message.jsonrpc: expected '2.0', got str": ['{"jsonrpc":"%s"}' % ("2" * 99)],
    NEITHER: ['{V,"id":1}', '{V,"id":1,"Method":"m","RESULT":{}}'],
    BOTH: [
        '{V,"id":1,"result":{},"error":{"code":1,"message":"m"}}',
        '{V,"id":1,"result":{},"error":null}',
    ],
    SEVERAL: [
        '{V,"id":1,"method":"m","result":{}}',
        '{V,"id":1,"method":"m","error":{}}',
    ],
    "message.method: expected str, got null": ['{V,"id":1,"method":null}'],
    "message.method: expected str, got int": ['{V,"id":1,"method":1}'],
    "message.params: expected object, got array": ['{V,"method":"m","params":[1]}'],
    "message.params: expected object, got null": ['{V,"method":"m","params":null}'],
    "message.id: expected int or str, got nothing": ['{V,"result":{}}'],
    "message.id: expected int or str, got null": [
        '{V,"id":null,"method":"m"}',
        '{V,"id":null,"result":{}}',
    ],
    "message.id: expected int or str, got bool": [
        '{V,"id":true,"method":"m"}',
        '{V,"id":false,"error":{"code":1,"message":"m"}}',
    ],
    "message.id: expected int or str, got float": [
        '{V,"id":1.0,"method":"m"}',
        '{V,"id":18446744073709551616,"method":"m"}',
    ],
    "message.id: expected int or str, got array": ['{V,"id":[1],"method":"m"}'],
    "message.result: expected object, got array": ['{V,"id":1,"result":[]}'],
    "message.result: expected object, got null": ['{V,"id":1,"result":null}'],
    "message.error: expected object, got 'no'": ['{V,"id":1,"error":"no"}'],
    "message.error.code: expected int, got nothing": [
        '{V,"id":1,"error":{"message":"m"}}'
    ],
    "message.error.code: expected int, got '-1'": [
        '{V,"id":1,"error":{"code":"-1","message":"m"}}'
    ],
    "message.error.code: expected int, got bool": [
        '{V,"id":1,"error":{"code":true,"message":"m"}}'
    ],
    "message.error.code: expected int, got float": [
        '{V,"id":1,"error":{"code":-32601.0,"message":"m"}}'
    ],
    "message.error.message: expected str, got nothing": [
        '{V,"id":1,"error":{"code":1}}'
    ],
    "message.error.message: expected str, got object": [
        '{V,"id":1,"error":{"code":1,"message":{}}}'
    ],
}


@pytest.mark.rule("RPC-03", "RPC-04", "RPC-07", "RPC-08", "RPC-09", "RPC-10")
@pytest.mark.rule("RPC-15")
@pytest.mark.pain("P18")
@pytest.mark.fault("F12", "F14")
@pytest.mark.attack("S12", "S18")
@pytest.mark.parametrize(
    ("text", "refusal"),
    [(text, refusal) for refusal in INVALID for text in INVALID[refusal]],
)
def test_malformed_message_is_refused_with_its_path(text, refusal):
    """Includes trap 7: no id is coerced, rounded or taken from a bool."""
    with pytest.raises(InvalidMessage) as caught:
        parse(text.replace("{V", '{"jsonrpc":"2.0"'))
    assert str(caught.value) == refusal


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
NEARLY_A_MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | JSON},
    optional={
        "id": st.integers() | JSON,
        "method": st.text() | JSON,
        "params": JSON,
        "result": JSON,
        "error": st.fixed_dictionaries(
            {"code": st.integers() | JSON, "message": st.text() | JSON},
            optional={"data": JSON},
        )
        | JSON,
    },
)


@pytest.mark.attack("S12")
@given(NEARLY_A_MESSAGE | JSON)
def test_any_json_is_a_message_or_an_invalid_message(value):
    try:
        message = parse_message(value)
    except InvalidMessage:
        return
    assert isinstance(message, (Request, Notification, Success, Failure))


@pytest.mark.rule("RPC-01", "RPC-03", "RPC-07", "RPC-11")
@given(IDS, METHODS, PARAMS)
def test_built_message_is_parsed_back(id, method, params):
    def over_the_wire(value):
        return parse(encode(value))

    assert over_the_wire(request(id, method, params)) == Request(id, method, params)
    assert over_the_wire(notification(method, params)) == Notification(method, params)
    assert over_the_wire(success(id, params or {})) == Success(id, params or {})
    parsed = over_the_wire(failure(id, InvalidParams("no", data=params)))
    assert type(parsed.error) is InvalidParams
    assert (parsed.id, parsed.error.message, parsed.error.data) == (id, "no", params)


BUILT = {
    "request": (
        request(1, "m", {"a": 1}),
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}',
    ),
    "request without params": (
        request("1", "m"),
        b'{"jsonrpc":"2.0","id":"1","method":"m"}',
    ),
    "request with empty params": (
        request(1, "m", {}),
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}',
    ),
    "notification": (
        notification("n", {"a": 1}),
        b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}',
    ),
    "notification without params": (
        notification("n"),
        b'{"jsonrpc":"2.0","method":"n"}',
    ),
    "success": (success(0, {}), b'{"jsonrpc":"2.0","id":0,"result":{}}'),
    "failure": (
        failure("a", RPCError("no", code=5, data=[1])),
        b'{"jsonrpc":"2.0","id":"a","error":{"code":5,"message":"no","data":[1]}}',
    ),
    "failure without data": (
        failure(0, InvalidParams("no")),
        b'{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}',
    ),
    "failure without an id": (
        failure(None, InvalidParams("no")),
        b'{"jsonrpc":"2.0","error":{"code":-32602,"message":"no"}}',
    ),
}


@pytest.mark.rule("RPC-01", "RPC-08", "RPC-11")
@pytest.mark.parametrize(("value", "text"), BUILT.values(), ids=BUILT)
def test_built_messages_have_these_bytes(value, text):
    assert encode(value) == text


@pytest.mark.pain("P18")
@pytest.mark.fault("F14")
@pytest.mark.parametrize(
    ("id", "intended"),
    [("7", 7), ("0", 0), ("-7", -7), ("18446744073709551615", 2**64 - 1), (7.0, 7)],
)
def test_integer_id_is_recovered_from_another_type(id, intended):
    assert intended_id(id) == intended
    assert type(intended_id(id)) is int


@pytest.mark.pain("P18")
@pytest.mark.parametrize(
    "id",
    [
        *["", "a", "007", " 7", "7 ", "7\n", "+7", "-0", "--7", "1_0", "7.0", "1e1"],
        *["0x7", "\u0667", "\uff17", "9" * 21, "9" * 10_000, "7.0"],
        *[True, None, 1.5, math.inf, math.nan],
    ],
    ids=lambda value: ascii(value)[:12] if type(value) is str else type(value),
)
def test_only_the_canonical_decimal_form_is_an_integer_id(id):
    """Trap 7: some libraries convert each of these to 7 or 10."""
    assert intended_id(id) is None


LIMIT = 1024
KIB = 1024
BOM = b"\xef\xbb\xbf"

# Every character that some line reader takes for the end of a line.
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
def test_lines_are_the_same_for_every_delivery(stream, lines):
    outcomes = deliver_three_ways(
        lambda: LineDecoder(LIMIT), stream, begun=b"[tr", ended=b"ue]\n"
    )
    assert outcomes == dict.fromkeys(outcomes, lines)


BITS = [b"\n", b"\r", b"\xef", b"\xbb", b"\xbf", BOM, b"{}", b"x" * 12]
STREAM = st.lists(st.sampled_from(BITS) | st.binary(max_size=3)).map(b"".join)
PLACES = st.lists(st.integers(0, 200))


@given(STREAM, PLACES)
def test_lines_do_not_depend_on_the_chunks(stream, places):
    whole, pieces = LineDecoder(20), LineDecoder(20)
    expected = [*whole.feed(stream), *whole.finish()]
    got = feed_all(pieces, cut(stream, places))
    assert [*got, *pieces.finish()] == expected
    assert pieces.overflow == whole.overflow


@example(BOM[:2], [])  # it ends within its mark
@given(STREAM, PLACES)
def test_every_byte_is_returned_below_the_limit(stream, places):
    decoder = LineDecoder(10_000)
    lines = [*feed_all(decoder, cut(stream, places)), *decoder.finish()]
    assert b"\n".join(lines) == stream.removeprefix(BOM).removesuffix(b"\n")


def test_empty_chunk_does_not_affect_the_lines():
    decoder = LineDecoder(LIMIT)
    chunks = [b"", b"\xef", b"", b"\xbb\xbf", b"", b"{", b"", b"}\n", b""]
    assert feed_all(decoder, chunks) == [b"{}"]


@pytest.mark.pain("P14")
def test_unterminated_last_line_is_returned_once_at_the_end():
    decoder = LineDecoder(LIMIT)
    assert decoder.feed(b"{}\n[]") == [b"{}"]
    assert list(decoder.finish()) == [b"[]"]
    assert list(decoder.finish()) == []


@pytest.mark.parametrize("stream", [b"", BOM, b"{}\n", BOM + b"{}\n"])
def test_stream_that_ends_with_a_newline_has_no_last_line(stream):
    decoder = LineDecoder(LIMIT)
    decoder.feed(stream)
    assert list(decoder.finish()) == []


@pytest.mark.pain("P13")
@pytest.mark.attack("S15", "S16")
@pytest.mark.parametrize("size", [1, 7, LIMIT, LIMIT + 2, 5000])
@pytest.mark.parametrize("prefix", [b"", b"{}\n"], ids=["first line", "later line"])
def test_line_one_byte_over_the_limit_overflows(size, prefix):
    fits = prefix + b"x" * LIMIT + b"\n"
    over = prefix + b"x" * (LIMIT + 1) + b"\n3\n"
    for stream, last, is_over in [(fits, [b"x" * LIMIT], False), (over, [], True)]:
        decoder = LineDecoder(LIMIT)
        chunks = cut(stream, range(0, len(stream), size))
        assert feed_all(decoder, chunks) == [*prefix.splitlines(), *last]
        assert decoder.overflow is is_over


@pytest.mark.attack("S16")
def test_endless_line_overflows_without_waiting_for_its_end():
    decoder = LineDecoder(LIMIT)
    decoder.feed(b"1\n")
    assert feed_all(decoder, [b"x" * LIMIT]) == []
    assert not decoder.overflow
    assert feed_all(decoder, [b"x"]) == []
    assert decoder.overflow


def test_decoder_returns_and_keeps_no_data_after_an_overflow():
    decoder = LineDecoder(4)
    decoder.feed(b"12345")
    assert [*decoder.feed(b"\n1\n"), *decoder.feed(b"1\n"), *decoder.finish()] == []
    assert decoder.overflow
    assert not decoder._partial


class CountingBytes(bytes):
    """Counts the bytes that are searched in it."""

    searched = 0

    def partition(self, separator):
        CountingBytes.searched += len(self)
        return super().partition(separator)

    def split(self, separator):
        CountingBytes.searched += len(self)
        return super().split(separator)


@pytest.mark.pain("P13")
@pytest.mark.fault("F11")
def test_line_of_32_mib_takes_linear_time():
    """Linear by structure: no byte is searched twice, and the buffer only grows."""
    chunk = CountingBytes(b"x" * 64 * KIB)
    decoder = LineDecoder(64 * KIB * KIB)
    decoder.feed(b"{}\n")
    CountingBytes.searched = 0
    partial = decoder._partial
    with traced_memory() as memory:
        for _ in range(512):
            assert not decoder.feed(chunk)
            assert decoder._partial is partial
        (line,) = decoder.feed(CountingBytes(b"\n"))
    assert len(line) == 512 * len(chunk)
    assert CountingBytes.searched <= len(line) + 10
    assert memory.peak < 1.3 * len(line)


def test_many_lines_in_one_chunk_are_searched_once():
    decoder = LineDecoder(LIMIT)
    decoder.feed(b"{}\n")
    CountingBytes.searched = 0
    data = CountingBytes(b"{}\n" * 10_000)
    assert len(decoder.feed(data)) == 10_000
    assert CountingBytes.searched <= 2 * len(data)
