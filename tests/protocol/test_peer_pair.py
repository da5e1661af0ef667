"""Every send of a peer, read by a second real peer: what goes in comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import ALL, SESSION, exact, make_peer, open_call

from mcpwire.errors import rpc_error

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
        assert line.find(b"\n") == len(line) - 1
        before = len(owner.events)
        size = self.size or len(line)
        for start in range(0, len(line), size):
            peer.receive(line[start : start + size])
        assert owner.transmitted == []
        return exact(owner.events[before:])


@pytest.mark.rule("RPC-02", "RPC-07", "TR-STDIO-01", "TR-STDIO-03")
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
