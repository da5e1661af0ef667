"""Globs: which tools are allowed, and which need somebody's word."""

import pytest

from mcpwire.tools.rules import (
    Rules,
    ServerRules,
    as_patterns,
    first_match,
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
