"""What a peer sends: requests, cancellations and notifications."""

from types import SimpleNamespace

import pytest
from wire_tables import (
    ALL,
    SESSION,
    STATELESS,
    Call,
    make_peer,
    msg,
    one_message,
    open_call,
)

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.peer import TOO_MANY_REASON, Peer, too_many_questions
from mcpwire.versions import LATEST, find_revision


@pytest.mark.system("V20")
@pytest.mark.rule("RPC-01", "RPC-03", "TR-STDIO-01", "TR-STDIO-03")
def test_request_is_one_line_with_the_next_id():
    peer, _ = make_peer()
    id, line = open_call(peer, "ping")
    assert id == 1
    assert one_message(line) == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    nested = {"a": "line\nfeed", "b": [None]}
    id, line = open_call(peer, "tools/call", nested)
    assert id == 2
    assert one_message(line) == {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": nested,
    }
    assert peer.requests_sent == 2
    assert [call.method for call in peer.outstanding.values()] == ["ping", "tools/call"]


@pytest.mark.rule("RPC-05", "RPC-06")
@pytest.mark.fault("F15")
def test_ids_are_never_used_twice():
    peer, _ = make_peer()
    ids = [open_call(peer)[0]]
    peer.receive(msg('"id":1,"result":{}'))
    ids.append(open_call(peer)[0])
    peer.cancel(ids[-1], "test")
    ids.append(open_call(peer)[0])
    peer.drop_request(ids[-1])
    ids.append(open_call(peer)[0])
    peer.end()
    ids.append(open_call(peer)[0])
    assert ids == [1, 2, 3, 4, 5]


@pytest.mark.rule("PROG-01")
@pytest.mark.parametrize(
    ("params", "sent"),
    [
        (None, {"_meta": {"progressToken": 1}}),
        ({}, {"_meta": {"progressToken": 1}}),
        ({"a": 1, "_meta": None}, {"a": 1, "_meta": {"progressToken": 1}}),
        (
            {"_meta": {"x/y": 2, "progressToken": "old"}},
            {"_meta": {"x/y": 2, "progressToken": 1}},
        ),
    ],
)
def test_progress_token_is_the_id_and_the_given_params_stay_unchanged(params, sent):
    peer, _ = make_peer()
    before = repr(params)
    _, line = open_call(peer, "m", params, progress=True)
    assert one_message(line)["params"] == sent
    assert repr(params) == before


def test_unencodable_request_changes_no_state():
    peer, _ = make_peer()
    with pytest.raises(LocalProtocolError) as raised:
        peer.start_request("tools/call", {"a": {"b": [...]}}, Call("tools/call"))
    assert "$.params.a.b[0]" in str(raised.value)
    assert (peer.outstanding, peer.requests_sent) == ({}, 0)
    assert open_call(peer)[0] == 1


@pytest.mark.rule("RPC-20", "TR-STDIO-07")
@pytest.mark.parametrize("revision", [None, *STATELESS])
def test_server_may_send_no_request_outside_a_session(revision):
    peer, _ = make_peer("server", revision)
    with pytest.raises(LocalProtocolError) as raised:
        peer.start_request("sampling/createMessage", {}, Call("sampling/createMessage"))
    assert "'sampling/createMessage'" in str(raised.value)
    assert (peer.outstanding, peer.requests_sent) == ({}, 0)


@pytest.mark.parametrize("revision", SESSION)
def test_server_may_send_requests_inside_a_session(revision):
    peer, owner = make_peer("server", revision)
    assert open_call(peer, "roots/list")[0] == 1
    peer.receive(msg('"id":1,"result":{"roots":[]}'))
    assert owner.events == [("answered", 1, {"roots": []})]


@pytest.mark.rule("CAN-01", "CAN-02", "CAN-12", "TR-STDIO-10", "LIFE-14")
@pytest.mark.parametrize("revision", ALL)
def test_cancelled_call_is_closed_and_its_id_is_sent_to_the_peer(revision):
    peer, owner = make_peer(revision=revision, opens=("tools/call", "tools/call"))
    assert one_message(peer.cancel(2, "no longer needed")) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 2, "reason": "no longer needed"},
    }
    assert list(peer.outstanding) == [1]
    assert owner.events == []


@pytest.mark.system("A31")
@pytest.mark.rule("CAN-01", "CAN-02")
def test_call_that_is_not_open_cannot_be_cancelled():
    peer, _ = make_peer(opens=("tools/call",))
    assert peer.cancel(7, "unknown") is None
    peer.receive(msg('"id":1,"result":{}'))
    assert peer.cancel(1, "answered already") is None
    open_call(peer)
    assert peer.cancel(2, "once") is not None
    assert peer.cancel(2, "twice") is None


@pytest.mark.rule("LIFE-16")
@pytest.mark.parametrize("revision", [None, *ALL])
def test_initialize_is_never_cancelled(revision):
    peer, _ = make_peer(revision=revision, opens=("initialize",))
    assert peer.cancel(1, "timeout") is None
    assert peer.outstanding == {}


@pytest.mark.rule("LIFE-05")
def test_cancellation_is_not_sent_before_the_agreement():
    peer, owner = make_peer(revision=None, opens=("server/discover", "tools/call"))
    assert peer.cancel(1, "timeout") is None
    peer.revision = find_revision("2025-11-25")
    assert peer.cancel(2, "timeout") is not None
    peer.receive(msg('"id":1,"result":{}'))
    assert (owner.events, peer.stats.late, peer.stats.unknown) == ([], 1, 0)


def test_unencodable_cancellation_leaves_the_call_open():
    peer, owner = make_peer(opens=("tools/call",))
    with pytest.raises(LocalProtocolError):
        peer.cancel(1, "\ud800")
    assert list(peer.outstanding) == [1]
    peer.receive(msg('"id":1,"result":{}'))
    assert owner.events == [("answered", 1, {})]


def test_dropped_call_receives_no_event():
    peer, owner = make_peer(opens=("tools/call", "tools/call"))
    peer.drop_request(1)
    peer.drop_request(1)
    assert list(peer.outstanding) == [2]
    peer.receive(msg('"id":1,"result":{}'))
    assert (owner.events, peer.stats.unknown) == ([], 1)


@pytest.mark.rule("RPC-11")
@pytest.mark.parametrize(
    ("params", "members"),
    [(None, {}), ({}, {"params": {}}), ({"a": "\n"}, {"params": {"a": "\n"}})],
)
def test_notification_is_one_line_without_an_id(params, members):
    peer, _ = make_peer()
    line = peer.notify("notifications/x", params)
    assert one_message(line) == {
        "jsonrpc": "2.0",
        "method": "notifications/x",
        **members,
    }


def test_unanswered_requests_and_the_current_line_length_are_counted():
    line_lengths = []

    class Owner:
        def __getattr__(self, name):
            return lambda *_: line_lengths.append(peer.stats.line_bytes)

    peer = Peer(Owner(), role="client")
    peer.revision = LATEST
    for _ in range(5):
        peer.start_request(
            "tools/call", {"name": "x"}, SimpleNamespace(method="tools/call")
        )
    peer.cancel(1, "enough")
    peer.cancel(1, "twice")
    peer.drop_request(2)
    peer.drop_request(2)
    line = b'{"jsonrpc":"2.0","method":"notifications/x"}\n'
    peer.receive(line)
    peer.receive(b'{"jsonrpc":"2.0","id":3,"result":{}}\n')
    peer.end()
    assert peer.stats.unanswered == 4
    assert line_lengths[0] == len(line.rstrip())


def test_too_many_questions_error_names_the_reason():
    error = too_many_questions()
    assert error.code == -32600
    assert error.message.endswith(f": {TOO_MANY_REASON}")
