"""Random answers in random order: the handshake ends, and only in allowed ways."""

import attrs
import pytest
from handshakes import IDENTITY, PROBE_TIMEOUT, discovered, initialized, proposed_by
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    NegotiationError,
    RPCError,
    TransportError,
    rpc_error,
)
from mcpwire.protocol.negotiation import (
    MODERN_ERRORS,
    MODES,
    Agreement,
    Answer,
    Negotiation,
    Notify,
    Receive,
    ReceiveTimeout,
    Reopen,
    Send,
    negotiate,
    parse_mode,
)
from mcpwire.versions import REVISIONS, Era

MOST_STEPS = 16
NAMES = st.sampled_from([*(r.name for r in REVISIONS), "2027-03-01", ""])
BAD = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([1])
DISCOVERED = st.builds(
    lambda names, bad: discovered(*names) | bad,
    st.lists(NAMES, max_size=3),
    st.dictionaries(
        st.sampled_from(["supportedVersions", "capabilities", "resultType", "_meta"]),
        BAD,
        max_size=1,
    ),
)
INITIALIZED = st.builds(
    lambda name, bad: initialized(name) | bad,
    NAMES,
    st.dictionaries(
        st.sampled_from(["protocolVersion", "capabilities", "serverInfo"]),
        BAD,
        max_size=1,
    ),
)
DATA = BAD | st.fixed_dictionaries(
    {"supported": BAD | st.lists(NAMES | BAD, max_size=3)}
)
CODES = st.sampled_from([-32022, -32022, -32021, -32020, -32601, -32602, -32000, 0])
ERRORS = st.builds(lambda code, data: rpc_error(code, "no", data=data), CODES, DATA)
OUTCOMES = (
    DISCOVERED
    | INITIALIZED
    | ERRORS
    | st.dictionaries(st.text(max_size=3), BAD, max_size=2)
    | st.builds(ConnectionClosed, st.just("the peer closed it"))
    | st.just(InvalidMessage("message", expected="object", got="array"))
)
MODE = st.sampled_from([*MODES, *(r.name for r in REVISIONS)])


@attrs.define
class Shell:
    """Tracks the open requests, as a shell does, and checks each step against them."""

    allowed: tuple
    open: list = attrs.Factory(list)
    steps: list = attrs.Factory(list)
    is_modern: bool = False
    may_initialize: set = attrs.Factory(set)

    def perform(self, step, draw):
        self.steps.append(step)
        assert len(self.steps) <= MOST_STEPS
        if type(step) is Send:
            self.send(step)
        elif type(step) is Receive:
            return self.receive(step, draw)
        elif type(step) is Reopen:
            assert sum(type(step) is Reopen for step in self.steps) == 1
            assert not self.is_modern
            self.open.clear()
        else:
            assert step.revision in self.allowed
            assert step.revision.era is Era.SESSION
        return None

    def send(self, step):
        assert step.method not in self.open
        self.open.append(step.method)
        version = proposed_by(step)
        (revision,) = [r for r in self.allowed if r.name == version]
        if step.method == "initialize":
            # After a proof of the modern era only a named revision may be initialized.
            assert revision.era is Era.SESSION
            assert not self.is_modern or version in self.may_initialize
        else:
            assert revision.era is Era.STATELESS

    def receive(self, step, draw):
        assert self.open, "nothing is open, nothing can come"
        at = float(len(self.steps))
        if step.timeout is not None:
            assert step.timeout == PROBE_TIMEOUT
            assert self.open == ["server/discover"]
            if draw(st.booleans()):
                return ReceiveTimeout(at)
        method = draw(st.sampled_from(self.open))
        outcome = draw(OUTCOMES)
        self.learn(outcome)
        if isinstance(outcome, TransportError):
            self.open.clear()
        else:
            self.open.remove(method)
        return Answer(method, outcome, at)

    def learn(self, outcome):
        if isinstance(outcome, RPCError) and outcome.code in MODERN_ERRORS:
            self.is_modern = True
        if isinstance(outcome, dict):
            names = outcome.get("supportedVersions")
        else:
            data = getattr(outcome, "data", None)
            names = data.get("supported") if isinstance(data, dict) else None
        if isinstance(names, list):
            self.may_initialize.update(n for n in names if isinstance(n, str))


def run(mode, draw):
    """Negotiate with a server that answers as drawn; return the data to check."""
    shell = Shell(parse_mode(mode))
    record = Negotiation()
    operation = negotiate(
        IDENTITY, shell.allowed, probe_timeout=PROBE_TIMEOUT, record=record
    )
    outcome = None
    try:
        while True:
            outcome = shell.perform(operation.send(outcome), draw)
    except StopIteration as done:
        return shell, record, outcome, done.value
    except (NegotiationError, TransportError) as error:
        return shell, record, outcome, error


@pytest.mark.rule("VER-03", "VER-14", "LIFE-09", "LIFE-17")
@pytest.mark.pain("P26")
@pytest.mark.fault("F49")
@given(st.data(), MODE)
def test_any_sequence_of_answers_ends_in_an_agreement_or_a_named_error(data, mode):
    shell, record, outcome, verdict = run(mode, data.draw)
    times = [step.at for step in record.steps]
    assert times == sorted(times)
    assert str(record)
    if type(verdict) is Agreement:
        assert verdict.revision in shell.allowed
        assert record.revision is verdict.revision
        is_session = verdict.revision.era is Era.SESSION
        assert (type(shell.steps[-1]) is Notify) is is_session
        return
    assert record.revision is None
    if isinstance(verdict, TransportError):
        assert verdict is outcome.outcome
    else:
        assert verdict.negotiation is record
        assert all(type(name) is str for name in verdict.supported)
