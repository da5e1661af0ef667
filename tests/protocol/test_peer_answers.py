"""Responses to our calls, and the events that the owner of the calls receives."""

import pytest
from wire_tables import ALL, STATELESS, Error, Row, check, make_peer, msg, table

from mcpwire.errors import (
    InvalidMessage,
    InvalidRequest,
    MethodNotFound,
    RPCError,
    UnsupportedVersion,
)
from mcpwire.protocol.peer import MAX_CANCELLED_IDS

TWO = ("tools/call", "tools/list")
DONE = ("answered", 1, {})


def invalid(path, got, expected):
    return Error(InvalidMessage, path=path, got=got, expected=expected)


def broken(name, line, path, got, expected):
    """Make the row of an invalid response that fails its call."""
    error = invalid(path, got, expected)
    events = (("failed", 1, error),)
    return Row(name=name, data=line, events=events, stats={"invalid": 1})


@pytest.mark.rule("RPC-07", "RPC-33")
@table(
    Row(name="result", data=msg('"id":1,"result":{}'), events=(DONE,)),
    Row(name="members in any order", data=b'{"result":{},"id":1,"jsonrpc":"2.0"}\n',
        events=(DONE,)),
    Row(name="unknown members", data=msg('"id":1,"result":{},"x":1'), events=(DONE,)),
    Row(name="the last of two results", data=msg('"id":1,"result":{"a":1},"result":{}'),
        events=(DONE,)),
    Row(name="a result with every kind of value",
        data=msg('"id":1,"result":{"a":[null,true,-1,2.5,"\\u20ac",{"b":{}}]}'),
        events=(("answered", 1, {"a": [None, True, -1, 2.5, "\u20ac", {"b": {}}]}),)),
    Row(name="answers out of order", opens=TWO,
        data=msg('"id":2,"result":{"n":2}') + msg('"id":1,"result":{"n":1}'),
        events=(("answered", 2, {"n": 2}), ("answered", 1, {"n": 1}))),
    Row(name="one of two", opens=TWO, data=msg('"id":2,"result":{}'),
        events=(("answered", 2, {}),), open_after=(1,)),
)  # fmt: skip
def test_a_result_reaches_the_call_with_its_id(row):
    check(row)


@pytest.mark.rule("RPC-08", "RPC-09")
@table(
    Row(name="known code", data=msg('"id":1,"error":{"code":-32601,"message":"no"}'),
        events=(("failed", 1, Error(MethodNotFound, code=-32601, message="no",
                                    data=None, method="tools/call")),)),
    Row(name="unknown code",
        data=msg('"id":1,"error":{"code":7,"message":"m","data":{"a":1},"more":2}'),
        events=(("failed", 1, Error(RPCError, code=7, message="m", data={"a": 1},
                                    method="tools/call")),)),
    Row(name="data of any kind",
        data=msg('"id":1,"error":{"code":-32022,"message":"","data":[0]}'),
        events=(("failed", 1, Error(UnsupportedVersion, message="", data=[0])),)),
)  # fmt: skip
def test_an_error_reaches_the_call_with_its_id(row):
    check(row)


@pytest.mark.attack("S31")
@pytest.mark.fault("F14")
@table(
    Row(name="unknown id", data=msg('"id":7,"result":{}'), stats={"unknown": 1},
        open_after=(1,)),
    Row(name="unknown string", data=msg('"id":"x","result":{}'), stats={"unknown": 1},
        open_after=(1,)),
    Row(name="error for an unknown id",
        data=msg('"id":7,"error":{"code":1,"message":"m"}'),
        stats={"unknown": 1}, open_after=(1,)),
    Row(name="second result, first counts",
        data=msg('"id":1,"result":{}') + msg('"id":1,"result":{"other":1}'),
        events=(DONE,), stats={"unknown": 1}),
    Row(name="error after the result",
        data=msg('"id":1,"result":{}') + msg('"id":1,"error":{"code":1,"message":""}'),
        events=(DONE,), stats={"unknown": 1}),
    Row(name="before any request", opens=(), data=msg('"id":1,"result":{}'),
        stats={"unknown": 1}),
    Row(name="to a server without calls", role="server", opens=(),
        data=msg('"id":1,"result":{}') + msg('"id":1,"error":{"code":1,"message":""}'),
        stats={"unknown": 2}),
)  # fmt: skip
def test_response_without_an_open_call_is_only_counted(row):
    check(row)


@pytest.mark.rule("CAN-07", "CAN-08")
@pytest.mark.fault("F15")
@table(
    Row(name="late result", cancels=(1,), data=msg('"id":1,"result":{}'),
        stats={"late": 1}),
    Row(name="late error", cancels=(1,), stats={"late": 1},
        data=msg('"id":1,"error":{"code":1,"message":"m"}')),
    Row(name="late twice", cancels=(1,), stats={"late": 1, "unknown": 1},
        data=msg('"id":1,"result":{}') + msg('"id":1,"result":{}')),
    Row(name="late with the id's other type", cancels=(1,), stats={"unknown": 1},
        data=msg('"id":"1","result":{}')),
    Row(name="late and broken", cancels=(1,), stats={"invalid": 1},
        data=msg('"id":1,"result":[]')),
    Row(name="late beside one in time", opens=TWO, cancels=(1,), stats={"late": 1},
        data=msg('"id":1,"result":{}') + msg('"id":2,"result":{}'),
        events=(("answered", 2, {}),)),
)  # fmt: skip
def test_response_to_a_cancelled_call_is_counted_as_late(row):
    check(row)


@pytest.mark.fault("F15")
def test_only_the_newest_cancelled_ids_are_remembered():
    peer, _ = make_peer(opens=("ping",) * (MAX_CANCELLED_IDS + 1))
    for id in list(peer.outstanding):
        peer.cancel(id, "test")
    peer.receive(msg('"id":1,"result":{}'))
    peer.receive(msg('"id":2,"result":{}'))
    assert (peer.stats.unknown, peer.stats.late) == (1, 1)


def retyped(spelling, got):
    """Make the row of a result whose id came back with another type."""
    error = Error(
        InvalidMessage,
        path="response.id",
        expected="the integer 1",
        got=got,
        hint="the peer changed the type of the request's id",
    )
    line = msg(f'"id":{spelling},"result":{{}}')
    counted = {"invalid": 1} if spelling == "1.0" else {}
    return Row(name=spelling, data=line, events=(("failed", 1, error),), stats=counted)


@pytest.mark.pain("P18")
@pytest.mark.fault("F14")
@pytest.mark.rule("RPC-03", "RPC-07")
@table(
    retyped('"1"', "'1'"),
    retyped("1.0", "1.0"),
    Row(name="in an error", data=msg('"id":"1","error":{"code":1,"message":"m"}'),
        events=(("failed", 1, Error(InvalidMessage, path="response.id")),)),
    Row(name="the id of a call as text", opens=TWO, data=msg('"id":"2","result":{}'),
        events=(("failed", 2, Error(InvalidMessage, path="response.id")),),
        open_after=(1,)),
    Row(name="the id of an answered call as text", stats={"unknown": 1}, events=(DONE,),
        data=msg('"id":1,"result":{}') + msg('"id":"1","result":{}')),
)  # fmt: skip
def test_response_with_a_retyped_id_fails_the_call(row):
    check(row)


def unrelated(spelling, kind="invalid"):
    """Make the row of an id that has nothing to do with the open call 1."""
    line = msg(f'"id":{spelling},"result":{{}}')
    return Row(name=spelling, data=line, stats={kind: 1}, open_after=(1,))


@pytest.mark.rule("RPC-03", "RPC-04")
@pytest.mark.fault("F14")
@table(
    *(unrelated(spelling) for spelling in ("true", "null", "1.5", "[1]", "{}")),
    *(unrelated(spelling) for spelling in ("18446744073709551617", "2.0")),
    unrelated("1e400", "noise"),
    *(unrelated(spelling, "unknown") for spelling in ('"01"', '" 1"', '"1.0"')),
    *(unrelated(spelling, "unknown") for spelling in ('""', '"+1"', '"1_0"')),
    unrelated('"\u0661"', "unknown"),
    Row(name="no id", data=msg('"result":{}'), stats={"invalid": 1}, open_after=(1,)),
)  # fmt: skip
def test_similar_id_does_not_end_the_call(row):
    check(row)


NO_ID = '"error":{"code":-32600,"message":"which?"}'


@pytest.mark.rule("RPC-08")
@pytest.mark.pain("P18")
@table(
    Row(name="without id, one open", data=msg(NO_ID),
        events=(("failed", 1, Error(InvalidRequest, code=-32600,
                                    method="tools/call")),)),
    Row(name="id null, one open", data=msg('"id":null', NO_ID),
        events=(("failed", 1, Error(InvalidRequest, code=-32600,
                                    method="tools/call")),)),
    Row(name="without id, several open", opens=TWO, data=msg(NO_ID),
        stats={"unknown": 1}, open_after=(1, 2)),
    Row(name="without id, none open", opens=(), data=msg(NO_ID),
        stats={"unknown": 1}),
    Row(name="without id, one of two answered before", opens=TWO,
        data=msg('"id":1,"result":{}') + msg(NO_ID),
        events=(DONE, ("failed", 2, Error(InvalidRequest)))),
)  # fmt: skip
def test_an_error_without_id_fails_the_only_open_call(row):
    check(row)


@pytest.mark.rule("RPC-01", "RPC-09", "RPC-10")
@table(
    broken("both result and error",
           msg('"id":1,"result":{},"error":{"code":1,"message":"m"}'),
           "message", "both of them", "one of result and error"),
    broken("neither", msg('"id":1'), "message", "none of them",
           "method, result or error"),
    broken("result is an array", msg('"id":1,"result":[]'),
           "message.result", "array", "object"),
    broken("error is text", msg('"id":1,"error":"no"'),
           "message.error", "'no'", "object"),
    broken("code is missing", msg('"id":1,"error":{"message":"m"}'),
           "message.error.code", "nothing", "int"),
    broken("jsonrpc is missing", b'{"id":1,"result":{}}\n',
           "message.jsonrpc", "nothing", "'2.0'"),
)  # fmt: skip
def test_invalid_response_fails_its_call_with_a_path(row):
    check(row)


def test_error_of_a_broken_response_holds_200_bytes_of_its_line():
    peer, owner = make_peer(opens=("tools/call",))
    line = msg('"id":1,"result":[{}]'.format(",".join(["0"] * 200)))
    peer.receive(line)
    assert owner.events[0][2].raw == line[:200]


@pytest.mark.system("L-V2")
@pytest.mark.rule("RPC-03")
@table(
    Row(name="an answer of ours that came back as a request", revisions=STATELESS,
        data=msg('"id":1,"method":"ping"'), stats={"invalid": 1}, open_after=(1,)),
    Row(name="a request that has our id", revisions=ALL[:-1],
        data=msg('"id":1,"method":"ping"'), events=(("requested", 1, "ping", None),),
        open_after=(1,)),
)  # fmt: skip
def test_request_with_the_id_of_our_call_does_not_end_it(row):
    check(row)
