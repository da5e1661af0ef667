"""Batches: received at 2025-03-26, refused at every other revision, never requested."""

import pytest
from wire_tables import (
    ALL,
    BATCHES,
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

from mcpwire.errors import InternalError, InvalidMessage, LocalProtocolError, RPCError
from mcpwire.limits import Limits

ELSEWHERE = tuple(name for name in ALL if name not in BATCHES)
WITH_REFUSAL = (None, "2025-11-25", "2026-07-28")
WITHOUT_REFUSAL = ("2024-11-05", "2025-06-18")
ASK = '"method":"ask"'
INITIALIZE = '"method":"initialize"'
TWO = ("tools/call", "tools/list")


def batch(*messages):
    """Return the line of a batch of messages, each from `msg` or another JSON text."""
    return b"[" + b",".join(message.rstrip(b"\n") for message in messages) + b"]\n"


def called(id):
    return ("requested", id, "ask", None)


def cancelled(id):
    return msg('"method":"notifications/cancelled"', params(f'{{"requestId":{id}}}'))


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


# Answered in the middle of other events...


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
