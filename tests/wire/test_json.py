"""JSON: encoding, values refused with their path, decoding, damaged lines, limits."""

import dataclasses
import datetime as dt
import enum
import json as stdlib_json
import math
import re
import uuid
from collections import OrderedDict, defaultdict, namedtuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from traced_memory import traced_memory

from mcpwire.errors import LocalProtocolError, MessageTooLarge
from mcpwire.wire.json import (
    Fragment,
    JSONDecodeError,
    _find_problem,
    check_values,
    compact,
    encode,
    encode_line,
    loads,
    loads_object,
    peek_members,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=15
)
ANYTHING = st.recursive(
    LEAVES
    | st.text()
    | st.integers()
    | st.floats()
    | st.binary()
    | st.builds(object)
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(LEAVES | st.text(), inner)
        | st.sets(LEAVES)
    ),
    max_leaves=15,
)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Shade(enum.Enum):
    DARK = "dark"


class Colour(enum.Enum):
    RED = "red"
    BLACK = Shade.DARK
    PATH = [1, {"k": math.inf}]  # noqa: RUF012 - an enum member, not a class attribute


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the kind users have


@dataclasses.dataclass
class Record:
    a: int = 1


def nested(depth, wrap=lambda inner: [inner]):
    value = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def self_containing():
    value = []
    value.append({"again": value})
    return value


@given(VALUES)
def test_encoded_value_is_one_line_and_decodes_equal(value):
    line = encode_line(value)
    assert loads(line) == value
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert encode(value) + b"\n" == line
    assert stdlib_json.loads(line) == value


@pytest.mark.rule("RPC-02")
def test_text_is_written_as_utf_8_without_escapes():
    assert encode("ü\u2028😀") == b'"\xc3\xbc\xe2\x80\xa8\xf0\x9f\x98\x80"'


@pytest.mark.rule("TR-STDIO-01")
@pytest.mark.pain("P14")
def test_newlines_in_text_are_escaped():
    assert encode_line({"a": "x\ny\r\n"}) == b'{"a":"x\\ny\\r\\n"}\n'


WRITTEN = {
    "tuple": ((1, (2,)), b"[1,[2]]"),
    "subclass of str": (Text("a"), b'"a"'),
    "subclass of int": (Number(7), b"7"),
    "subclasses of dict": (OrderedDict(a=defaultdict(int, b=1)), b'{"a":{"b":1}}'),
    "enum": ({"c": [Colour.RED, Colour.BLACK]}, b'{"c":["red","dark"]}'),
    "uuid": (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
    "fragment": ({"a": Fragment(b'{"b":null}')}, b'{"a":{"b":null}}'),
    "null": ({"a": [None]}, b'{"a":[null]}'),
    "null as text": ("null", b'"null"'),
    "null beside everything": (
        {"a": None, "b": [1.5, (True,)], "c": Colour.RED, "d": uuid.UUID(int=0)},
        b'{"a":null,"b":[1.5,[true]],"c":"red","d":"%s"}'
        % str(uuid.UUID(int=0)).encode(),
    ),
    "largest integers": (
        [2**64 - 1, -(2**63)],
        b"[18446744073709551615,%d]" % -(2**63),
    ),
    "many values without null": (
        [*range(300_000)],
        b"[%b]" % b",".join(b"%d" % number for number in range(300_000)),
    ),
    "null after a long text": (["x" * 2**20, None], b'["' + b"x" * 2**20 + b'",null]'),
    "254 levels": (nested(254), b"[" * 254 + b"1" + b"]" * 254),
}


@pytest.mark.parametrize(("value", "text"), WRITTEN.values(), ids=WRITTEN)
def test_plain_values_and_their_subclasses_are_encoded(value, text):
    assert encode(value) == text
    assert encode_line(value) == text + b"\n"


ARGUMENT = "$.params.arguments.x"
IN_A_CALL = {
    "NaN": (math.nan, f"{ARGUMENT}: nan has no JSON form"),
    "NaN beside null": ([None, [math.nan]], f"{ARGUMENT}[1][0]: nan has no JSON form"),
    "NaN in a tuple": ((0.5, math.nan), f"{ARGUMENT}[1]: nan has no JSON form"),
    "NaN beside a long text": (
        ["x" * 2**20, math.nan],
        f"{ARGUMENT}[1]: nan has no JSON form",
    ),
    "NaN after many values": (
        [*range(300_000), math.nan],
        f"{ARGUMENT}[300000]: nan has no JSON form",
    ),
    "infinity in an enum": (Colour.PATH, f"{ARGUMENT}[1].k: inf has no JSON form"),
    "lone surrogate": ("ok\udc00", f"{ARGUMENT}: a lone surrogate stands at index 2"),
    "lone surrogate in a key": (
        {"\ud800": 1},
        f"{ARGUMENT}['\\ud800']: in the key, a lone surrogate stands at index 0",
    ),
    "key of another type": (
        {"a": {1: 2}},
        f"{ARGUMENT}.a[int]: a key must be str, got int",
    ),
    "key of a subclass": ({Text("a"): 1}, f"{ARGUMENT}[Text]: a key must be str, got"),
    "key with spaces": ({"a b": {1}}, f"{ARGUMENT}['a b']: a value of type set has no"),
    "integer beyond 64 bit": (2**64, f"{ARGUMENT}: an integer of 65 bits is too large"),
    "too large for str()": (1 << 99_999, f"{ARGUMENT}: an integer of 100000 bits"),
    "bytes": (b"x", f"{ARGUMENT}: a value of type bytes has no JSON form"),
    "set": ({"a": [0, {1}]}, f"{ARGUMENT}.a[1]: a value of type set has no JSON form"),
    "dataclass": (Record(), f"{ARGUMENT}: a value of type Record has no JSON form"),
    "date": (dt.date(2026, 1, 1), f"{ARGUMENT}: a value of type date has no JSON"),
    "named tuple": (Point(1, 2), f"{ARGUMENT}: a value of type Point has no JSON form"),
    "subclass of float": (
        Real(1),
        f"{ARGUMENT}: a value of type Real has no JSON form",
    ),
    "deep lists": (nested(252), f"{ARGUMENT}{'[0]' * 13}...: nested deeper than 254"),
    "self-containing list": (
        self_containing(),
        f"{ARGUMENT}{'[0].again' * 6}[0]...: nested deeper than 254 levels",
    ),
    "a key of great length": (
        {"k" * 10_000: {1}},
        f"{ARGUMENT}.{'k' * 40}: a value of type set has no JSON form",
    ),
}


@pytest.mark.pain("P17")
@pytest.mark.attack("S14")
@pytest.mark.parametrize("write", [encode, encode_line])
@pytest.mark.parametrize(("value", "message"), IN_A_CALL.values(), ids=IN_A_CALL)
def test_value_without_a_json_form_is_refused_with_its_path(value, message, write):
    """Trap 8, and design D9: an error with the path, before a byte is written."""
    call = {"id": None, "params": {"name": "t", "arguments": {"a": [], "x": value}}}
    with pytest.raises(LocalProtocolError) as caught:
        write(call)
    assert str(caught.value).startswith(f"cannot send {message}")


@pytest.mark.parametrize(
    "rest", [["x" * 2**20], [*range(300_000)]], ids=["long", "many"]
)
def test_nan_in_a_long_message_is_refused(rest):
    with pytest.raises(LocalProtocolError, match="nan has no JSON form"):
        encode([*rest, math.nan])


@pytest.mark.parametrize("write", [encode, encode_line])
def test_unlocated_problem_is_reported_with_the_encoder_message(write, monkeypatch):
    monkeypatch.setattr("mcpwire.wire.json._find_problem", lambda *_: None)
    with pytest.raises(
        LocalProtocolError, match=r"cannot send \$: .*serializable: set"
    ):
        write({1})
    with pytest.raises(LocalProtocolError, match=r"cannot send \$: not finite"):
        write(math.nan)


def test_exponentially_shared_parts_are_refused_at_once():
    """Written out, this value would have 2**300 parts."""
    with pytest.raises(LocalProtocolError, match="nested deeper"):
        encode(nested(300, lambda inner: [inner, inner]))


@given(ANYTHING)
def test_problem_finder_agrees_with_the_encoder(value):
    if _find_problem(value) is None:
        encode_line(value)
    else:
        with pytest.raises(LocalProtocolError, match="cannot send"):
            encode_line(value)


@pytest.mark.attack("S18")
def test_last_member_of_the_same_name_counts():
    assert loads(b'{"a":1,"a":2}') == {"a": 2}


def test_decoded_integers_beyond_64_bit_become_floats():
    """Trap 8: documented, not forbidden."""
    assert type(loads(b"18446744073709551616")) is float
    assert loads(b"18446744073709551615") == 2**64 - 1
    assert type(loads(b"-9223372036854775809")) is float


REFUSED = {
    "nothing": b"",
    "noise": b"Server started on port 3000",
    "two texts": b"{} {}",
    "NUL": b"\0{}",
    "mark": b"\xef\xbb\xbf{}",
    "invalid UTF-8": b'"\xff"',
    "lone surrogate": b'"\\ud800"',
    "NaN": b"NaN",
    "infinite number": b"1e400",
    "leading zero": b"01",
    "control character": b'"\x01"',
    "1,025 levels": b"[" * 1025 + b"]" * 1025,
    "100,000 levels": b"[" * 100_000,
}


@pytest.mark.fault("F13")
@pytest.mark.attack("S14")
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_invalid_json_is_refused_with_one_error(text):
    """Includes trap 9: the depth is bounded."""
    with pytest.raises(JSONDecodeError):
        loads(text)


def test_depth_of_1024_levels_is_decoded():
    assert loads(b"[" * 1024 + b"]" * 1024) is not None


BROKEN = {
    "invalid UTF-8": b'{"x":"\xff\xfe"}',
    "lone surrogate": b'{"x":"\\ud800"}',
    "raw control character": b'{"x":"\x00\x01"}',
    "NaN": b"[NaN,-Infinity]",
    "infinite number": b"[1e999]",
    "enormous integer": b"[-" + b"9" * 10_000 + b",NaN]",
    "deep": b"[" * 5000 + b"]" * 5000,
    "deep and mixed": b'{"x":[' * 3000 + b"1" + b"]}" * 3000,
}


@pytest.mark.pain("P17")
@pytest.mark.fault("F13")
@pytest.mark.attack("S14")
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_id_of_a_damaged_line_is_still_readable(broken):
    for line in (
        b'{"jsonrpc":"2.0","id":7,"result":' + broken + b"}",
        b'\xef\xbb\xbf{"result":' + broken + b',"id":7,"jsonrpc":"2.0"}\r',
    ):
        with pytest.raises(JSONDecodeError):
            loads(line)
        assert peek_members(line) == {"jsonrpc": "2.0", "id": 7, "result": None}


@pytest.mark.attack("S14", "S17")
@pytest.mark.parametrize(
    "line",
    [
        b"npm WARN deprecated",
        b'{"id":7,"result":',
        b'{"id":7,"result":' + b"[" * 100_000,
        b'{"id":7,"result":' + b"[" * 5000 + b'"\\"\\',
        b'{"id":' + b"9" * 1000 + b".5e1}",
    ],
    ids=lambda line: repr(line[:20]),
)
def test_hopeless_line_has_no_members(line):
    assert peek_members(line) == {}


@given(st.binary())
@example(b'{"":}}')
def test_any_line_yields_members_or_an_empty_dict(line):
    assert isinstance(peek_members(line), dict)


STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@pytest.mark.attack("X12")
@pytest.mark.parametrize("pad", [0, 65_530])
@given(VALUES, st.integers(0, 12))
@example(["{[,", '\\",', {"\\\\": [{}, '"[']}], 3)
@example(["\\" * 7 + '"' + "," * 70_000], 6)
def test_values_are_counted_by_marks_outside_strings(pad, value, more):
    text = b" " * (pad + more) + encode(value)
    marks = len(re.findall(rb"[,[{]", STRING.sub(b"", text)))
    check_values(text, marks)
    check_values(bytearray(text), marks + 1)
    if marks:
        with pytest.raises(MessageTooLarge) as caught:
            check_values(text, marks - 1)
        assert caught.value.limit == marks - 1
        assert str(caught.value) == (
            f"a message of {len(text)} bytes holds more than {marks - 1} values "
            "(Limits.values)"
        )


@pytest.mark.attack("X12")
def test_too_many_quotes_count_as_too_many_values():
    check_values(b'["a", "b,c,d"]', 3)
    with pytest.raises(MessageTooLarge):
        check_values(b'"' * 17 + b"," * 4, 3)


@pytest.mark.attack("X12")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            b'{"jsonrpc": "2.0", "id": 1, "result": {"id": 2, "a": [{}]}}',
            {"jsonrpc": "2.0", "id": 1, "result": None},
        ),
        (
            b'{"result":{"a":[1,{"id":2}]},"id":"x" , "jsonrpc":"2.0" } ',
            {"result": None, "id": "x", "jsonrpc": "2.0"},
        ),
        (
            b'\xef\xbb\xbf {"id":-1.5e3,"a":true,"params":[[]],"method":"m"}\r',
            {"id": -1500.0, "a": True, "params": None, "method": "m"},
        ),
        (b'{"a":{"id":1,"b":{}},"c":{"id":3},"d":null}', {"a": None, "d": None}),
        (b'{"a":[' + b"[]," * 10_000 + b'[]],"id":7}', {"a": None, "id": 7}),
        (b'{"a":["' + b"x" * 2_000 + b'],\\"id\\":1}"]}', {"a": None}),
        (b'{"a":' + b" " * 2_000 + b'1,"id":7}', {}),
        (b'[{"id":1,"result":{}}]', {}),
        (b'{"a":1}', {}),
        (b'{"id":1e,"a":[]}', {}),
        (b'{"\xff":[]}', {}),
        (b"", {}),
    ],
)
def test_members_around_a_long_one_are_read_without_it(text, found):
    assert peek_members(text) == found
    assert peek_members(bytearray(text)) == found


@pytest.mark.parametrize("text", [b"[1]", b"null", b'{"a":', b"", b"\xff"])
def test_text_without_an_object_is_read_as_none(text):
    assert loads_object(text) is None
    assert loads_object(b'{"a":[1]}\n') == {"a": [1]}


def test_compact_copy_takes_no_more_memory_than_its_text():
    text = encode({"a": "b"})
    with traced_memory() as memory:
        copies = [compact(text) for _ in range(100)]
    assert copies == [text] * 100
    assert memory.held / 100 < 200
