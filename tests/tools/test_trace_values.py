"""The values that W3C allows for trace context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.tools.rules import is_trace_value
from mcpwire.types._base import TRACE_KEYS

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
    assert is_trace_value(key, text) in {True, False}
