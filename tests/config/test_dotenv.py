"""Files of NAME=VALUE lines."""

import pytest

from mcpwire.config.expansion import read_variables


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("A=", ""),
        ("  A = b c  ", "b c"),
        ("export A=b", "b"),
        ("A=b # note", "b"),
        ("A=b#c", "b#c"),
        ("A= # note", ""),
        ("A='b # c'", "b # c"),
        ("A='b' # c", "b"),
        ("A='${B}'", "${B}"),
        ('A="b\\n\\"c\\"\\\\"', 'b\n"c"\\'),
        ("A=''", ""),
        ("A=b=c==", "b=c=="),
        ("A=1\nA=2", "2"),
        ("\ufeffA=b\r\n", "b"),
        ("\n# note\n\n   # note\nA=b\n", "b"),
    ],
)
def test_a_line_sets_a_variable(line, value):
    assert read_variables(line) == {"A": value}


@pytest.mark.parametrize("line", ["hush", "1A=hush", "A='hush", 'A="hush', "A='a'hush"])
def test_any_other_line_is_refused_by_its_number_only(line):
    with pytest.raises(ValueError) as caught:
        read_variables(f"A=b\n\n{line}")
    assert str(caught.value) == "line 3 is not NAME=VALUE"
