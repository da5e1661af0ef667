"""When a lost connection is opened again, and what is sent on it once more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.limits import Recovery
from mcpwire.protocol.methods import METHODS
from mcpwire.protocol.retry import (
    Restarts,
    may_repeat,
    tool_allows_repeat,
)

RECOVERY = Recovery(backoff_initial=1.0, backoff_max=10.0, attempts=6)
ALMOST_ONE = 1 - 2**-53


def restarts(*, in_vain=0, now=0.0, recovery=RECOVERY):
    """Return a state with so many openings in vain, the last of them now."""
    made = Restarts.of(recovery)
    for _ in range(in_vain):
        made.failed(now)
    return made


def test_the_first_opening_waits_for_nothing():
    assert restarts().delay(5.0, 0.9) == 0.0


@pytest.mark.pain("P04")
def test_after_a_connection_that_answered_a_call_the_next_opens_at_once():
    made = restarts(in_vain=3)
    made.opened(0.0)
    made.lost(0.1, answered=True)
    assert made.delay(0.1, 0.9) == 0.0


@pytest.mark.parametrize(("stood", "has_lived"), [(9.99, False), (10.0, True)])
def test_a_connection_has_lived_when_it_stood_as_long_as_the_longest_delay(
    stood, has_lived
):
    made = restarts(in_vain=1)
    made.opened(100.0)
    made.lost(100.0 + stood)
    assert made.delay(100.0 + stood, 0.5) == (0.0 if has_lived else 1.0)


def test_surviving_the_handshake_is_not_living():
    made = restarts()
    for turn in range(RECOVERY.attempts):
        assert made.delay(turn, 0.0) == 0.0
        made.opened(turn)
        made.lost(turn)
    assert made.delay(99.0, 0.0) is None


def test_an_answer_on_the_connection_before_says_nothing_of_this_one():
    made = restarts()
    made.opened(0.0)
    made.lost(1.0, answered=True)
    made.opened(1.0)
    made.lost(1.0)
    assert made.delay(1.0, 0.5) == 0.5


@pytest.mark.parametrize(
    ("in_vain", "bound"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0)]
)
def test_the_bound_of_the_delay_doubles_and_chance_picks_below_it(in_vain, bound):
    made = restarts(in_vain=in_vain)
    assert made.delay(0.0, 0.0) == 0.0
    assert made.delay(0.0, 0.25) == bound / 4
    assert made.delay(0.0, ALMOST_ONE) < bound


def test_after_so_many_openings_in_vain_there_is_none_until_somebody_connects():
    made = restarts(in_vain=RECOVERY.attempts)
    assert made.delay(0.0, 0.0) is None
    assert made.delay(1e9, 0.0) is None
    made.reset()
    assert made.delay(0.0, 0.9) == 0.0


def test_what_has_passed_since_the_end_is_not_waited_for_again():
    made = restarts(in_vain=3, now=50.0)
    assert made.delay(50.0, 0.5) == 2.0
    assert made.delay(51.5, 0.5) == 0.5
    assert made.delay(53.0, 0.5) == 0.0


def test_the_loss_of_what_does_not_stand_is_nothing_new():
    made = restarts(in_vain=1)
    made.lost(0.0)
    made.opened(0.0)
    made.failed(0.0)
    made.lost(0.0)
    assert made.delay(0.0, 0.5) == 1.0


def test_a_million_attempts_still_have_a_finite_delay():
    made = restarts(in_vain=5_000, recovery=Recovery(attempts=1_000_000))
    assert made.delay(0.0, 0.5) == 15.0


@given(
    st.lists(st.sampled_from(["opened", "failed", "lost", "answered"]), max_size=30),
    st.floats(0, ALMOST_ONE),
)
def test_no_order_of_events_gives_a_delay_out_of_bounds(events, chance):
    made = Restarts.of(RECOVERY)
    for now, event in enumerate(events):
        if event == "answered":
            made.lost(now, answered=True)
        else:
            getattr(made, event)(now)
        delay = made.delay(now, chance)
        assert delay is None or 0.0 <= delay <= RECOVERY.backoff_max


@pytest.mark.parametrize("idempotent", [None, False, True])
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "x/unknown"])
def test_what_never_reached_the_server_may_be_sent_again(method, idempotent):
    assert may_repeat(method, sent=False, idempotent=idempotent)


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


@pytest.mark.parametrize("method", sorted({spec.name for spec in METHODS}))
@pytest.mark.parametrize("idempotent", [False, True])
def test_who_knows_the_request_has_the_last_word(method, idempotent):
    assert may_repeat(method, sent=True, idempotent=idempotent) is idempotent


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
