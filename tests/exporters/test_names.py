"""Tool names as a vendor allows them, and the reverse mapping."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.exporters import anthropic, gemini, neutral, openai
from mcpwire.exporters.schemas import NameRule, VendorNames

RULES = [anthropic.FORM.names, openai.CHAT.names, gemini.FORM.names, neutral.FORM.names]


def test_allowed_name_is_kept():
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
def test_disallowed_name_is_rewritten_and_maps_back(name, rule, begins):
    names = VendorNames([name], rule)
    vendor_name = names.of(name)
    assert vendor_name.startswith(begins)
    assert len(vendor_name) <= rule.max_length
    assert names.find(vendor_name) == name
    assert VendorNames(["other", name], rule).of(name) == vendor_name


def test_tool_named_like_a_rewritten_name_does_not_shadow_the_other():
    rewritten = VendorNames(["a.b"], openai.CHAT.names).of("a.b")
    names = VendorNames(["a.b", rewritten], openai.CHAT.names)
    assert names.of(rewritten) == rewritten
    assert names.of("a.b") != rewritten
    assert names.find(names.of("a.b")) == "a.b"


def test_neutral_form_keeps_every_name():
    names = VendorNames(["grüße an.alle\n", "x" * 500], neutral.FORM.names)
    assert names.of("grüße an.alle\n") == "grüße an.alle\n"


@given(
    st.lists(st.text(alphabet="ab1._- ü", min_size=1, max_size=70), max_size=8),
    st.sampled_from([*RULES, NameRule("a-z", "a-z", 12)]),
)
def test_vendor_names_are_allowed_unique_and_reversible(names, rule):
    made = VendorNames(names, rule)
    vendor_names = [made.of(name) for name in dict.fromkeys(names)]
    assert len(set(vendor_names)) == len(vendor_names)
    for name in names:
        assert made.find(made.of(name)) == name
        assert len(made.of(name)) <= rule.max_length
        if rule is not neutral.FORM.names and rule.max_length == 64:
            assert re.fullmatch(rf"[{rule.first}][{rule.charset}]*", made.of(name))
