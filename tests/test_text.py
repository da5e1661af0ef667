"""Values in sentences stay short."""

import pytest

from mcpwire._text import excerpt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("", "''"),
        ("a" * 40, repr("a" * 40)),
        ("a" * 41, repr("a" * 40 + "…")),
        ("\n", "'\\n'"),
        (None, "None"),
        (True, "True"),
        (1.5, "1.5"),
        (10**50, "a huge int"),
        ([1], "a value of type list"),
        (b"a", "a value of type bytes"),
    ],
)
def test_excerpt_of_any_value_is_short(value, text):
    assert excerpt(value) == text
