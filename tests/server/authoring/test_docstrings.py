"""Parameter descriptions come from docstrings of three styles; none raises an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.server.authoring.signature import read_docstring

GOOGLE = """Find places.

    Near the given one.

    Args:
        city: Where to look,
            and around it.
        days (int): How many.
        *rest: More.
        bare:

    Returns:
        The places.
    """

NUMPY = """Find places.

    Parameters
    ----------
    city : str
        Where to look,
        and around it.
    days, nights : int, optional
        How many.

    Returns
    -------
    list
        The places.
    """

SPHINX = """Find places.

    :param city: Where to look,
        and around it.
    :param int days: How many.
    :type days: int
    :returns: The places.
    """


@pytest.mark.parametrize(
    ("text", "description", "found"),
    [
        (
            GOOGLE,
            "Find places.\n\nNear the given one.\n\n\nReturns:\n    The places.",
            {
                "city": "Where to look, and around it.",
                "days": "How many.",
                "rest": "More.",
            },
        ),
        (
            NUMPY,
            "Find places.\n\nReturns\n-------\nlist\n    The places.",
            {
                "city": "Where to look, and around it.",
                "days": "How many.",
                "nights": "How many.",
            },
        ),
        (
            SPHINX,
            "Find places.\n\n:returns: The places.",
            {"city": "Where to look, and around it.", "days": "How many."},
        ),
        ("\nParameters\n---\nx\n    The x.", None, {"x": "The x."}),
        ("Plain.", "Plain.", {}),
        ("\nArgs:\n    x: The x.", None, {"x": "The x."}),
        ("Args: are not listed here.", "Args: are not listed here.", {}),
        ("Args:\nnothing indented", "Args:\nnothing indented", {}),
        ("\nArgs:\n    no colon here\n    x: One.", None, {"x": "One."}),
        ("\nNote:\n    x: no parameter.", "Note:\n    x: no parameter.", {}),
        (":type x: int\nText.", "Text.", {}),
        ("", None, {}),
        ("   \n  ", None, {}),
        (None, None, {}),
    ],
)
def test_parameter_descriptions_are_separated_from_the_text(text, description, found):
    assert read_docstring(text) == (description, found)


def test_long_docstring_line_takes_linear_time():
    line = ":param " + "a " * 500_000
    description, found = read_docstring(f"Text.\n{line}\nMore.")
    assert description is not None
    assert found == {}


PIECES = st.sampled_from(
    [
        "Args:",
        "Parameters",
        "----",
        ":param x: y",
        "  x: y",
        "    z",
        "",
        ":type x:",
        "a",
    ]
)


@given(st.lists(PIECES | st.text(max_size=20), max_size=12).map("\n".join))
def test_random_docstring_raises_no_error(text):
    description, found = read_docstring(text)
    assert description is None or description.strip()
    assert all(isinstance(line, str) and line for line in found.values())
