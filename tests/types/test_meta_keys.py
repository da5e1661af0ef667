"""The spelling of `_meta` keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.types._base import TRACE_KEYS, is_meta_key


@pytest.mark.rule("META-01", "META-02")
@pytest.mark.parametrize(
    "key",
    [
        "progressToken",
        "a",
        "A9",
        "a-b_c.d",
        "",
        "com.example/",
        "com.example/a",
        "c0m/a.b",
        "a-b.c--d/e",
        "io.modelcontextprotocol/clientInfo",
    ],
)
def test_a_key_is_an_optional_prefix_and_a_name(key):
    assert is_meta_key(key)


@pytest.mark.rule("META-01", "META-02")
@pytest.mark.parametrize(
    "key",
    [
        "/a",
        ".com/a",
        "com./a",
        "com..b/a",
        "1com/a",
        "-com/a",
        "com-/a",
        "com_b/a",
        "com/a/b",
        "a ",
        "-a",
        "a-",
        "_a",
        "a.",
        ".a",
        "com/.a",
        "ü",
        "a\n",
        "a" * 50_000 + "!",
        "a." * 50_000 + "!",
    ],
    ids=lambda key: ascii(key)[:12],
)
def test_anything_else_is_no_key(key):
    assert not is_meta_key(key)


@pytest.mark.rule("TRACE-02")
def test_trace_keys_carry_no_prefix():
    assert TRACE_KEYS == ("traceparent", "tracestate", "baggage")
    assert all(map(is_meta_key, TRACE_KEYS))


@given(st.text())
def test_any_text_is_judged(text):
    assert is_meta_key(text) in {True, False}
