"""One line about a call for whoever is to confirm it."""

import pytest

from mcpwire.tools.transforms import preview


@pytest.mark.system("V40")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (None, ""),
        ({}, ""),
        ({"count": 3}, ""),
        ({"b": "second", "a": "x"}, "second"),
        ({"other": "x", "input": "i"}, "i"),
        ({"input": "i", "command": "c"}, "c"),
        ({"command": "c", "id": "7"}, "7"),
        ({"id": "7", "name": "n"}, "n"),
        ({"name": "n", "url": "u"}, "u"),
        ({"url": "u", "sql": "s"}, "s"),
        ({"sql": "s", "query": "q"}, "q"),
        ({"query": "q", "path": "p"}, "p"),
        ({"path": 7, "query": "q"}, "q"),
        ({"path": "", "x": "y"}, "y"),
        ({"path": "a\nb\t\x1b[31m  c"}, "a b [31m c"),
        ({"path": "x" * 80}, "x" * 80),
        ({"path": "x" * 81}, "x" * 77 + "..."),
        ({"path": "x" * 1_000_000}, "x" * 77 + "..."),
        ({"path": "a" + " " * 400 + "b"}, "a..."),
    ],
)
def test_the_most_telling_text_is_shown_on_one_line(arguments, line):
    assert preview(arguments) == line
