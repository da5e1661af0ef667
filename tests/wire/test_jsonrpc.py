"""JSON-RPC messages: four kinds, exact ids, everything else refused by place."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import (
    InvalidMessage,
    InvalidParams,
    MethodNotFound,
    RPCError,
    UnsupportedVersion,
)
from mcpwire.wire.json import encode, loads
from mcpwire.wire.jsonrpc import (
    Failure,
    Notification,
    Request,
    Success,
    failure,
    intended_id,
    is_request_id,
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


READ = {
    "request": (
        '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"a"}}',
        Request(1, "tools/list", {"cursor": "a"}),
    ),
    "request without params": (
        '{"jsonrpc":"2.0","id":"a","method":"ping"}',
        Request("a", "ping", None),
    ),
    "request with id 0": (
        '{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{}}',
        Request(0, "server/discover", {}),
    ),
    "request with an empty id": (
        '{"jsonrpc":"2.0","id":"","method":"ping"}',
        Request("", "ping", None),
    ),
    "notification": (
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}',
        Notification("notifications/cancelled", {"requestId": 5}),
    ),
    "notification without params": (
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        Notification("notifications/initialized", None),
    ),
    "success": (
        '{"jsonrpc":"2.0","id":"L1","result":{"resultType":"complete"}}',
        Success("L1", {"resultType": "complete"}),
    ),
    "members in any order, and ones that nobody knows": (
        '{"x":[1],"result":{},"id":-3,"jsonrpc":"2.0","Method":"a","param\u017f":1}',
        Success(-3, {}),
    ),
}


@pytest.mark.rule("RPC-01", "RPC-03", "RPC-07", "RPC-11", "RPC-33")
@pytest.mark.attack("S18")
@pytest.mark.parametrize(("text", "message"), READ.values(), ids=READ)
def test_a_message_is_what_its_members_make_it(text, message):
    found = parse(text)
    assert found == message
    assert type(found) is type(message)


FAILURES = {
    "with an id": (
        '{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found"}}',
        (0, MethodNotFound, -32601, "Method not found", None),
    ),
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
    "with a code that nobody defined": (
        '{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"m","data":null}}',
        (1, RPCError, 0, "m", None),
    ),
}


@pytest.mark.rule("RPC-08", "RPC-09")
@pytest.mark.parametrize(("text", "expected"), FAILURES.values(), ids=FAILURES)
def test_an_answer_with_an_error_carries_the_class_of_its_code(text, expected):
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

# The refusal, and the messages that get it.
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
def test_a_malformed_message_is_refused_by_place(text, refusal):
    """Trap 7 is in here: no id is coerced, rounded or taken from a bool."""
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
def test_any_json_is_a_message_or_an_invalid_one(value):
    try:
        message = parse_message(value)
    except InvalidMessage:
        return
    assert isinstance(message, (Request, Notification, Success, Failure))


@pytest.mark.rule("RPC-01", "RPC-03", "RPC-07", "RPC-11")
@given(IDS, METHODS, PARAMS)
def test_what_is_built_is_what_the_peer_reads(id, method, params):
    def over_the_wire(value):
        return parse(encode(value))

    assert over_the_wire(request(id, method, params)) == Request(id, method, params)
    assert over_the_wire(notification(method, params)) == Notification(method, params)
    assert over_the_wire(success(id, params or {})) == Success(id, params or {})
    back = over_the_wire(failure(id, InvalidParams("no", data=params)))
    assert type(back.error) is InvalidParams
    assert (back.id, back.error.message, back.error.data) == (id, "no", params)


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


@pytest.mark.rule("RPC-03", "RPC-04")
@pytest.mark.pain("P18")
@pytest.mark.parametrize("value", [0, -1, 2**70, "", "7", "a"])
def test_integers_and_strings_are_ids(value):
    assert is_request_id(value)


class Number(int):
    pass


@pytest.mark.rule("RPC-03", "RPC-04")
@pytest.mark.pain("P18")
@pytest.mark.parametrize(
    "value", [None, True, False, 1.0, 1.5, [], {}, b"1", Number(1)]
)
def test_nothing_else_is_an_id(value):
    assert not is_request_id(value)


@pytest.mark.pain("P18")
@pytest.mark.fault("F14")
@pytest.mark.parametrize(
    ("id", "intended"),
    [
        ("7", 7),
        ("0", 0),
        ("-7", -7),
        ("18446744073709551615", 2**64 - 1),
        (7.0, 7),
    ],
)
def test_the_integer_that_an_id_of_another_type_means(id, intended):
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
def test_only_the_one_decimal_spelling_means_an_integer(id):
    """Trap 7: these all become 7 or 10 in some library."""
    assert intended_id(id) is None


def test_kinds_of_messages_do_not_change():
    message = parse('{"jsonrpc":"2.0","id":1,"result":{}}')
    with pytest.raises(AttributeError):
        message.id = 2
