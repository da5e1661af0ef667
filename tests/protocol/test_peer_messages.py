"""Received messages of a peer: answers, requests, notifications, batches."""

import pytest
from wire_tables import (
    ALL,
    BATCHES,
    SESSION,
    STATELESS,
    Error,
    Refusal,
    Row,
    answered,
    check,
    make_peer,
    msg,
    one_message,
    params,
    table,
)

from mcpwire.errors import (
    InternalError,
    InvalidMessage,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    RPCError,
    UnsupportedVersion,
)
from mcpwire.limits import Limits
from mcpwire.protocol.peer import MAX_CANCELLED_IDS
from mcpwire.versions import LATEST

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


# Requests of the other side, their cancellation, and notifications about calls...


ASK = '"method":"ask"'
ANY_REVISION = (None, *ALL)
LISTEN = ("subscriptions/listen", "tools/call")
REQUEST = ("requested", 1, "ask", None)


def request_row(id, data=None, name=None, role="server"):
    """Make the row of a request that is delivered, then answered with its own id."""
    spelled = f'"{id}"' if isinstance(id, str) else id
    return Row(
        name=name or f"id {spelled}", role=role, opens=(), answers=True,
        revisions=ANY_REVISION if role == "server" else (None, *SESSION),
        data=data or msg(f'"id":{spelled}', ASK),
        events=(("requested", id, "ask", None),), sent=(answered(id),),
    )  # fmt: skip


@pytest.mark.rule("RPC-03", "RPC-07")
@pytest.mark.pain("P18")
@table(
    request_row(1),
    request_row(0),
    request_row(-7),
    request_row(2**53),
    request_row(2**64 - 1),
    request_row(""),
    request_row("1"),
    request_row("\u20ac \u2028 id"),
    request_row(1, role="client", name="to a client inside a session"),
    request_row(1, b'{"method":"ask","id":1,"x":[],"jsonrpc":"2.0"}\n', "any order"),
    Row(name="params", role="server", opens=(), answers=True, revisions=ANY_REVISION,
        data=msg('"id":1', ASK, params('{"a":[1,{"b":null}]}')), sent=(answered(1),),
        events=(("requested", 1, "ask", {"a": [1, {"b": None}]}),)),
    Row(name="ids of both types at once", role="server", opens=(), answers=True,
        data=msg('"id":1', ASK) + msg('"id":"1"', ASK),
        events=(REQUEST, ("requested", "1", "ask", None)),
        sent=(answered(1), answered("1"))),
    Row(name="an id again after its answer", role="server", opens=(), answers=False,
        revisions=ANY_REVISION, data=msg('"id":1', '"method":1') + msg('"id":1', ASK),
        events=(REQUEST,), sent=(Refusal(-32600, id=1),), stats={"invalid": 1}),
)  # fmt: skip
def test_request_is_delivered_once_and_answered_with_its_id(row):
    check(row)


@pytest.mark.rule("RPC-20", "RPC-21", "TR-STDIO-08")
@table(
    Row(name="request", revisions=STATELESS, answers=True, open_after=(1,),
        data=msg('"id":1', ASK), stats={"invalid": 1}),
    Row(name="broken request", revisions=STATELESS, open_after=(1,),
        data=msg('"id":1', ASK, params("[]")), stats={"invalid": 1}),
    Row(name="request with another id", revisions=STATELESS, open_after=(1,),
        data=msg('"id":"s"', ASK), stats={"invalid": 1}),
)  # fmt: skip
def test_client_answers_no_request_in_the_stateless_era(row):
    check(row)


@pytest.mark.rule("RPC-21", "TR-STDIO-08")
def test_early_request_is_not_answered_after_a_stateless_agreement():
    peer, _ = make_peer(revision=None)
    peer.receive(msg('"id":1', ASK) + msg('"id":2', ASK) + msg('"id":3', ASK))
    assert peer.answer(1, {}) is not None
    peer.revision = LATEST
    assert peer.answer(2, {}) is None
    assert peer.refuse(3, InternalError("late")) is None
    assert 2 not in peer.unanswered


@pytest.mark.rule("RPC-05", "RPC-06")
@pytest.mark.attack("S31")
@table(
    Row(name="the same request twice", role="server", opens=(), answers=True,
        revisions=ANY_REVISION, data=msg('"id":1', ASK) * 2,
        events=(REQUEST,), sent=(answered(1),), stats={"invalid": 1}),
    Row(name="another request", role="server", opens=(), answers=True,
        revisions=ANY_REVISION, data=msg('"id":1', ASK) + msg('"id":1,"method":"b"'),
        events=(REQUEST,), sent=(answered(1),), stats={"invalid": 1}),
    Row(name="a broken request", role="server", opens=(), answers=True,
        revisions=ANY_REVISION, data=msg('"id":1', ASK) + msg('"id":1', '"method":2'),
        events=(REQUEST,), sent=(answered(1),), stats={"invalid": 1}),
)  # fmt: skip
def test_pending_id_is_answered_only_once(row):
    check(row)


def malformed(name, *members, line=None):
    """Make the row of a broken request with id 5, refused by that id."""
    data = line or msg('"id":5', *members)
    return Row(name=name, role="server", opens=(), revisions=ANY_REVISION, data=data,
               sent=(Refusal(-32600, id=5),), stats={"invalid": 1})  # fmt: skip


@pytest.mark.rule("RPC-01", "RPC-08")
@table(
    malformed("method is a number", '"method":1'),
    malformed("params are an array", ASK, params("[]")),
    malformed("params are null", ASK, params("null")),
    malformed("a result beside the method", ASK, '"result":{}'),
    malformed("no version", line=b'{"id":5,"method":"ask"}\n'),
    malformed("version 1.0", line=b'{"jsonrpc":"1.0","id":5,"method":"ask"}\n'),
    Row(name="to a client inside a session", revisions=SESSION, open_after=(1,),
        data=msg('"id":1', ASK, params("[]")), sent=(Refusal(-32600, id=1),),
        stats={"invalid": 1}),
)  # fmt: skip
def test_malformed_request_is_refused_by_its_id(row):
    check(row)


@pytest.mark.rule("RPC-11", "RPC-12")
@table(
    *(Row(name=f"{name}, to a {role}", role=role, opens=(), revisions=ANY_REVISION,
          data=line, stats={"invalid": 1})
      for role in ("client", "server")
      for name, line in {
          "params are an array": msg(ASK, params("[]")),
          "method is a number": msg('"method":1'),
          "no version": b'{"method":"ask"}\n',
          "a result beside the method": msg(ASK, '"result":{}'),
      }.items()),
    *(Row(name=f"unknown, to a {role}", role=role, opens=(), revisions=ANY_REVISION,
          data=msg(ASK, params('{"a":1}')),
          events=(("notified", "ask", {"a": 1}, None),))
      for role in ("client", "server")),
)  # fmt: skip
def test_notification_is_never_answered(row):
    check(row)


CANCELLED = '"method":"notifications/cancelled"'


def cancelled(spelling):
    return msg(CANCELLED, params(f'{{"requestId":{spelling}}}'))


@pytest.mark.rule("CAN-05", "CAN-08", "TR-STDIO-11")
@table(
    Row(name="in flight", role="server", opens=(), answers=True, revisions=ANY_REVISION,
        data=msg('"id":1', ASK) + cancelled(1), events=(REQUEST, ("withdrawn", 1))),
    Row(name="a string", role="server", opens=(), answers=True,
        data=msg('"id":"a"', ASK) + cancelled('"a"'),
        events=(("requested", "a", "ask", None), ("withdrawn", "a"))),
    Row(name="one of two", role="server", opens=(), answers=True,
        data=msg('"id":1', ASK) + msg('"id":2', ASK) + cancelled(1),
        events=(REQUEST, ("requested", 2, "ask", None), ("withdrawn", 1)),
        sent=(answered(2),)),
    Row(name="twice", role="server", opens=(), answers=True,
        data=msg('"id":1', ASK) + cancelled(1) * 2, events=(REQUEST, ("withdrawn", 1))),
    Row(name="of a client inside a session", revisions=SESSION, opens=(), answers=True,
        data=msg('"id":1', ASK) + cancelled(1), events=(REQUEST, ("withdrawn", 1))),
    Row(name="requested again afterwards", role="server", opens=(), answers=False,
        data=msg('"id":1', ASK) + cancelled(1) + msg('"id":1', ASK),
        events=(REQUEST, ("withdrawn", 1), REQUEST)),
)  # fmt: skip
def test_cancelled_request_is_withdrawn_and_not_answered(row):
    check(row)


@pytest.mark.rule("CAN-06")
@table(
    *(Row(name=f"{name}, to a {role}", role=role, opens=(), answers=True, data=data,
          revisions=ALL if role == "server" else SESSION,
          events=(REQUEST,), sent=(answered(1),))
      for role in ("client", "server")
      for name, data in {
          "unknown": msg('"id":1', ASK) + cancelled(2),
          "the other type": msg('"id":1', ASK) + cancelled('"1"'),
          "a float": msg('"id":1', ASK) + cancelled("1.0"),
          "true": msg('"id":1', ASK) + cancelled("true"),
          "null": msg('"id":1', ASK) + cancelled("null"),
          "an array": msg('"id":1', ASK) + cancelled("[1]"),
          "before it": cancelled(1) + msg('"id":1', ASK),
          "without an id": msg('"id":1', ASK) + msg(CANCELLED, params("{}")),
          "without params": msg('"id":1', ASK) + msg(CANCELLED),
      }.items()),
    *(Row(name=f"our own call, at {revision}", revisions=(revision,), data=cancelled(1),
          open_after=(1,)) for revision in ANY_REVISION),
)  # fmt: skip
def test_cancellation_of_an_unknown_request_is_ignored(row):
    check(row)


def progress(token):
    return msg('"method":"notifications/progress"',
               params(f'{{"progressToken":{token},"progress":1}}'))  # fmt: skip


def event(method, members, call):
    return ("notified", f"notifications/{method}", members, call)


def progress_event(token, call=None):
    return event("progress", {"progressToken": token, "progress": 1}, call)


@pytest.mark.rule("PROG-01", "PROG-03")
@table(
    Row(name="its id", opens=TWO, open_after=(1, 2), data=progress(2) + progress(1),
        events=(progress_event(2, 2), progress_event(1, 1))),
    Row(name="after the answer", data=msg('"id":1,"result":{}') + progress(1),
        events=(("answered", 1, {}), progress_event(1))),
    Row(name="after our cancel", cancels=(1,), data=progress(1),
        events=(progress_event(1),)),
    *(Row(name=f"token {token}", data=progress(token), open_after=(1,),
          events=(progress_event(value),))
      for token, value in {"7": 7, '"1"': "1", "1.0": 1.0, "true": True, "null": None,
                           "[1]": [1], "{}": {}, '""': ""}.items()),
    Row(name="no token", data=msg('"method":"notifications/progress"', params("{}")),
        events=(event("progress", {}, None),), open_after=(1,)),
    Row(name="no params", data=msg('"method":"notifications/progress"'),
        events=(event("progress", None, None),), open_after=(1,)),
    Row(name="to a server", role="server", opens=(), data=progress(1),
        events=(progress_event(1),)),
)  # fmt: skip
def test_progress_belongs_to_the_call_with_its_token(row):
    check(row)


SUBSCRIPTION = '"io.modelcontextprotocol/subscriptionId"'


def changed(meta, method="tools/list_changed"):
    return msg(f'"method":"notifications/{method}"', params(f'{{"_meta":{meta}}}'))


def tagged(id):
    return {"_meta": {SUBSCRIPTION.strip('"'): id}}


@pytest.mark.rule("TR-STDIO-09", "SUB-07", "META-13")
@table(
    Row(name="its id", opens=LISTEN, data=changed(f"{{{SUBSCRIPTION}:1}}"),
        events=(event("tools/list_changed", tagged(1), 1),), open_after=(1, 2)),
    Row(name="two subscriptions", opens=(*LISTEN, "subscriptions/listen"),
        data=changed(f"{{{SUBSCRIPTION}:3}}") + changed(f"{{{SUBSCRIPTION}:1}}"),
        events=(event("tools/list_changed", tagged(3), 3),
                event("tools/list_changed", tagged(1), 1)), open_after=(1, 2, 3)),
    Row(name="the acknowledgement", opens=LISTEN, open_after=(1, 2),
        data=changed(f"{{{SUBSCRIPTION}:1}}", "subscriptions/acknowledged"),
        events=(event("subscriptions/acknowledged", tagged(1), 1),)),
    *(Row(name=f"id {spelling}", opens=LISTEN, open_after=(1, 2),
          data=changed(f"{{{SUBSCRIPTION}:{spelling}}}"),
          events=(event("tools/list_changed", tagged(value), None),))
      for spelling, value in {"9": 9, '"1"': "1", "1.0": 1.0, "true": True}.items()),
    Row(name="other metadata", opens=LISTEN, data=changed('{"a":1}'),
        events=(event("tools/list_changed", {"_meta": {"a": 1}}, None),),
        open_after=(1, 2)),
    Row(name="metadata that is no object", opens=LISTEN, data=changed("[1]"),
        events=(event("tools/list_changed", {"_meta": [1]}, None),), open_after=(1, 2)),
    Row(name="no params", opens=LISTEN, open_after=(1, 2),
        data=msg('"method":"notifications/tools/list_changed"'),
        events=(event("tools/list_changed", None, None),)),
)  # fmt: skip
def test_notification_belongs_to_the_subscription_it_names(row):
    check(row)


COMPLETE = ("answered", 1, {"resultType": "complete"})


@pytest.mark.rule("CAN-04", "SUB-10", "SUB-11")
@table(
    Row(name="cancelled", opens=LISTEN, data=cancelled(1), events=(COMPLETE,),
        open_after=(2,)),
    Row(name="cancelled, then the result", opens=LISTEN, open_after=(2,),
        data=cancelled(1) + msg('"id":1,"result":{"resultType":"complete"}'),
        events=(COMPLETE,), stats={"late": 1}),
    Row(name="the result, then cancelled", opens=LISTEN, open_after=(2,),
        data=msg('"id":1,"result":{"resultType":"complete"}') + cancelled(1),
        events=(COMPLETE,)),
    Row(name="cancelled twice", opens=LISTEN, open_after=(2,), data=cancelled(1) * 2,
        events=(COMPLETE,)),
    Row(name="another call", opens=LISTEN, open_after=(1, 2), data=cancelled(2)),
    Row(name="the other type", opens=LISTEN, open_after=(1, 2), data=cancelled('"1"')),
)  # fmt: skip
def test_server_ends_a_subscription_by_a_result_or_a_cancellation(row):
    check(row)


@pytest.mark.rule("CAN-05")
def test_second_answer_and_unknown_id_give_no_line():
    peer, _ = make_peer("server")
    peer.receive(msg('"id":1', ASK))
    assert one_message(peer.answer(1, {"a": 1}))["result"] == {"a": 1}
    assert peer.answer(1, {}) is None
    assert peer.refuse(1, InternalError("no")) is None
    assert peer.answer("1", {}) is None
    assert peer.refuse(7, InternalError("no")) is None


@pytest.mark.rule("RPC-08", "RPC-09")
def test_error_response_carries_code_message_and_data():
    peer, _ = make_peer("server")
    peer.receive(msg('"id":1', ASK) + msg('"id":"2"', ASK))
    assert one_message(peer.refuse(1, RPCError("m", code=-1, data=[None]))) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -1, "message": "m", "data": [None]},
    }
    assert one_message(peer.refuse("2", InternalError("broke"))) == {
        "jsonrpc": "2.0",
        "id": "2",
        "error": {"code": -32603, "message": "broke"},
    }


@pytest.mark.parametrize(
    "send",
    [
        lambda peer: peer.answer(1, {"a": float("nan")}),
        lambda peer: peer.answer(1, {"a": "\ud800"}),
        lambda peer: peer.refuse(1, InternalError("m", data=object())),
    ],
)
def test_unencodable_answer_leaves_its_request_pending(send):
    peer, _ = make_peer("server")
    peer.receive(msg('"id":1', ASK))
    with pytest.raises(LocalProtocolError):
        send(peer)
    assert 1 in peer.unanswered
    assert peer.answer(1, {}) is not None


# Batches: received at 2025-03-26, refused at every other revision, never requested...


ELSEWHERE = tuple(name for name in ALL if name not in BATCHES)
WITH_REFUSAL = (None, "2025-11-25", "2026-07-28")
WITHOUT_REFUSAL = ("2024-11-05", "2025-06-18")
INITIALIZE = '"method":"initialize"'


def batch(*messages):
    """Return the line of a batch of messages, each from `msg` or another JSON text."""
    return b"[" + b",".join(message.rstrip(b"\n") for message in messages) + b"]\n"


def called(id):
    return ("requested", id, "ask", None)


def server_row(name, *messages, **options):
    return Row(name=name, role="server", revisions=BATCHES, opens=(), answers=True,
               data=batch(*messages), **options)  # fmt: skip


@pytest.mark.rule("RPC-13")
@pytest.mark.fault("F12")
@table(
    server_row("one request", msg('"id":1', ASK), events=(called(1),),
               sent=([answered(1)],)),
    server_row("two requests", msg('"id":1', ASK), msg('"id":"b"', ASK),
               events=(called(1), called("b")), sent=([answered(1), answered("b")],)),
    server_row("request and notification", msg('"id":1', ASK), msg('"method":"note"'),
               events=(called(1), ("notified", "note", None, None)),
               sent=([answered(1)],)),
    server_row("an answer only", msg('"id":7,"result":{}'), stats={"unknown": 1}),
    server_row("a broken request among good ones", msg('"id":1', ASK),
               msg('"id":2', ASK, params("[]")), msg('"id":3', ASK),
               events=(called(1), called(3)), stats={"invalid": 1},
               sent=([Refusal(-32600, id=2), answered(1), answered(3)],)),
    server_row("members that are no objects", b"1", b"[]", b"null", msg('"id":1', ASK),
               events=(called(1),), stats={"invalid": 3}, sent=([answered(1)],)),
    server_row("the same id twice", msg('"id":1', ASK), msg('"id":1', ASK),
               events=(called(1),), stats={"invalid": 1}, sent=([answered(1)],)),
    server_row("empty", stats={"invalid": 1}),
)  # fmt: skip
def test_server_answers_a_batch_with_one_batch(row):
    check(row)


@pytest.mark.rule("RPC-14")
@table(
    server_row("alone", msg('"id":1', INITIALIZE), sent=([Refusal(-32600, id=1)],)),
    server_row("beside a request", msg('"id":1', INITIALIZE), msg('"id":2', ASK),
               events=(called(2),), sent=([Refusal(-32600, id=1), answered(2)],)),
)  # fmt: skip
def test_initialize_in_a_batch_is_refused_in_the_batch(row):
    check(row)


@pytest.mark.rule("CAN-05", "RPC-13")
@table(
    server_row("one of two", msg('"id":1', ASK), msg('"id":2', ASK), cancelled(1),
               events=(called(1), called(2), ("withdrawn", 1)), sent=([answered(2)],)),
    server_row("all", msg('"id":1', ASK), cancelled(1),
               events=(called(1), ("withdrawn", 1))),
    server_row("before it comes", cancelled(1), msg('"id":1', ASK), events=(called(1),),
               sent=([answered(1)],)),
)  # fmt: skip
def test_request_cancelled_in_its_own_batch_is_not_answered(row):
    check(row)


@pytest.mark.rule("RPC-13")
@table(
    Row(name="answers and a notification", revisions=BATCHES, opens=TWO,
        data=batch(msg('"id":2,"result":{"n":2}'), msg('"method":"note"'),
                   msg('"id":1,"error":{"code":1,"message":"m"}')),
        events=(("answered", 2, {"n": 2}), ("notified", "note", None, None),
                ("failed", 1, Error(RPCError, code=1)))),
    Row(name="an answer against the rules", revisions=BATCHES, opens=TWO,
        data=batch(msg('"id":1,"result":[]'), msg('"id":2,"result":{}')),
        events=(("failed", 1, Error(InvalidMessage, path="message.result")),
                ("answered", 2, {})), stats={"invalid": 1}),
    Row(name="an answer and a request", revisions=BATCHES, answers=True,
        data=batch(msg('"id":1,"result":{}'), msg('"id":9', ASK)),
        events=(("answered", 1, {}), called(9)), sent=([answered(9)],)),
    Row(name="empty", revisions=BATCHES, data=b"[]\n", stats={"invalid": 1},
        open_after=(1,)),
)  # fmt: skip
@pytest.mark.case("B07")
def test_client_reads_the_responses_of_a_batch(row):
    check(row)


@pytest.mark.rule("RPC-15")
@table(
    *(Row(name=f"{name} of a client that gets an answer", role="server", opens=(),
          revisions=WITH_REFUSAL, data=data, stats={"noise": 1},
          sent=(Refusal(-32600),))
      for name, data in (("batch", batch(msg('"id":1', ASK))), ("empty", b"[]\n"))),
    Row(name="batch of a client at a revision without such an error",
        role="server", opens=(), revisions=WITHOUT_REFUSAL,
        data=batch(msg('"id":1', ASK)), stats={"noise": 1}),
    Row(name="batch of a server", revisions=(None, *ELSEWHERE), open_after=(1,),
        data=batch(msg('"id":1,"result":{}')), stats={"noise": 1}),
)  # fmt: skip
def test_batch_at_another_revision_is_refused_as_a_whole(row):
    check(row)


def in_flight(*ids):
    """Return a server's peer with unanswered requests of one batch."""
    peer, owner = make_peer("server", *BATCHES)
    peer.receive(batch(*(msg(f'"id":{id}', ASK) for id in ids)))
    return peer, owner


def test_batch_is_sent_with_its_last_answer_in_answer_order():
    peer, owner = in_flight(1, 2, 3)
    assert peer.answer(3, {"n": 3}) is None
    assert peer.refuse(1, InternalError("no")) is None
    assert 1 not in peer.unanswered
    assert [answer["id"] for answer in one_message(peer.answer(2, {}))] == [3, 1, 2]
    assert peer.answer(2, {}) is None
    assert owner.transmitted == []


@pytest.mark.rule("CAN-05")
def test_cancelling_the_last_request_sends_the_other_answers():
    peer, owner = in_flight(1, 2)
    peer.answer(1, {})
    peer.receive(cancelled(2))
    assert owner.events[-1] == ("withdrawn", 2)
    assert [one_message(line) for line in owner.transmitted] == [
        [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    ]
    assert peer.answer(2, {}) is None


def test_requests_may_be_answered_inside_on_request():
    peer, owner = make_peer("server", *BATCHES)
    owner.on_request = lambda *args: owner.events.append(peer.answer(args[0], {}))
    peer.receive(batch(msg('"id":1', ASK), msg('"id":2', ASK)))
    assert owner.events == [None, None]
    assert [answer["id"] for answer in one_message(owner.transmitted[0])] == [1, 2]


def test_unencodable_answer_leaves_the_batch_pending():
    peer, _ = in_flight(1, 2)
    peer.answer(1, {})
    with pytest.raises(LocalProtocolError):
        peer.answer(2, {"a": "\ud800"})
    assert 2 in peer.unanswered
    assert len(one_message(peer.refuse(2, InternalError("no")))) == 2


def test_answer_of_the_maximum_depth_fits_into_a_batch():
    deep = []
    for _ in range(251):
        deep = [deep]
    peer, owner = in_flight(1, 2)
    assert peer.answer(1, {"deep": deep}) is None
    peer.receive(cancelled(2))
    assert one_message(owner.transmitted[0])[0]["result"] == {"deep": deep}


@pytest.mark.attack("S13")
def test_batch_over_the_limit_is_refused_without_events():
    peer, owner = make_peer("server", *BATCHES, limits=Limits(batch=4))
    calls = [msg(f'"id":{id}', ASK) for id in ("1", "null", '"b"', "4", "5")]
    peer.receive(batch(*calls))
    peer.receive(
        batch(b"1", msg('"method":"note"'), msg('"id":1,"result":{}'), b"2", b"3")
    )
    assert owner.events == []
    refused = one_message(owner.transmitted[0])
    assert [answer["id"] for answer in refused] == [1, "b", 4]
    assert {answer["error"]["code"] for answer in refused} == {-32600}
    assert len(owner.transmitted) == 1
    assert peer.stats.invalid == 2
    peer.receive(batch(*calls[:1]))
    assert owner.events == [called(1)]
