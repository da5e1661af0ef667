"""`_meta`: its typed forms, and the syntax of its keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcpwire.types._base as meta
from mcpwire import types
from mcpwire.types import decode, encode
from mcpwire.types._base import TRACE_KEYS, is_meta_key

REQUEST = {
    meta.PROTOCOL_VERSION: "2026-07-28",
    meta.CLIENT_CAPABILITIES: {"elicitation": {}},
    meta.CLIENT_INFO: {"name": "a", "version": "1"},
    meta.LOG_LEVEL: "info",
    "progressToken": 0,
    "com.example/more": [1],
}


@pytest.mark.rule("META-06")
def test_request_meta_has_a_typed_form():
    typed = decode(types.RequestMetaObject, REQUEST)
    assert typed.protocol_version == "2026-07-28"
    assert typed.client_capabilities.elicitation == types.ElicitationCapability()
    assert typed.client_info == types.Implementation("a", "1")
    assert typed.progress_token == 0
    assert typed.extra == {"com.example/more": [1]}
    assert encode(typed) == REQUEST


@pytest.mark.rule("SUB-06")
@pytest.mark.parametrize("subscription", [5, "5", 0, ""])
def test_subscription_is_identified_by_its_request_id(subscription):
    value = {meta.SUBSCRIPTION_ID: subscription}
    for cls in (
        types.NotificationMetaObject,
        types.SubscriptionsListenResultMetaObject,
    ):
        typed = decode(cls, value)
        assert typed.subscription_id == subscription
        assert type(typed.subscription_id) is type(subscription)
        assert encode(typed) == value


@pytest.mark.rule("META-03")
def test_protocol_keys_are_valid_and_reserved():
    keys = [
        *(meta.PROTOCOL_VERSION, meta.CLIENT_CAPABILITIES, meta.CLIENT_INFO),
        *(meta.LOG_LEVEL, meta.SERVER_INFO, meta.SUBSCRIPTION_ID, meta.RELATED_TASK),
    ]
    assert all(is_meta_key(key) for key in (*keys, *meta.TRACE_KEYS))
    assert all(key.startswith("io.modelcontextprotocol/") for key in keys)


@pytest.mark.rule("META-01", "META-02")
@pytest.mark.parametrize(
    "key",
    [
        *("progressToken", "a", "A9", "a-b_c.d", "", "com.example/", "com.example/a"),
        *("c0m/a.b", "a-b.c--d/e", "io.modelcontextprotocol/clientInfo"),
    ],
)
def test_key_is_an_optional_prefix_and_a_name(key):
    assert is_meta_key(key)


@pytest.mark.rule("META-01", "META-02")
@pytest.mark.parametrize(
    "key",
    [
        *("/a", ".com/a", "com./a", "com..b/a", "1com/a", "-com/a", "com-/a"),
        *("com_b/a", "com/a/b", "a ", "-a", "a-", "_a", "a.", ".a", "com/.a"),
        *("ü", "a\n"),
        "a" * 50_000 + "!",
        "a." * 50_000 + "!",
    ],
    ids=lambda key: ascii(key)[:12],
)
def test_other_text_is_not_a_key(key):
    assert not is_meta_key(key)


@pytest.mark.rule("TRACE-02")
def test_trace_keys_carry_no_prefix():
    assert TRACE_KEYS == ("traceparent", "tracestate", "baggage")
    assert all(map(is_meta_key, TRACE_KEYS))


@given(st.text())
def test_any_text_is_a_key_or_not(text):
    assert is_meta_key(text) in {True, False}
