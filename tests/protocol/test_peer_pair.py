"""Every send of a peer, read by a second real peer: what goes in comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import ALL, SESSION, STATELESS, Error, exact, make_peer, open_call

from mcpwire.errors import MissingCapability, RPCError, rpc_error
from mcpwire.versions import find_revision

BOTH_WAYS = [
    *(("client", "server", name) for name in ALL),
    *(("server", "client", name) for name in SESSION),
]
TEXT = st.text(max_size=8) | st.sampled_from(["\u2028", "\u2029", "\x85", "\r\n", "\0"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)


class Pair:
    """Two peers and their owners; bytes pass in pieces of a size."""

    def __init__(self, near, far, revision, size=None):
        self.near, self.heard_near = make_peer(near, revision)
        self.far, self.heard_far = make_peer(far, revision)
        self.size = size

    def ask(self, method="tools/call", params=None, **options):
        """Open a call at the near end; return its id and what the far end is told."""
        id, line = open_call(self.near, method, params, **options)
        return id, self.to_far(line)

    def to_far(self, line):
        return self._pass(line, self.far, self.heard_far)

    def to_near(self, line):
        return self._pass(line, self.near, self.heard_near)

    def _pass(self, line, peer, owner):
        """Deliver a line; return what the owner is told of it."""
        before = len(owner.events)
        size = self.size or len(line)
        for start in range(0, len(line), size):
            peer.receive(line[start : start + size])
        assert owner.transmitted == []
        return exact(owner.events[before:])


@pytest.mark.parametrize(("near", "far", "revision"), BOTH_WAYS)
@pytest.mark.parametrize("size", [None, 1, 7])
def test_a_conversation_reads_the_same_at_both_ends(near, far, revision, size):
    pair = Pair(near, far, revision, size)
    id, told = pair.ask("ask", {"a": [1, None]}, progress=True)
    params = {"a": [1, None], "_meta": {"progressToken": 1}}
    assert (id, told) == (1, [["requested", 1, "ask", params]])

    params = {"progressToken": 1, "progress": 1}
    line = pair.far.notify("notifications/progress", params)
    assert pair.to_near(line) == [["notified", "notifications/progress", params, 1]]
    assert pair.to_near(pair.far.answer(1, {"b": {}})) == [["answered", 1, {"b": {}}]]

    id, told = pair.ask("ask")
    assert told == [["requested", 2, "ask", None]]
    error = RPCError("no", code=-5, data=[1])
    expected = Error(RPCError, code=-5, message="no", data=[1], method="ask")
    assert pair.to_near(pair.far.refuse(2, error)) == [["failed", 2, expected]]

    pair.ask("ask")
    assert pair.to_far(pair.near.cancel(3, "enough")) == [["withdrawn", 3]]
    assert pair.far.answer(3, {}) is None

    line = pair.near.notify("notifications/x")
    assert pair.to_far(line) == [["notified", "notifications/x", None, None]]
    assert pair.near.end() == pair.far.end() == []
    assert pair.near.stats.messages == 3
    assert pair.far.stats.messages == 5


@pytest.mark.rule("CAN-07", "CAN-08")
@pytest.mark.parametrize(("near", "far", "revision"), BOTH_WAYS)
def test_an_answer_and_a_cancellation_that_cross_end_the_call_once(near, far, revision):
    pair = Pair(near, far, revision)
    pair.ask()
    answer = pair.far.answer(1, {})
    cancellation = pair.near.cancel(1, "enough")
    assert pair.to_near(answer) == []
    assert pair.to_far(cancellation) == []
    assert pair.near.stats.late == 1


@pytest.mark.rule("CAN-04", "SUB-07", "SUB-10")
def test_a_subscription_ends_from_either_side():
    pair = Pair("client", "server", *STATELESS)
    pair.ask("subscriptions/listen", {"notifications": {}})
    pair.ask("subscriptions/listen", {"notifications": {}})
    tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": 2}}
    line = pair.far.notify("notifications/tools/list_changed", tag)
    assert pair.to_near(line)[0][3] == 2
    result = {"resultType": "complete"}
    line = pair.far.notify("notifications/cancelled", {"requestId": 2})
    assert pair.to_near(line) == [["answered", 2, result]]
    assert pair.to_near(pair.far.answer(2, result)) == []
    assert pair.to_far(pair.near.cancel(1, "enough")) == [["withdrawn", 1]]


@pytest.mark.rule("RPC-13")
def test_answers_to_a_batch_find_their_calls():
    pair = Pair("client", "server", "2025-03-26")
    lines = [open_call(pair.near)[1].rstrip(b"\n") for _ in range(3)]
    told = pair.to_far(b"[" + b",".join(lines) + b"]\n")
    assert [event[1] for event in told] == [1, 2, 3]
    assert pair.far.answer(2, {}) is None
    assert pair.far.refuse(3, MissingCapability("no")) is None
    events = pair.to_near(pair.far.answer(1, {}))
    assert [event[:2] for event in events] == [["answered", 2], ["failed", 3],
                                               ["answered", 1]]  # fmt: skip


@pytest.mark.rule("RPC-02", "RPC-07", "TR-STDIO-01")
@pytest.mark.pain("P14")
@given(
    st.sampled_from(BOTH_WAYS),
    TEXT,
    OBJECTS | st.none(),
    OBJECTS,
    st.integers(1, 40),
)
def test_any_params_and_results_arrive_as_they_were_given(
    ends, method, params, result, size
):
    pair = Pair(*ends, size)
    _, told = pair.ask(method, params)
    assert told == exact([("requested", 1, method, params)])
    assert pair.to_near(pair.far.answer(1, result)) == exact([("answered", 1, result)])
    line = pair.far.notify(f"notifications/{method}x", params)
    event = ("notified", f"notifications/{method}x", params, None)
    assert pair.to_near(line) == exact([event])


@pytest.mark.rule("RPC-08", "RPC-09")
@given(st.integers(-(2**63), 2**63), st.text(max_size=20), JSON)
def test_any_error_arrives_as_it_was_given(code, message, data):
    pair = Pair("client", "server", "2025-11-25")
    pair.ask()
    error = rpc_error(code, message, data=data)
    ((event, _, arrived),) = pair.to_near(pair.far.refuse(1, error))
    assert event == "failed"
    assert type(arrived) is type(error)
    assert (arrived.code, arrived.message) == (code, message)
    assert exact(arrived.data) == exact(data)


@pytest.mark.rule("LIFE-16", "RPC-20")
def test_an_agreement_in_between_changes_what_may_be_sent():
    pair = Pair("client", "server", None)
    pair.ask("initialize", {"protocolVersion": "2025-11-25"})
    pair.to_near(pair.far.answer(1, {"protocolVersion": "2025-11-25"}))
    for peer in (pair.near, pair.far):
        peer.revision = find_revision("2025-11-25")
    pair.to_far(pair.near.notify("notifications/initialized"))
    id, line = open_call(pair.far, "roots/list")
    assert pair.to_near(line) == [["requested", id, "roots/list", None]]
    assert pair.to_far(pair.near.answer(id, {"roots": []})) == [
        ["answered", id, {"roots": []}]
    ]
