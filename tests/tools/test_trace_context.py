"""Trace context: three keys of `_meta`, and an argument where that is wanted."""

import pytest

from mcpwire.tools.rules import with_trace_argument, with_trace_meta

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"
CARRIER = {"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v", "run_id": "7"}


@pytest.mark.rule("TRACE-01", "TRACE-02")
@pytest.mark.system("U37", "L-A16")
@pytest.mark.parametrize(
    ("meta", "carrier", "result"),
    [
        (
            None,
            CARRIER,
            {"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v"},
        ),
        ({"x": 1}, {"baggage": "k=v"}, {"x": 1, "baggage": "k=v"}),
        # The caller's own are kept, and not mixed with others.
        (
            {"traceparent": OTHER},
            CARRIER,
            {"traceparent": OTHER, "baggage": "k=v"},
        ),
        ({"tracestate": "x=y"}, CARRIER, {"tracestate": "x=y", "baggage": "k=v"}),
        ({"baggage": "mine=1"}, {"baggage": "k=v"}, {"baggage": "mine=1"}),
        # What W3C does not allow is not sent.
        ({"x": 1}, {"traceparent": "00-0-0-0", "tracestate": "a=b"}, {"x": 1}),
        (None, {"tracestate": "a=b"}, None),
        (None, {"baggage": 7}, None),
        (None, {"run_id": "7"}, None),
        (None, {}, None),
    ],
)
def test_valid_keys_go_along_and_the_callers_own_stay(meta, carrier, result):
    assert with_trace_meta(meta, carrier) == result


@pytest.mark.system("A61")
@pytest.mark.parametrize(
    ("arguments", "carrier", "result"),
    [
        ({"a": 1}, CARRIER, {"a": 1, "__ab_obs": CARRIER}),
        (None, {"run_id": "7", "agent": None}, {"__ab_obs": {"run_id": "7"}}),
        ({"__ab_obs": "mine"}, CARRIER, {"__ab_obs": "mine"}),
        (None, {}, None),
        (None, {"agent": None}, None),
        ({}, {}, {}),
    ],
)
def test_an_argument_holds_all_that_is_known_unless_the_caller_has_it(
    arguments, carrier, result
):
    assert with_trace_argument(arguments, "__ab_obs", carrier) == result
