"""Names that a vendor takes, and the way back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.exporters import anthropic, gemini, neutral, openai
from mcpwire.exporters.schemas import NameRule, VendorNames

RULES = [anthropic.FORM.names, openai.CHAT.names, gemini.FORM.names, neutral.FORM.names]


def test_a_name_that_is_taken_stays():
    names = VendorNames(["mcp__time__now", "a-b"], anthropic.FORM.names)
    assert names.of("a-b") == "a-b"
    assert names.find("mcp__time__now") == "mcp__time__now"
    assert names.find("nothing") is None


@pytest.mark.parametrize(
    ("name", "rule", "begins"),
    [
        ("files.read", openai.CHAT.names, "files_read_"),
        ("1st", gemini.FORM.names, "_1st_"),
        ("grüße", anthropic.FORM.names, "gr__e_"),
        ("x" * 65, anthropic.FORM.names, "x" * 55 + "_"),
    ],
)
def test_any_other_is_spelled_anew_and_found_again(name, rule, begins):
    names = VendorNames([name], rule)
    theirs = names.of(name)
    assert theirs.startswith(begins)
    assert len(theirs) <= rule.max_length
    assert names.find(theirs) == name
    assert VendorNames(["other", name], rule).of(name) == theirs


def test_a_name_made_to_look_like_another_ones_spelling_takes_it_from_nobody():
    spelled = VendorNames(["a.b"], openai.CHAT.names).of("a.b")
    names = VendorNames(["a.b", spelled], openai.CHAT.names)
    assert names.of(spelled) == spelled
    assert names.of("a.b") != spelled
    assert names.find(names.of("a.b")) == "a.b"


def test_neutral_takes_every_name():
    names = VendorNames(["grüße an.alle\n", "x" * 500], neutral.FORM.names)
    assert names.of("grüße an.alle\n") == "grüße an.alle\n"


@given(
    st.lists(st.text(alphabet="ab1._- ü", min_size=1, max_size=70), max_size=8),
    st.sampled_from([*RULES, NameRule("a-z", "a-z", 12)]),
)
def test_spelled_names_are_allowed_unique_and_lead_back(names, rule):
    made = VendorNames(names, rule)
    theirs = [made.of(name) for name in dict.fromkeys(names)]
    assert len(set(theirs)) == len(theirs)
    for name in names:
        assert made.find(made.of(name)) == name
        assert len(made.of(name)) <= rule.max_length
        if rule is not neutral.FORM.names and rule.max_length == 64:
            assert re.fullmatch(rf"[{rule.first}][{rule.charset}]*", made.of(name))
