"""A question finds its call, or nobody is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InternalError
from mcpwire.gateway.translation import CANCEL_GRACE_S, InFlightCalls


def test_the_only_call_is_the_one():
    in_flight = InFlightCalls()
    in_flight.add("a")
    assert in_flight.owner(None, 0.0) == "a"
    in_flight.finish("a")
    with pytest.raises(InternalError, match="no call is under way"):
        in_flight.owner(None, 0.0)


def test_of_several_calls_the_transport_says_which():
    in_flight = InFlightCalls()
    first, second = object(), object()
    in_flight.add(first)
    in_flight.add(second)
    assert in_flight.owner(second, 0.0) is second
    with pytest.raises(InternalError, match="2 calls are under way"):
        in_flight.owner(None, 0.0)
    in_flight.finish(second)
    with pytest.raises(InternalError, match="is over"):
        in_flight.owner(second, 0.0)


def test_a_call_that_was_given_up_still_counts_for_a_while():
    in_flight = InFlightCalls()
    in_flight.add("gone")
    in_flight.add("here")
    in_flight.cancel("gone", 10.0)
    with pytest.raises(InternalError, match="2 calls are under way"):
        in_flight.owner(None, 10.0)
    assert in_flight.sole(10.0) is None
    assert in_flight.sole(10.0 + CANCEL_GRACE_S) == "here"
    assert in_flight.owner(None, 10.0 + CANCEL_GRACE_S) == "here"
    in_flight.cancel("here", 20.0)
    assert in_flight.sole(20.0) is None


def test_a_call_that_was_answered_cannot_be_given_up():
    in_flight = InFlightCalls()
    in_flight.add("here")
    in_flight.cancel("answered", 10.0)
    assert in_flight.owner(None, 10.0) == "here"


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "end", "give up"]), st.integers(0, 3)),
        max_size=30,
    )
)
def test_never_is_a_call_guessed_while_another_could_have_asked(steps):
    in_flight, open_calls, given_up = InFlightCalls(), set(), []
    for now, (step, call) in enumerate(steps):
        if step == "begin" and call not in open_calls:
            in_flight.add(call)
            open_calls.add(call)
        elif step == "end":
            in_flight.finish(call)
            open_calls.discard(call)
        elif step == "give up" and call in open_calls:
            in_flight.cancel(call, float(now))
            open_calls.discard(call)
            given_up.append(now + CANCEL_GRACE_S)
        lingering = [end for end in given_up if end > now]
        try:
            found = in_flight.owner(None, float(now))
        except InternalError:
            assert len(open_calls) + len(lingering) != 1 or lingering
        else:
            assert {found} == open_calls
            assert not lingering
