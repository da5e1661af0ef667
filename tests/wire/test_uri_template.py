"""URI templates read and expanded: RFC 6570, all four levels."""

import pytest
import uritemplate
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.wire.uri_template import (
    MAX_LENGTH,
    TemplateError,
    UriTemplate,
    encode_literal,
    is_uri,
)

# The values of RFC 6570, 3.2.1.
VALUES = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "blank": [""],
    "empty_keys": {},
    "undef": None,
}

EXPANDED = {
    "simple": ("{var}/{hello}/{half}", "value/Hello%20World%21/50%25"),
    "several": ("map?{x,y}", "map?1024,768"),
    "undefined between": ("?{x,undef,y}", "?1024,768"),
    "empty": ("O{empty}X{undef}", "OX"),
    "reserved": ("{+base}index", "http://example.com/home/index"),
    "reserved, several": ("{+x,hello,y}", "1024,Hello%20World!,768"),
    "fragment": ("{#path,x}/here", "#/foo/bar,1024/here"),
    "fragment, empty": ("foo{#empty}", "foo#"),
    "fragment, undefined": ("foo{#undef}", "foo"),
    "label": ("X{.x,y}", "X.1024.768"),
    "segment": ("{/var,x}/here", "/value/1024/here"),
    "segment, prefix": ("{/var:1,var}", "/v/value"),
    "segment, exploded": ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
    "matrix": ("{;x,y,empty}", ";x=1024;y=768;empty"),
    "matrix, exploded": ("{;list*}", ";list=red;list=green;list=blue"),
    "matrix, keys": ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
    "query": ("{?x,y,empty}", "?x=1024&y=768&empty="),
    "query, list": ("{?list}", "?list=red,green,blue"),
    "query, keys": ("{?keys}", "?keys=semi,%3B,dot,.,comma,%2C"),
    "query, keys exploded": ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
    "query, nothing": ("a{?empty_keys,undef}", "a"),
    "continued": ("?fixed=yes{&x,undef}", "?fixed=yes&x=1024"),
    "list": ("{count}", "one,two,three"),
    "list, exploded label": ("www{.dom*}", "www.example.com"),
    "keys exploded": ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
    "keys, reserved": ("{+keys*}", "semi=;,dot=.,comma=,"),
    "a list of nothing but an empty text": (
        "{;blank}{?blank*}{/blank*}",
        ";blank=?blank=/",
    ),
    "prefix": ("{var:3}", "val"),
    "prefix, longer": ("{var:30}", "value"),
    "prefix of what is encoded": ("{half:3}{+half:3}", "50%2550%25"),
}


@pytest.mark.rule("RES-14")
@pytest.mark.case("F13")
@pytest.mark.parametrize("case", EXPANDED)
def test_a_template_is_expanded_as_the_rfc_has_it(case):
    template, uri = EXPANDED[case]
    assert UriTemplate(template).expand(VALUES) == uri


SCALARS = {
    "a truth": (True, "true"),
    "a lie": (False, "false"),
    "an integer": (7, "7"),
    "a fraction": (0.5, "0.5"),
    "a list of them": ([1, None, True], "1,true"),
    "a tuple": (("a", "b"), "a,b"),
    "a mapping": ({"a": 1, "b": None}, "a,1"),
    "a mapping with an empty value": ({"a": ""}, "a,"),
}


@pytest.mark.parametrize("case", SCALARS)
def test_values_other_than_texts_have_one_spelling(case):
    value, uri = SCALARS[case]
    assert UriTemplate("{value}").expand({"value": value}) == uri


def test_an_exploded_mapping_keeps_its_empty_values():
    values = {"m": {"a": "", "b": "1"}}
    expanded = [UriTemplate(f"{{{op}m*}}").expand(values) for op in ("", ";", "?")]
    assert expanded == ["a=,b=1", ";a;b=1", "?a=&b=1"]


def test_what_no_uri_may_hold_is_encoded_in_literals():
    template = UriTemplate("é/%20/{+x}")
    assert template.expand({"x": "ü%41%4"}) == "%C3%A9/%20/%C3%BC%41%254"
    assert encode_literal("a b%20'[]") == "a%20b%20'[]"


UNFIT = {
    "an object": object(),
    "a list of lists": [["a"]],
    "bytes": b"a",
    "a mapping of lists": {"a": []},
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_value_that_no_uri_can_hold_is_refused(case):
    with pytest.raises(TypeError, match="a URI cannot hold a "):
        UriTemplate("{x}").expand({"x": UNFIT[case]})


@pytest.mark.parametrize("value", [["a"], {"a": "b"}])
def test_a_prefix_is_one_of_a_text(value):
    with pytest.raises(TypeError, match="'x' must be a text"):
        UriTemplate("{x:3}").expand({"x": value})


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


def test_names_with_dots_and_escapes_expand():
    template = UriTemplate("{c.d}{?%20}")
    assert template.expand({"c.d": "1", "%20": "2"}) == "1?%20=2"


NAMES = ["a", "b", "c", "d"]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
FULL = TEXTS.filter(bool)  # the other one has ";x=" for an empty member, not ";x"
MEMBERS = st.one_of(
    st.none(),
    TEXTS,
    st.lists(FULL, max_size=3),
    # The other one sorts the keys, which the RFC leaves open.
    st.dictionaries(FULL, FULL, max_size=3).map(
        lambda drawn: dict(sorted(drawn.items()))
    ),
)


@st.composite
def templates(draw):
    """Draw a template, and values that fit it."""
    values = {name: draw(MEMBERS) for name in NAMES}
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        parts.append(draw(st.sampled_from(["", "x", "a/b?c=", "%41", "-"])))
        operator = draw(st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]))
        variables = []
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)):
            endings = (
                ["", "*"] if isinstance(values[name], (list, dict)) else ["", ":2"]
            )
            variables.append(name + draw(st.sampled_from(endings)))
        parts.append("{" + operator + ",".join(variables) + "}")
    return "".join(parts), values


@pytest.mark.rule("RES-14")
@given(templates())
def test_expanding_agrees_with_another_implementation(drawn):
    text, values = drawn
    # RFC 6570, 2.3: what has no members is undefined; the other one writes its sign.
    told = {
        name: value if value not in ([], {}) else None for name, value in values.items()
    }
    assert UriTemplate(text).expand(values) == uritemplate.expand(text, told)


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
