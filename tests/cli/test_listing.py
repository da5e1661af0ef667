"""What a server says of its tools is cut to what one reads in a list."""

import pytest

from mcpwire.cli.render import MAX_DESCRIPTION, first_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, ""),
        ("", ""),
        (" \n\t\n", ""),
        ("Do it.", "Do it."),
        ("\n  Do it.\nMore.", "Do it."),
        ("x" * 120, "x" * 120),
        (f"Do it. {'Then that. ' * 20}", f"Do it. {'Then that. ' * 8}Then that. ..."),
        ("word " * 50, f"{'word ' * 22}word ..."),
        ("x" * 121, f"{'x' * 116} ..."),
        ("a\x1b\rb", "a\\x1b\\rb"),
    ],
)
def test_the_first_line_of_a_description(text, line):
    assert first_line(text) == line
    assert len(line) <= MAX_DESCRIPTION
