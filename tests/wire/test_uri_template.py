"""URI templates read: RFC 6570, all four levels."""

import pytest

from mcpwire.wire.uri_template import (
    MAX_LENGTH,
    TemplateError,
    UriTemplate,
    encode_literal,
    is_uri,
)


def test_what_no_uri_may_hold_is_encoded_in_literals():
    assert encode_literal("a b%20'[]") == "a%20b%20'[]"
    assert encode_literal("\u00e9/%20/%4") == "%C3%A9/%20/%254"


MALFORMED = {
    "a brace that stays open": ("a://{x", 4, "the brace is never closed"),
    "a brace that was never opened": ("a://x}", 5, "'}' must be percent-encoded"),
    "no variable": ("a://{}", 5, "a variable needs a name"),
    "an operator alone": ("a://{+}", 6, "a variable needs a name"),
    "a comma too many": ("a://{x,}", 7, "a variable needs a name"),
    "an operator that is kept for later": ("{=x}", 1, "a variable needs a name"),
    "a brace within": ("{a{b}}", 2, "'{b' may not follow a variable's name"),
    "a space in a name": ("{a b}", 2, "' b' may not follow a variable's name"),
    "a dot at the end": ("{a.}", 2, "'.' may not follow a variable's name"),
    "a prefix of nothing": ("{a:0}", 2, "':0' may not follow a variable's name"),
    "a prefix too long": ("{a:10000}", 2, "':10000' may not follow"),
    "two modifiers": ("{b,a:3*}", 4, "':3*' may not follow a variable's name"),
    "a space": ("a://x y", 5, "' ' must be percent-encoded"),
    "a control character": ("{x}\n", 3, "'\\n' must be percent-encoded"),
    "half an escape": ("a://%4/{x}", 4, "'%' must be percent-encoded"),
    "too much of it": ("a" * (MAX_LENGTH + 1), MAX_LENGTH, "the template is too long"),
}


@pytest.mark.case("F13")
@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_template_is_refused_with_its_place(case):
    text, position, problem = MALFORMED[case]
    with pytest.raises(TemplateError) as caught:
        UriTemplate(text)
    assert (caught.value.position, caught.value.template) == (position, text)
    assert str(caught.value).startswith(problem)
    assert len(str(caught.value)) < 250


def test_a_template_tells_its_variables_once_each_in_their_order():
    template = UriTemplate("a://{b}{/a*,b:3}{?c.d,%20}")
    assert template.names == ("b", "a", "c.d", "%20")
    assert [e.operator for e in template.expressions] == ["", "/", "?"]
    assert repr(template) == "UriTemplate('a://{b}{/a*,b:3}{?c.d,%20}')"


URIS = ["a:", "file:///a/b", "urn:x:y", "x+y.z-1://h/p?q=%41#f", "s://[::1]/'()*;"]
NO_URIS = [
    "",
    "a",
    "/a/b",
    "1a:b",
    ":a",
    "a:b c",
    "a:é",
    "a:%4",
    "a:{x}",
    "a:\n",
    "a:|",
]


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("text", URIS)
def test_a_uri_is_known(text):
    assert is_uri(text)


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("text", [*NO_URIS, "a:" + "x" * MAX_LENGTH])
def test_what_is_no_uri_is_told_from_one(text):
    assert not is_uri(text)
