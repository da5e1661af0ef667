"""Globs of allowed tools and of calls to confirm; trace context of calls."""

from __future__ import annotations

import pytest

from mcpwire.tools.rules import (
    Rules,
    ServerRules,
    as_patterns,
    first_match,
    with_trace_argument,
    with_trace_meta,
)

KEYS = ("mcp__files__read", "files/read")


@pytest.mark.system("V12", "L-V7")
@pytest.mark.parametrize(
    ("rules", "refusal"),
    [
        ({}, None),
        ({"allow": "files/*"}, None),
        ({"allow": ["web/*", "files/read"]}, None),
        ({"allow": "mcp__files__*"}, None),
        ({"allow": "web/*"}, "no pattern of allow fits it"),
        ({"allow": "read"}, "no pattern of allow fits it"),
        ({"allow": "files/READ"}, "no pattern of allow fits it"),
        ({"deny": "files/re?d"}, "deny: files/re?d"),
        ({"deny": ["x", "*"]}, "deny: *"),
        ({"allow": "*", "deny": "files/[qr]*"}, "deny: files/[qr]*"),
        ({"deny": "web/*"}, None),
    ],
)
def test_what_is_denied_or_not_among_the_allowed_is_refused(rules, refusal):
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
def test_calls_need_confirmation_as_the_rule_says(confirm, only_reads, asks):
    assert Rules(confirm=confirm).asks(KEYS, only_reads=only_reads) is asks


def test_one_pattern_is_a_string_or_a_list_of_one():
    assert as_patterns("a*") == as_patterns(["a*"]) == ("a*",)
    assert first_match(as_patterns("a*"), ["ba", "ab"]) == "a*"
    with pytest.raises(TypeError, match="a pattern must be a string, got 7"):
        as_patterns([7])


def test_a_servers_rules_say_nothing_by_default():
    rules = ServerRules()
    assert rules.refusal(KEYS) is None
    assert not rules.asks(KEYS, only_reads=False)
    assert (rules.strip_arguments, rules.trace_context, rules.trace_argument) == (
        (),
        None,
        None,
    )


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
