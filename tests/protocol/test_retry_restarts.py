"""When a lost connection is opened again, and which requests are sent again on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.limits import Recovery
from mcpwire.protocol.retry import RestartBackoff, may_repeat, tool_allows_repeat

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=6)
ALMOST_ONE = 1 - 2**-53


def backoff_after(*, failures=0, now=0.0, recovery=RECOVERY):
    """Return the backoff after so many failed openings, the last of them now."""
    backoff = RestartBackoff.of(recovery)
    for _ in range(failures):
        backoff.record_failure(now)
    return backoff


OPENED, FAILED, LOST, RESET = "record_open", "record_failure", "record_loss", "reset"


def row(name, failures, *events, at=0.0, chance=0.5, delay, marks=()):
    """Make the row of events after some failed openings, and of the expected delay."""
    return pytest.param(failures, events, at, chance, delay, id=name, marks=marks)


@pytest.mark.parametrize(
    ("failures", "events", "at", "chance", "delay"),
    [
        row("no delay before the first opening", 0, at=5.0, chance=0.9, delay=0.0),
        row("no delay after an answered call", 3, (OPENED, 0.0),
              (LOST, 0.1, True), at=0.1, chance=0.9, delay=0.0,
              marks=pytest.mark.pain("P04")),
        row("shorter than the longest delay", 1, (OPENED, 100.0),
              (LOST, 109.99), at=109.99, delay=1.0),
        row("as long as the longest delay", 1, (OPENED, 100.0), (LOST, 110.0),
              at=110.0, delay=0.0),
        row("an answer on an earlier connection", 0, (OPENED, 0.0),
              (LOST, 1.0, True), (OPENED, 1.0), (LOST, 1.0), at=1.0, delay=0.5),
        row("a loss without a connection", 1, (LOST, 0.0), (OPENED, 0.0),
              (FAILED, 0.0), (LOST, 0.0), delay=1.0),
        *(row(f"{n} in vain, by {chance}", n, chance=chance, delay=bound * chance)
          for n, bound in enumerate((1.0, 2.0, 4.0, 8.0, 10.0), 1)
          for chance in (0.0, 0.25, ALMOST_ONE)),
        row("None after the last attempt", 6, chance=0.0, delay=None),
        row("None at any later time", 6, at=1e9, chance=0.0, delay=None),
        row("reset by a connection", 6, (RESET,), chance=0.9, delay=0.0),
        row("elapsed time is subtracted", 3, at=1.5, delay=0.5),
        row("the whole delay has elapsed", 3, at=3.0, delay=0.0),
    ],
)  # fmt: skip
def test_delay_depends_on_failures_and_elapsed_time(
    failures, events, at, chance, delay
):
    backoff = backoff_after(failures=failures)
    for event, *args in events:
        getattr(backoff, event)(*args[:1], **({"answered": True} if args[1:] else {}))
    assert backoff.delay(at, chance) == delay


def test_connection_lost_without_an_answer_counts_as_failed():
    backoff = backoff_after()
    for attempt in range(RECOVERY.attempts):
        assert backoff.delay(attempt, 0.0) == 0.0
        backoff.record_open(attempt)
        backoff.record_loss(attempt)
    assert backoff.delay(99.0, 0.0) is None


def test_delay_after_very_many_failures_is_finite():
    backoff = backoff_after(failures=5_000, recovery=Recovery(attempts=1_000_000))
    assert backoff.delay(0.0, 0.5) == 15.0


@given(
    st.lists(st.sampled_from([OPENED, FAILED, LOST, "answered"]), max_size=30),
    st.floats(0, ALMOST_ONE),
)
def test_delay_is_within_bounds_for_any_order_of_events(events, chance):
    backoff = RestartBackoff.of(RECOVERY)
    for now, event in enumerate(events):
        if event == "answered":
            backoff.record_loss(now, answered=True)
        else:
            getattr(backoff, event)(now)
        delay = backoff.delay(now, chance)
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
def test_sent_request_is_repeated_only_if_its_method_allows_it(method, is_repeated):
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
def test_tool_call_is_repeated_only_if_its_hints_allow_it(annotations, is_allowed):
    raw = {"name": "t", "inputSchema": {"type": "object"}}
    if annotations is not None:
        raw["annotations"] = annotations
    assert tool_allows_repeat(types.decode(types.Tool, raw)) is is_allowed


def test_unknown_tool_is_not_repeated():
    assert not tool_allows_repeat(None)
