"""Variables in configurations, and files that set variables."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwire.config.document import ExpandedText, expand, read_variables
from mcpwire.wire.urls import mask_url

SET = {"A": "alpha", "B": "${A}", "EMPTY": "", "lower_1": "one", "userHome": ""}


@pytest.mark.system("V04", "L-V11", "L-R13")
@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "alpha"),
        ("Bearer ${A}", "Bearer alpha"),
        ("${A}${lower_1}", "alphaone"),
        ("https://${A}.net/${lower_1}?x=${A}", "https://alpha.net/one?x=alpha"),
        ("${env:A}", "alpha"),
        # The value of a variable is not expanded again.
        ("${B}", "${A}"),
        ("${EMPTY}", ""),
        ("${userHome}", ""),
        # Defaults...
        ("${A:-b}", "alpha"),
        ("${NONE:-b}", "b"),
        ("${NONE:-}", ""),
        ("${EMPTY:-b}", "b"),
        ("${env:NONE:-b}", "b"),
        ("${NONE:-a:-b}", "a:-b"),
        ("${NONE:-{}", "{"),
        ("${NONE:-line\nline}", "line\nline"),
        ("${NONE:-${A}}", "alpha"),
        ("${NONE:-x${NONE:-${A}}y}z", "xalphayz"),
        ("${A:-${NONE}}", "alpha"),
        # ...and literal text.
        ("$A", "$A"),
        ("$", "$"),
        ("$$", "$$"),
        ("a$b{c}", "a$b{c}"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$${", "${"),
        ("${NONE:-$${A}}", "${A}"),
        ("${A:-$${A}}", "alpha"),
    ],
)
def test_variables_are_expanded(text, expanded):
    assert expand(text, SET) == expanded


BY_EDITORS = "is set by editors only: use a variable such as ${NAME}"


@pytest.mark.system("V04", "L-V11", "L-R13")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${NONE}", "the variable NONE is not set"),
        ("${env:NONE}", "the variable NONE is not set"),
        ("${NONE:-${OTHER}}", "the variable OTHER is not set"),
        ("x${hush", "a ${ has no } that closes it ($${ is a literal one)"),
        ("${A:-${hush}", "a ${ has no } that closes it ($${ is a literal one)"),
        ("${}", "a ${ is followed by no variable's name ($${ is a literal one)"),
        ("${1hush}", "a ${ is followed by no variable's name ($${ is a literal one)"),
        ("${hu-sh}", "a ${ is followed by no variable's name ($${ is a literal one)"),
        ("${input:hush}", f"${{input:...}} {BY_EDITORS}"),
        ("${command:hush}", f"${{command:...}} {BY_EDITORS}"),
        ("${file:~/hush}", f"${{file:...}} {BY_EDITORS}"),
        ("${workspaceFolder}", f"${{workspaceFolder}} {BY_EDITORS}"),
        ("${/}", f"${{/}} {BY_EDITORS}"),
        ("${A:-" * 9 + "}" * 9, None),
        ("${N:-" * 9 + "}" * 9, "variables are nested more than 8 deep"),
    ],
)
def test_expansion_error_does_not_show_the_surrounding_text(text, problem):
    if problem is None:
        assert expand(text, SET) == "alpha"
        return
    with pytest.raises(ValueError) as caught:
        expand(text, SET)
    assert str(caught.value) == problem


@settings(deadline=None)  # a first import takes its time
@given(st.text(alphabet="$${}:-AN_e"))
def test_any_text_is_expanded_or_refused(text):
    try:
        expanded = expand(text, SET)
    except ValueError:
        assert "${" in text
    else:
        assert "${" in text or expanded == text


@settings(deadline=None)  # a first import takes its time
@given(st.text(alphabet="$${}:-AN_e"))
def test_text_with_doubled_openings_expands_to_the_original(text):
    assert expand(text.replace("${", "$${"), {}) == text


@settings(deadline=None)  # a first import takes its time
@given(st.text(), st.text())
def test_value_of_a_variable_is_inserted_unchanged(value, around):
    around = around.replace("$", "")
    assert expand(f"{around}${{A}}{around}", {"A": value}) == around + value + around


def test_expanded_text_shows_its_unexpanded_form_in_repr():
    filled = ExpandedText.of("a-s3cret", "a-${KEY}")
    assert filled == "a-s3cret"
    assert [repr(each) for each in (filled, (filled,), copy.deepcopy(filled))] == [
        "'a-${KEY}'",
        "('a-${KEY}',)",
        "'a-${KEY}'",
    ]
    assert mask_url(ExpandedText.of("https://h/s3cret/?q", "https://h/${KEY}/?q")) == (
        "https://h/${KEY}/?***"
    )
    assert type(ExpandedText.of("a", "a")) is str


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
def test_line_of_an_env_file_sets_a_variable(line, value):
    assert read_variables(line) == {"A": value}


@pytest.mark.parametrize("line", ["hush", "1A=hush", "A='hush", 'A="hush', "A='a'hush"])
def test_invalid_line_error_shows_only_the_line_number(line):
    with pytest.raises(ValueError) as caught:
        read_variables(f"A=b\n\n{line}")
    assert str(caught.value) == "line 3 is not NAME=VALUE"
