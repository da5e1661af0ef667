"""When a lost connection is opened again, and what is sent on it once more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.limits import Recovery
from mcpwire.protocol.retry import (
    RestartBackoff,
    may_repeat,
    tool_allows_repeat,
)

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=6)
ALMOST_ONE = 1 - 2**-53


def restarts(*, in_vain=0, now=0.0, recovery=RECOVERY):
    """Return a state with so many openings in vain, the last of them now."""
    made = RestartBackoff.of(recovery)
    for _ in range(in_vain):
        made.record_failure(now)
    return made


OPENED, FAILED, LOST, RESET = "record_open", "record_failure", "record_loss", "reset"


def after(name, in_vain, *events, at=0.0, chance=0.5, delay, marks=()):
    """Make the row of events after some openings in vain, and of the delay then."""
    return pytest.param(in_vain, events, at, chance, delay, id=name, marks=marks)


@pytest.mark.parametrize(
    ("in_vain", "events", "at", "chance", "delay"),
    [
        after("the first opening waits for nothing", 0, at=5.0, chance=0.9, delay=0.0),
        after("at once after one that answered a call", 3, (OPENED, 0.0),
              (LOST, 0.1, True), at=0.1, chance=0.9, delay=0.0,
              marks=pytest.mark.pain("P04")),
        after("one that stood less than the longest delay", 1, (OPENED, 100.0),
              (LOST, 109.99), at=109.99, delay=1.0),
        after("one that stood that long has lived", 1, (OPENED, 100.0), (LOST, 110.0),
              at=110.0, delay=0.0),
        after("an answer on the connection before says nothing", 0, (OPENED, 0.0),
              (LOST, 1.0, True), (OPENED, 1.0), (LOST, 1.0), at=1.0, delay=0.5),
        after("the loss of what does not stand", 1, (LOST, 0.0), (OPENED, 0.0),
              (FAILED, 0.0), (LOST, 0.0), delay=1.0),
        *(after(f"{n} in vain, by {chance}", n, chance=chance, delay=bound * chance)
          for n, bound in enumerate((1.0, 2.0, 4.0, 8.0, 10.0), 1)
          for chance in (0.0, 0.25, ALMOST_ONE)),
        after("none after so many", 6, chance=0.0, delay=None),
        after("none however much later", 6, at=1e9, chance=0.0, delay=None),
        after("until somebody connects", 6, (RESET,), chance=0.9, delay=0.0),
        after("what has passed is not waited for", 3, at=1.5, delay=0.5),
        after("all of it has passed", 3, at=3.0, delay=0.0),
    ],
)  # fmt: skip
def test_how_long_an_opening_waits(in_vain, events, at, chance, delay):
    made = restarts(in_vain=in_vain)
    for event, *when in events:
        getattr(made, event)(*when[:1], **({"answered": True} if when[1:] else {}))
    assert made.delay(at, chance) == delay


def test_surviving_the_handshake_is_not_living():
    made = restarts()
    for turn in range(RECOVERY.attempts):
        assert made.delay(turn, 0.0) == 0.0
        made.record_open(turn)
        made.record_loss(turn)
    assert made.delay(99.0, 0.0) is None


def test_a_million_attempts_still_have_a_finite_delay():
    made = restarts(in_vain=5_000, recovery=Recovery(attempts=1_000_000))
    assert made.delay(0.0, 0.5) == 15.0


@given(
    st.lists(st.sampled_from([OPENED, FAILED, LOST, "answered"]), max_size=30),
    st.floats(0, ALMOST_ONE),
)
def test_no_order_of_events_gives_a_delay_out_of_bounds(events, chance):
    made = RestartBackoff.of(RECOVERY)
    for now, event in enumerate(events):
        if event == "answered":
            made.record_loss(now, answered=True)
        else:
            getattr(made, event)(now)
        delay = made.delay(now, chance)
        assert delay is None or 0.0 <= delay <= RECOVERY.backoff_max


@pytest.mark.parametrize(
    ("method", "is_repeated"),
    [
        ("tools/list", True),
        ("resources/read", True),
        ("prompts/get", True),
        ("completion/complete", True),
        ("subscriptions/listen", True),
        ("ping", True),
        ("tools/call", False),
        ("initialize", False),
        ("tasks/update", False),
        ("tasks/cancel", False),
        ("x/unknown", False),
    ],
)
def test_what_may_have_run_is_sent_again_only_where_that_does_no_more(
    method, is_repeated
):
    assert may_repeat(method, sent=True) is is_repeated


@pytest.mark.rule("TOOL-24")
@pytest.mark.parametrize(
    ("annotations", "is_allowed"),
    [
        (None, False),
        ({}, False),
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": True}, True),
        ({"readOnlyHint": False}, False),
        ({"idempotentHint": False}, False),
        ({"destructiveHint": False, "openWorldHint": False}, False),
    ],
)
def test_a_tool_may_be_called_again_only_if_it_says_so(annotations, is_allowed):
    raw = {"name": "t", "inputSchema": {"type": "object"}}
    if annotations is not None:
        raw["annotations"] = annotations
    assert tool_allows_repeat(types.decode(types.Tool, raw)) is is_allowed


def test_a_tool_nobody_knows_promises_nothing():
    assert not tool_allows_repeat(None)
