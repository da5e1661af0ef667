"""Two peers joined by bytes that arrive in any pieces, at any time: the invariants.

Every call ends exactly once, at most one response to an id is sent, a cancelled call
is never reported as answered, ids are used once, and both sides know the open calls.
"""

import json
from collections import Counter, deque

import pytest
import unmeasured
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mcpwire.errors import LocalProtocolError, RPCError
from mcpwire.protocol.peer import Peer
from mcpwire.versions import REVISIONS, Era

LISTEN = "subscriptions/listen"
METHODS = ("tools/call", "ping", LISTEN)
NOISE = (b"starting up\n", b"\n", b"[1,\n", b"null\n", b"\xff\xfe\n", b'{"level":30}\n')
CODE = -32001


class Call:
    """A call of one side, and how it ended."""

    def __init__(self, method):
        self.method = method
        self.number = None
        self.state = "open"


class Side:
    """One end: a real peer, the record of the invariants, and its outgoing bytes."""

    def __init__(self, role, revision):
        self.role = role
        self.peer = Peer(self, role=role)
        self.peer.revision = revision
        self.calls = {}
        self.requests = {}
        self.answers = Counter()
        self.lines = deque()
        self.offset = 0  # how much of the first line has arrived

    def with_state(self, state):
        return [id for id, call in self.calls.items() if call.state == state]

    def requests_in(self, *states):
        return [id for id, (_, state) in self.requests.items() if state in states]

    # Events of the peer...

    def on_result(self, call, result):
        assert call.state == "open"
        call.state = "answered"
        ended_by_server = call.method == LISTEN and result == {"resultType": "complete"}
        assert ended_by_server or result == {"to": [self.role, call.number]}

    def on_error(self, call, error):
        assert call.state == "open"
        call.state = "failed"
        assert (error.code, error.data) == (CODE, [self.role, call.number])
        assert error.method == call.method

    def on_notification(self, method, params, call):
        named = self.calls.get(params["progressToken"])
        assert method == "notifications/progress"
        assert call is (named if named is not None and named.state == "open" else None)

    def on_request(self, id, method, params):
        assert id not in self.requests
        assert params == {"from": id}
        self.requests[id] = (method, "in flight")

    def on_cancelled(self, id):
        method, state = self.requests[id]
        assert state == "in flight"
        self.requests[id] = (method, "withdrawn")

    def transmit(self, data):
        self.send(data)

    # Sending and receiving...

    def send(self, line):
        assert line.endswith(b"\n")
        messages = json.loads(line)
        for message in messages if isinstance(messages, list) else [messages]:
            if "method" not in message:
                id = message["id"]
                self.answers[id] += 1
                assert self.answers[id] == 1
                assert self.requests[id][1] == "answered"
        self.lines.append(line)

    def settle(self, id, line):
        """Note that a request was answered; in a batch its line is sent later."""
        method, state = self.requests[id]
        if state != "in flight":
            assert line is None
            return
        self.requests[id] = (method, "answered")
        if line is not None:
            self.send(line)

    def take(self, size):
        """Return the next bytes that arrive at the other end."""
        piece_bytes = bytearray()
        while self.lines and len(piece_bytes) < size:
            line = self.lines[0]
            piece = line[self.offset : self.offset + size - len(piece_bytes)]
            piece_bytes += piece
            self.offset += len(piece)
            if self.offset == len(line):
                self.lines.popleft()
                self.offset = 0
        return bytes(piece_bytes)


SIDE = st.integers(0, 1)
CHOICE = st.integers(0, 1_000)


def choose(options, choice):
    return options[choice % len(options)] if options else None


class TwoPeers(RuleBasedStateMachine):
    """A connection and everything that may happen on it."""

    def __init__(self):
        super().__init__()
        unmeasured.example()

    @initialize(revision=st.sampled_from(REVISIONS))
    def connect(self, revision):
        self.revision = revision
        self.sides = [Side("client", revision), Side("server", revision)]

    @rule(at=SIDE, method=st.sampled_from(METHODS), progress=st.booleans())
    def start_request(self, at, method, progress):
        side = self.sides[at]
        call = Call(method)
        id = side.peer.requests_sent + 1
        if side.role == "server" and self.revision.era is Era.STATELESS:
            with pytest.raises(LocalProtocolError):
                side.peer.start_request(method, {"from": id}, call)
            return
        call.number, line = side.peer.start_request(method, {"from": id}, call)
        assert call.number not in side.calls
        side.calls[call.number] = call
        side.send(line)

    @rule(at=SIDE, choice=CHOICE)
    def drop_request(self, at, choice):
        # A request that was never sent is the last line, and none of it has arrived.
        side = self.sides[at]
        newest = side.peer.requests_sent
        if not side.lines or newest not in side.with_state("open"):
            return
        last = side.lines[-1]
        is_whole = len(side.lines) > 1 or side.offset == 0
        if is_whole and last.startswith(b'{"jsonrpc":"2.0","id":%d,"method"' % newest):
            side.lines.pop()
            side.peer.drop_request(newest)
            side.calls[newest].state = "forgotten"

    @rule(at=SIDE, choice=CHOICE)
    def answer(self, at, choice):
        side = self.sides[at]
        id = choose(side.requests_in("in flight", "answered", "withdrawn"), choice)
        if id is not None:
            result = {"to": [self.sides[1 - at].role, id]}
            side.settle(id, side.peer.answer(id, result))

    @rule(at=SIDE, choice=CHOICE)
    def refuse(self, at, choice):
        side = self.sides[at]
        id = choose(side.requests_in("in flight", "answered", "withdrawn"), choice)
        if id is not None:
            error = RPCError("no", code=CODE, data=[self.sides[1 - at].role, id])
            side.settle(id, side.peer.refuse(id, error))

    @rule(at=SIDE, choice=CHOICE)
    def send_unencodable_answer(self, at, choice):
        side = self.sides[at]
        id = choose(side.requests_in("in flight"), choice)
        if id is not None:
            with pytest.raises(LocalProtocolError):
                side.peer.answer(id, {"a": float("inf")})

    @rule(at=SIDE, choice=CHOICE)
    def cancel(self, at, choice):
        side = self.sides[at]
        id = choose(list(side.calls), choice)
        if id is None:
            return
        line = side.peer.cancel(id, "enough")
        if side.calls[id].state == "open":
            side.calls[id].state = "cancelled"
            side.send(line)
        else:
            assert line is None

    @rule(at=SIDE, choice=CHOICE)
    def report_progress(self, at, choice):
        side = self.sides[at]
        id = choose(side.requests_in("in flight", "answered", "withdrawn"), choice)
        if id is not None:
            side.send(side.peer.notify("notifications/progress", {"progressToken": id}))

    @precondition(lambda self: self.revision.era is Era.STATELESS)
    @rule(choice=CHOICE)
    def end_subscription(self, choice):
        server = self.sides[1]
        requests = server.requests.items()
        id = choose([id for id, (method, _) in requests if method == LISTEN], choice)
        if id is not None:
            line = server.peer.notify("notifications/cancelled", {"requestId": id})
            server.send(line)

    @rule(line=st.sampled_from(NOISE))
    def write_noise(self, line):
        self.sides[1].lines.append(line)

    @rule(at=SIDE)
    def repeat_an_answer(self, at):
        # The other side is broken, or an attacker: the same answer arrives again.
        lines = self.sides[at].lines
        if lines and b'"method"' not in lines[-1] and b'"id"' in lines[-1]:
            lines.append(lines[-1])

    @precondition(lambda self: self.revision.receives_batches)
    @rule(at=SIDE)
    def gather_into_a_batch(self, at):
        side = self.sides[at]
        if side.offset == 0 and all(line.startswith(b'{"js') for line in side.lines):
            whole = b"[" + b",".join(line.rstrip(b"\n") for line in side.lines) + b"]\n"
            side.lines = deque([whole] if side.lines else [])

    @rule(at=SIDE, size=st.integers(1, 200))
    def deliver(self, at, size):
        self.sides[1 - at].peer.receive(self.sides[at].take(size))

    @rule(at=SIDE)
    def deliver_all(self, at):
        self.sides[1 - at].peer.receive(self.sides[at].take(1_000_000))

    @rule(at=SIDE)
    def lose_the_connection(self, at):
        for side in (self.sides[at], self.sides[1 - at]):
            unanswered = side.peer.end()
            assert [call.number for call in unanswered] == side.with_state("open")
            assert not any(id in side.peer.unanswered for id in side.requests)
            assert side.peer.end() == []
            side.peer.receive(b'{"jsonrpc":"2.0","id":"x","method":"m"}\n')
        self.connect(self.revision)

    @invariant()
    def both_know_the_open_calls(self):
        for side in getattr(self, "sides", ()):
            assert list(side.peer.outstanding) == side.with_state("open")
            for id, (_, state) in side.requests.items():
                assert (id in side.peer.unanswered) == (state == "in flight")
            assert side.peer.requests_sent == max(side.calls, default=0)

    def teardown(self):
        """Let everything arrive and be answered: then no call is left open."""
        for _ in range(2):
            for at in (0, 1):
                self.deliver_all(at)
            for at in (0, 1):
                for id in self.sides[at].requests_in("in flight"):
                    result = {"to": [self.sides[1 - at].role, id]}
                    self.sides[at].settle(id, self.sides[at].peer.answer(id, result))
        for side in self.sides:
            assert not side.lines
            assert side.peer.outstanding == {}
            assert side.with_state("open") == []
            assert side.requests_in("in flight") == []


@pytest.mark.rule("RPC-05", "RPC-06", "CAN-05", "CAN-07", "CAN-08", "TR-STDIO-11")
@pytest.mark.fault("F14", "F15")
@pytest.mark.attack("S31")
def test_every_call_of_two_peers_ends_exactly_once():
    run_state_machine_as_test(TwoPeers, settings=settings(stateful_step_count=40))
