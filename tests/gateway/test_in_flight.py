"""A question finds its call, or nobody is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InternalError
from mcpwire.gateway.in_flight import LINGERS_S, Flight


def test_the_only_call_is_the_one():
    flight = Flight()
    flight.begin("a")
    assert flight.whose(None, 0.0) == "a"
    flight.end("a")
    with pytest.raises(InternalError, match="no call is under way"):
        flight.whose(None, 0.0)


def test_of_several_calls_the_transport_says_which():
    flight = Flight()
    first, second = object(), object()
    flight.begin(first)
    flight.begin(second)
    assert flight.whose(second, 0.0) is second
    with pytest.raises(InternalError, match="2 calls are under way"):
        flight.whose(None, 0.0)
    flight.end(second)
    with pytest.raises(InternalError, match="is over"):
        flight.whose(second, 0.0)


def test_a_call_that_was_given_up_still_counts_for_a_while():
    flight = Flight()
    flight.begin("gone")
    flight.begin("here")
    flight.give_up("gone", 10.0)
    with pytest.raises(InternalError, match="2 calls are under way"):
        flight.whose(None, 10.0)
    assert flight.only(10.0) is None
    assert flight.only(10.0 + LINGERS_S) == "here"
    assert flight.whose(None, 10.0 + LINGERS_S) == "here"
    flight.give_up("here", 20.0)
    assert flight.only(20.0) is None


def test_a_call_that_was_answered_cannot_be_given_up():
    flight = Flight()
    flight.begin("here")
    flight.give_up("answered", 10.0)
    assert flight.whose(None, 10.0) == "here"


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "end", "give up"]), st.integers(0, 3)),
        max_size=30,
    )
)
def test_never_is_a_call_guessed_while_another_could_have_asked(steps):
    flight, open_calls, given_up = Flight(), set(), []
    for now, (step, call) in enumerate(steps):
        if step == "begin" and call not in open_calls:
            flight.begin(call)
            open_calls.add(call)
        elif step == "end":
            flight.end(call)
            open_calls.discard(call)
        elif step == "give up" and call in open_calls:
            flight.give_up(call, float(now))
            open_calls.discard(call)
            given_up.append(now + LINGERS_S)
        lingering = [end for end in given_up if end > now]
        try:
            found = flight.whose(None, float(now))
        except InternalError:
            assert len(open_calls) + len(lingering) != 1 or lingering
        else:
            assert {found} == open_calls
            assert not lingering
