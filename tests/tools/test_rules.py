"""Globs of allowed tools and of calls to confirm; trace context of calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.tools.rules import (
    Rules,
    as_patterns,
    first_match,
    is_trace_value,
    with_trace_argument,
    with_trace_meta,
)
from mcpwire.types._base import TRACE_KEYS

KEYS = ("mcp__files__read", "files/read")


@pytest.mark.system("V12", "L-V7")
@pytest.mark.parametrize(
    ("rules", "refusal"),
    [
        ({}, None),
        ({"allow": "files/*"}, None),
        ({"allow": ["web/*", "files/read"]}, None),
        ({"allow": "mcp__files__*"}, None),
        ({"allow": "web/*"}, "no pattern of allow matches it"),
        ({"allow": "read"}, "no pattern of allow matches it"),
        ({"allow": "files/READ"}, "no pattern of allow matches it"),
        ({"deny": "files/re?d"}, "deny: files/re?d"),
        ({"deny": ["x", "*"]}, "deny: *"),
        ({"allow": "*", "deny": "files/[qr]*"}, "deny: files/[qr]*"),
        ({"deny": "web/*"}, None),
    ],
)
def test_denied_or_not_allowed_tool_is_refused(rules, refusal):
    assert Rules(**rules).refusal(KEYS) == refusal


@pytest.mark.system("V13")
@pytest.mark.parametrize(
    ("confirm", "only_reads", "asks"),
    [
        ((), False, False),
        (False, False, False),
        (True, True, True),
        ("mutating", True, False),
        ("mutating", False, True),
        ("files/*", True, True),
        (["web/*", "mcp__files__read"], False, True),
        (["web/*"], False, False),
    ],
)
def test_confirm_rule_decides_on_confirmation(confirm, only_reads, asks):
    assert (
        Rules(confirm=confirm).needs_confirmation(KEYS, only_reads=only_reads) is asks
    )


def test_patterns_may_be_a_string_or_a_list():
    assert as_patterns("a*") == as_patterns(["a*"]) == ("a*",)
    assert first_match(as_patterns("a*"), ["ba", "ab"]) == "a*"
    with pytest.raises(TypeError, match="a pattern must be a string, got 7"):
        as_patterns([7])


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"
CARRIER = {"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v", "run_id": "7"}


@pytest.mark.rule("TRACE-01", "TRACE-02")
@pytest.mark.system("U37", "L-A16")
@pytest.mark.parametrize(
    ("meta", "carrier", "result"),
    [
        (None, CARRIER, {"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v"}),
        ({"x": 1}, {"baggage": "k=v"}, {"x": 1, "baggage": "k=v"}),
        # The caller's values are kept, and not mixed with others.
        ({"traceparent": OTHER}, CARRIER, {"traceparent": OTHER, "baggage": "k=v"}),
        ({"tracestate": "x=y"}, CARRIER, {"tracestate": "x=y", "baggage": "k=v"}),
        ({"baggage": "mine=1"}, {"baggage": "k=v"}, {"baggage": "mine=1"}),
        # Values that W3C does not allow are not sent.
        ({"x": 1}, {"traceparent": "00-0-0-0", "tracestate": "a=b"}, {"x": 1}),
        (None, {"tracestate": "a=b"}, None),
        (None, {"baggage": 7}, None),
        (None, {"run_id": "7"}, None),
        (None, {}, None),
    ],
)
def test_trace_meta_adds_valid_keys_and_keeps_the_callers(meta, carrier, result):
    assert with_trace_meta(meta, carrier) == result


@pytest.mark.system("A61")
@pytest.mark.parametrize(
    ("arguments", "carrier", "result"),
    [
        ({"a": 1}, CARRIER, {"a": 1, "__ab_obs": CARRIER}),
        ({}, {"run_id": "7", "agent": None}, {"__ab_obs": {"run_id": "7"}}),
        ({"__ab_obs": "mine"}, CARRIER, {"__ab_obs": "mine"}),
        ({}, {"agent": None}, {}),
        ({}, {}, {}),
    ],
)
def test_trace_argument_is_added_unless_the_caller_sets_it(arguments, carrier, result):
    assert with_trace_argument(arguments, "__ab_obs", carrier) == result


# The values that W3C allows for trace context...


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
GOOD = {
    "traceparent": [
        f"00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-ff",
        f"01-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-what-comes",
    ],
    "tracestate": [
        "",
        "rojo=00f067aa0ba902b7",
        "rojo=1,congo=t61rcWkgMzE",
        "a=1 , b=2\t,,c= x",
        "tenant@system=1",
        "1a=x",
        ",".join(f"k{n}=v" for n in range(32)),
        f"{'a' * 256}={'x' * 256}",
    ],
    "baggage": [
        "userId=alice",
        "k1=v1,k2=v2;p1;p2=x",
        "k = v ; p = q\t, b=",
        "serverNode=DF%2028",
        "a=b=c",
    ],
}


@pytest.mark.rule("TRACE-01")
@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key in GOOD for value in GOOD[key]]
)
def test_valid_w3c_trace_values_are_accepted(key, value):
    assert is_trace_value(key, value)


BAD = {
    "traceparent": [
        "",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}",
        f"01-{TRACE}-{PARENT}-01more",
        f" 00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        None,
        1,
    ],
    "tracestate": [
        "a",
        "a=",
        "=1",
        "A=1",
        "a=1,a=2",
        "a=b=c",
        "a=ü",
        "a=1\n",
        ",".join(f"k{n}=v" for n in range(33)),
        f"{'a' * 257}=x",
        f"a={'x' * 257}",
        ["a=1"],
    ],
    "baggage": [
        "",
        "a",
        "a=b,",
        "a b=c",
        "a=b c",
        'a="b"',
        "a=b;",
        "a=b;p=x y",
        "a=ü",
        "a=b\\c",
        {},
    ],
}


@pytest.mark.rule("TRACE-01")
@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key in BAD for value in BAD[key]]
)
def test_invalid_w3c_trace_values_are_refused(key, value):
    assert not is_trace_value(key, value)


@given(st.text(), st.sampled_from(TRACE_KEYS))
def test_trace_value_check_returns_a_bool_for_any_text(text, key):
    assert is_trace_value(key, text) in {True, False}
