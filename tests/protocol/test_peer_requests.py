"""Requests of the other side, their cancellation, and notifications about calls."""

import pytest
from wire_tables import (
    ALL,
    SESSION,
    STATELESS,
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

from mcpwire.errors import InternalError, LocalProtocolError, RPCError
from mcpwire.versions import LATEST

ASK = '"method":"ask"'
ANY_REVISION = (None, *ALL)
TWO = ("tools/call", "tools/list")
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


# Cancelled requests...


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


# Notifications, and the call each belongs to...


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


# Our responses...


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
