"""URI templates: RFC 6570 parsing, and bounded matching with safe values."""

import gc
import re

import pytest
import uritemplate
from hypothesis import assume, given
from hypothesis import strategies as st
from proportion import calls

from mcpwire.wire.uri_template import (
    MAX_LENGTH,
    MAX_PARAMETERS,
    TemplateError,
    UriMatcher,
    UriTemplate,
    encode_literal,
    is_uri,
)


def test_characters_not_allowed_in_a_uri_are_encoded_in_literals():
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
def test_malformed_template_is_refused_with_its_position(case):
    text, position, problem = MALFORMED[case]
    with pytest.raises(TemplateError) as caught:
        UriTemplate(text)
    assert (caught.value.position, caught.value.template) == (position, text)
    assert str(caught.value).startswith(problem)
    assert len(str(caught.value)) < 250


def test_template_lists_its_variables_once_in_order():
    template = UriTemplate("a://{b}{/a*,b:3}{?c.d,%20}")
    assert template.names == ("b", "a", "c.d", "%20")
    assert [e.operator for e in template.expressions] == ["", "/", "?"]
    assert repr(template) == "UriTemplate('a://{b}{/a*,b:3}{?c.d,%20}')"


URIS = ["a:", "file:///a/b", "urn:x:y", "x+y.z-1://h/p?q=%41#f", "s://[::1]/'()*;"]
NO_URIS = [
    *("", "a", "/a/b", "1a:b", ":a", "a:b c", "a:é", "a:%4", "a:{x}", "a:\n", "a:|")
]


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("text", URIS)
def test_uri_is_recognised(text):
    assert is_uri(text)


@pytest.mark.rule("RES-08")
@pytest.mark.parametrize("text", [*NO_URIS, "a:" + "x" * MAX_LENGTH])
def test_invalid_uri_is_not_recognised(text):
    assert not is_uri(text)


def match(template, uri, unchecked=()):
    return UriMatcher(UriTemplate(template), unchecked).match(uri)


MATCHED = {
    "no variable": ("a://b", "a://b", {}),
    "a whole segment": ("a://{x}", "a://b", {"x": "b"}),
    "part of a segment": ("a://{x}.txt", "a://b.c.txt", {"x": "b.c"}),
    "two segments": ("a://{x}/b/{y}", "a://1/b/2", {"x": "1", "y": "2"}),
    "two in one segment": ("{x}-{y}", "1-2-3", {"x": "1", "y": "2-3"}),
    "the shortest first": ("{x}aa{y}", "aaaaa", {"x": "a", "y": "aa"}),
    "slashes": ("f:///{path*}", "f:///a/b/c", {"path": "a/b/c"}),
    "slashes behind one": ("f://{/path*}", "f:///a/b", {"path": "a/b"}),
    "slashes between": ("{a}/{b*}/{c}", "1/2/3/4", {"a": "1", "b": "2/3", "c": "4"}),
    "the last place": ("{+x}/b/{y}", "p/b/q/b/r", {"x": "p/b/q", "y": "r"}),
    "a slash at the end": ("f:///{path*}", "f:///a/", {"path": "a/"}),
    "anything": ("fetch://{+u}", "fetch://x?y#z", {"u": "x?y#z"}),
    "a fragment": ("a://b{#f}", "a://b#c/d", {"f": "c/d"}),
    "a label": ("a://b{.x}", "a://b.tar.gz", {"x": "tar.gz"}),
    "a segment with its slash": ("a:{/x}{/y}", "a:/1/2", {"x": "1", "y": "2"}),
    "escapes": ("a://{x}", "a://%C3%A9%20b%25", {"x": "é b%"}),
    "decoded once": ("a://{x}", "a://%2541", {"x": "%41"}),
    "raw letters of other alphabets": ("a://é/{x}", "a://%C3%A9/ü", {"x": "ü"}),
    "a plus sign": ("a://{x}", "a://b+c", {"x": "b+c"}),
    "reserved characters": ("a://{x}", "a://b:c@d,e;f=g", {"x": "b:c@d,e;f=g"}),
    "a query": ("a://b{?x,y}", "a://b?y=2&x=1", {"x": "1", "y": "2"}),
    "some of a query": ("a://b{?x,y}", "a://b?y=2", {"y": "2"}),
    "no query": ("a://b{?x}", "a://b", {}),
    "an empty query": ("a://b{?x}", "a://b?", {}),
    "an empty parameter": ("a://b{?x,y}", "a://b?x=&y", {"x": "", "y": ""}),
    "other parameters": ("a://b{?x}", "a://b?z=1&x=2&&z=3", {"x": "2"}),
    "a value with signs": (
        "a://b{?x}",
        "a://b?x=1=2?3/4%2F5+%26",
        {"x": "1=2?3/4/5+&"},
    ),
    "a query in two": ("a://b{?x}{&y}", "a://b?y=2&x=1", {"x": "1", "y": "2"}),
    "a query begun": ("a://b?v=1&&w{&x}", "a://b?x=2&w&v=1", {"x": "2"}),
    "a query written out": ("a://?q={q}&n={n}", "a://?q=b&n=1", {"q": "b", "n": "1"}),
    "path and query": ("a://{x}{?y}", "a://1?y=2", {"x": "1", "y": "2"}),
    "harmless dots": ("f:///{p*}", "f:///a..b/...", {"p": "a..b/..."}),
}


@pytest.mark.rule("RES-14")
@pytest.mark.case("F13")
@pytest.mark.parametrize("case", MATCHED)
def test_matching_uri_yields_its_values(case):
    template, uri, values = MATCHED[case]
    assert match(template, uri) == values


UNMATCHED = {
    "another literal": ("a://b", "a://c"),
    "another beginning": ("a://{x}", "b://c"),
    "another end": ("a://{x}.txt", "a://b.png"),
    "a literal that is missing": ("{x}/b/{y}", "1/c/2"),
    "a literal behind slashes that is missing": ("{x*}/b/{y}", "1/c/2"),
    "an empty value": ("a://{x}", "a://"),
    "an empty value between": ("a://{x}/b", "a:///b"),
    "an empty value in front": ("{x}-{y}", "-a"),
    "an empty value at the end": ("{x}-{y}", "a-"),
    "no slashes to take": ("{x}/{y*}/{z}", "a//b"),
    "ends that overlap": ("aba{x}aba", "aba"),
    "ends that overlap, two values": ("aba{x}/{y}aba", "aba"),
    "ends that overlap, slashes": ("aba{x*}/{y}aba", "aba"),
    "a slash": ("a://{x}", "a://b/c"),
    "a slash in front": ("a://{x}/d", "a://b/c/d"),
    "an unexpected query": ("a://{x}", "a://b?c"),
    "an unexpected fragment": ("a://{x}", "a://b#c"),
    "a query among segments": ("a://{x*}", "a://b/c?d"),
    "a fragment behind a query": ("a://b{?x}", "a://b?x=1#f"),
    "half an escape": ("a://{x}", "a://%4"),
    "an escape of nothing": ("a://{x}", "a://%zz"),
    "half a letter": ("a://{x}", "a://%C3"),
    "a surrogate": ("a://{x}", "a://%ED%A0%80"),
    "a raw surrogate": ("a://{x}", "a://\ud800"),
    "half a letter in a query": ("a://b{?x}", "a://b?x=%C3"),
    "a parameter twice": ("a://b{?x}", "a://b?x=1&x=2"),
    "a fixed parameter missing": ("a://b?v=1{&x}", "a://b?x=2"),
    "a fixed parameter twice": ("a://b?v=1{&x}", "a://b?v=1&v=1&x=2"),
    "another case": ("a://B/{x}", "a://b/1"),
    "too many parameters": ("a://b{?x}", "a://b?" + "&" * MAX_PARAMETERS),
    "too long": ("a://{x}", "a://" + "b" * MAX_LENGTH),
}


@pytest.mark.rule("RES-14")
@pytest.mark.case("F13")
@pytest.mark.parametrize("case", UNMATCHED)
def test_other_uri_does_not_match(case):
    template, uri = UNMATCHED[case]
    assert match(template, uri) is None


ESCAPES = {
    "the folder above": "..",
    "the folder above, encoded": "%2e%2E",
    "a slash, encoded": "a%2Fb",
    "a slash, encoded small": "a%2fb",
    "a backslash, encoded": "a%5Cb",
    "up and away, encoded": "..%2f..%2fetc%2fpasswd",
    "up and away, in backslashes": "..\\..\\windows",
    "a backslash in front": "\\server",
    "NUL": "a%00.txt",
    "a drive": "C:",
    "a drive and a folder": "c:\\windows",
}

WIDE_ESCAPES = {
    **ESCAPES,
    "up between": "a/../../b",
    "up between, encoded": "a/%2e%2e/b",
    "up at the end": "a/..",
    "up in backslashes": "a\\..\\b",
    "an absolute path": "/etc/passwd",
    "another machine": "//host/share",
    "a drive with slashes": "C:/windows",
}


@pytest.mark.rule("RES-08", "RES-09")
@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        *(("f:///data/{name}", f"f:///data/{ESCAPES[case]}") for case in ESCAPES),
        *(
            (template, f"f:///d/{WIDE_ESCAPES[case]}")
            for template in ("f:///d/{p*}", "f:///d/{+p}", "f:///d{/p*}")
            for case in WIDE_ESCAPES
        ),
        *(
            ("f:///{?p}", f"f:///?p={value}")
            for value in ("../a", "a/../b", "/etc", "%2Fetc", "C:/", "a%00")
        ),
    ],
)
def test_value_never_escapes_its_folder(template, uri):
    assert match(template, uri) is None


def test_unchecked_variable_matches_any_path():
    assert match("fetch://{+u}", "fetch:///a/../b%2F%00", ["u"]) == {
        "u": "/a/../b/\x00"
    }
    assert match("f:///{?p,q}", "f:///?p=../a", ["p"]) == {"p": "../a"}
    assert match("f:///{?p,q}", "f:///?q=../a", ["p"]) is None


def test_unchecked_segment_matches_no_encoded_slash():
    assert match("f:///{name}", "f:///..", ["name"]) == {"name": ".."}
    assert match("f:///{name}", "f:///a%2Fb", ["name"]) is None


REFUSED = {
    "side by side": ("a://{x}{y}", 7, "a sign must stand between two variables"),
    "two with slashes": ("{x*}/b/{+y}", 7, "only one variable may take slashes"),
    "several in one": ("a://{x,y}", 4, "write each of these variables by itself"),
    "one twice": ("a://{x}/{x}", 8, "'x' occurs twice"),
    "one in path and query": ("a://{x}{?x}", 7, "'x' occurs twice"),
    "a prefix": ("a://{x:3}", 4, "a prefix cannot be matched"),
    "parameters of a path": ("a://b{;x}", 5, "parameters of a path cannot be matched"),
    "an exploded parameter": ("a://b{?x*}", 5, "a parameter of a query is matched as"),
    "a prefix of a parameter": ("a{?x:3}", 1, "a parameter of a query is matched as"),
    "text behind a query": ("a://b{?x}/c", 9, "nothing may follow a query"),
    "a variable behind a query": ("a://b{?x}{y}", 9, "nothing may follow a query"),
    "a second query": ("a://b{?x}{?y}", 9, "the query has begun: write {&…}"),
    "a query that was begun": ("a://b?v=1{?x}", 9, "the query has begun: write {&…}"),
    "no query to go on with": ("a://b{&x}", 5, "a query that is plain text must"),
    "a query with a variable": ("a://b?v={v}{&x}", 11, "a query that is plain text"),
}


@pytest.mark.case("F13")
@pytest.mark.parametrize("case", REFUSED)
def test_ambiguous_template_is_refused_with_its_position(case):
    text, position, problem = REFUSED[case]
    with pytest.raises(TemplateError) as caught:
        UriMatcher(UriTemplate(text))
    assert caught.value.position == position
    assert str(caught.value).startswith(problem)


def test_unchecked_variable_must_exist():
    with pytest.raises(TemplateError, match="unknown variable 'y'"):
        UriMatcher(UriTemplate("a://{x}"), ["x", "y"])


# Compared with a backtracking implementation of the same rules...

CLASSES = {"": "[^/?#]+", "*": "[^?#]+", "+": ".+"}
LITERALS = ["", "a", "-", "/", "a/", "/a", "-a-"]


@st.composite
def shapes(draw):
    """Draw a template that can be matched, and its regular expression."""
    count = draw(st.integers(1, 4))
    wide = draw(st.integers(-1, count - 1))
    template = pattern = draw(st.sampled_from(LITERALS))
    for at in range(count):
        kind = draw(st.sampled_from("*+")) if at == wide else ""
        template += f"{{+v{at}}}" if kind == "+" else f"{{v{at}{kind}}}"
        is_last = at == count - 1
        literal = draw(st.sampled_from(LITERALS if is_last else LITERALS[1:]))
        template += literal
        pattern += f"({CLASSES[kind]}){literal}"
    return template, re.compile(pattern)


@pytest.mark.rule("RES-14")
@given(shapes(), st.text("a-/", max_size=12))
def test_matcher_agrees_with_a_regular_expression(shape, uri):
    template, pattern = shape
    assume(".." not in uri)
    names = UriTemplate(template).names
    found = UriMatcher(UriTemplate(template), names).match(uri)
    assert (found is not None) == (pattern.fullmatch(uri) is not None)
    if found is not None:
        wide = template.replace("*", "").replace("{v", "{+v").replace("{++", "{+")
        assert uritemplate.expand(wide, found) == uri


SAFE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/\\:.-"), min_size=1
)


@pytest.mark.rule("RES-14")
@pytest.mark.case("F13")
@given(SAFE, SAFE, SAFE)
def test_expanded_uri_matches_with_its_values(x, y, q):
    values = {"x": x, "y": y, "q": q}
    text = "a://{x}-{y}/z{?q}"
    uri = uritemplate.expand(text, values)
    assert UriMatcher(UriTemplate(text)).match(uri) == values


# Bounds...


def count_calls(matcher, uri):
    """Return the number of function calls of one match, without those of other code."""
    gc.collect()  # otherwise callbacks of a collection may be counted
    return min(calls(matcher.match, uri) for _ in range(3))


HOSTILE = {
    "many places for a literal": ("{a}a{b}a{c}a{d}b", "a"),
    "slashes": ("{a}/{b*}/{c}/x", "/"),
    "segments": ("{a}/{b*}/{c}", "a/"),
    "escapes": ("x{a}", "%41"),
    "half escapes": ("x{a}", "%"),
    "dots": ("x{+a}", "../"),
    "letters of other alphabets": ("x{a}", "é"),
    "parameters": ("x{?a,b}", "&a"),
    "one parameter": ("x{?a,b}", "a"),
}


@pytest.mark.attack("S17")
@pytest.mark.parametrize("case", HOSTILE)
def test_work_grows_at_most_with_the_escapes_of_a_uri(case):
    template, piece = HOSTILE[case]
    matcher = UriMatcher(UriTemplate(template))
    size = 2 * MAX_PARAMETERS + 10
    small, large = ("x" + piece * (n // len(piece)) for n in (size, MAX_LENGTH - 1))
    # Each escape is decoded on its own, in two calls.
    escapes = large.count("%41") - small.count("%41")
    assert count_calls(matcher, large) <= count_calls(matcher, small) + 2 * escapes + 5
