"""The spelling of `_meta` keys and of the trace values in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.types.meta import (
    TRACE_KEYS,
    is_meta_key,
    is_reserved_meta_key,
    is_trace_value,
)


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


@pytest.mark.rule("META-03")
@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("io.modelcontextprotocol/x", True),
        ("dev.mcp/x", True),
        ("org.modelcontextprotocol.api/", True),
        ("com.mcp.tools/a", True),
        ("com.MCP/a", True),
        ("com.example.mcp/a", False),
        ("mcp/a", False),
        ("mcp.example/a", False),
        ("com.mcpwire/a", False),
        ("com.example/mcp", False),
        ("progressToken", True),
        ("traceparent", True),
        ("tracestate", True),
        ("baggage", True),
        ("com.example/traceparent", False),
        ("other", False),
        ("", False),
    ],
)
def test_the_second_label_decides_whose_a_key_is(key, reserved):
    assert is_reserved_meta_key(key) is reserved


@pytest.mark.rule("TRACE-02")
def test_trace_keys_carry_no_prefix():
    assert TRACE_KEYS == ("traceparent", "tracestate", "baggage")
    assert all(is_meta_key(key) and is_reserved_meta_key(key) for key in TRACE_KEYS)


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
def test_w3c_values_are_taken(key, value):
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
def test_other_values_are_not(key, value):
    assert not is_trace_value(key, value)


@given(st.text(), st.sampled_from(TRACE_KEYS))
def test_any_text_is_judged(text, key):
    assert is_meta_key(text) in {True, False}
    assert is_reserved_meta_key(text) in {True, False}
    assert is_trace_value(key, text) in {True, False}
