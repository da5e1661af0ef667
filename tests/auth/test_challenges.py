"""Challenges: the grammar of WWW-Authenticate, broken fields, and the denial read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.discovery import Challenge, Denial, parse_challenges, read_denial

URL = "https://h/.well-known/oauth-protected-resource/mcp"


def bearer(**params):
    return Challenge("bearer", params)


READ = {
    "nothing": ("", []),
    "a scheme alone": ("Bearer", [bearer()]),
    "a parameter": ('Bearer realm="x"', [bearer(realm="x")]),
    "two parameters": ('Bearer a="1", b=2', [bearer(a="1", b="2")]),
    "commas too many": (",, Bearer ,, a=1,,,b=2, ,", [bearer(a="1", b="2")]),
    "a comma in quotes": ('Bearer a="x, DPoP b=1"', [bearer(a="x, DPoP b=1")]),
    "an escaped quote": (r'Bearer a="x\"y", b=2', [bearer(a='x"y', b="2")]),
    "the first of two with one name": ("Bearer a=1, A=2", [bearer(a="1")]),
    "a token in place of parameters": (
        "Negotiate abc+/9==",
        [Challenge("negotiate", {})],
    ),
    "several challenges": (
        'Basic realm="x", charset=UTF-8, Bearer a=1, DPoP algs="ES256"',
        [
            Challenge("basic", {"realm": "x", "charset": "UTF-8"}),
            bearer(a="1"),
            Challenge("dpop", {"algs": "ES256"}),
        ],
    ),
    "a scheme twice": ("Bearer a=1, Bearer a=2", [bearer(a="1"), bearer(a="2")]),
    # Not in the grammar, but sent by real servers.
    "nothing between parameters": ('Bearer a="1"b=2', [bearer(a="1", b="2")]),
    "no comma between parameters": ('Bearer a="1" b=2', [bearer(a="1", b="2")]),
    "a URL without quotes": (
        f"Bearer resource_metadata={URL}, a=1",
        [bearer(resource_metadata=URL, a="1")],
    ),
    "a value that is missing": ("Bearer a=1, b=, c=3", [bearer(a="1", b="", c="3")]),
}


BROKEN = {
    "no scheme": ("a=1, Bearer b=2", []),
    "no letter": ('"Bearer"', []),
    "a scheme with a colon": ("Bearer: a=1", []),
    "a quote that never closes": ('Bearer a=1, b="x, c=3', [bearer(a="1")]),
    "text behind a quote": ('Bearer a="1"b, c=3', [bearer(a="1")]),
    "a quote within a token": ('Bearer a=1, b=x"y", c=3', [bearer(a="1")]),
    "an escape outside quotes": (r"Bearer a=1, b=\2", [bearer(a="1")]),
    "a control character in quotes": ('Bearer a=1, b="\x1f"', [bearer(a="1")]),
    "a line end in quotes": ('Bearer a=1, b="\\\n"', [bearer(a="1")]),
    "a parameter behind a token": (
        "Negotiate abc, a=1, Bearer",
        [Challenge("negotiate", {})],
    ),
    "a scheme without a comma": ("Bearer a=1 Basic b=2", [bearer(a="1")]),
    "words": ("Bearer one two", [bearer()]),
    "no name": ("Bearer a=1, =2", [bearer(a="1")]),
}


@pytest.mark.rule("AUTH-08")
@pytest.mark.case("G05")
@pytest.mark.system("U40")
@pytest.mark.parametrize("name", [*READ, *BROKEN])
def test_a_field_is_parsed_into_challenges_up_to_an_error(name):
    value, challenges = (READ | BROKEN)[name]
    assert parse_challenges(value) == challenges


TOKEN = st.text("!#$%&'*+-.^_`|~0123456789abcXYZ", min_size=1, max_size=6)
TOKEN68 = st.from_regex(r"[0-9A-Za-z._~+/-]{1,6}={0,2}", fullmatch=True)
SPACE = st.text(" \t", max_size=2)
COMMA = st.from_regex(r"[ \t]{0,2},[ \t,]{0,3}", fullmatch=True)
TEXT = st.text(
    st.characters(codec="latin-1", categories=["L", "P", "S", "Zs", "N"])
    | st.just("\t"),
    max_size=8,
)


@st.composite
def quoted(draw, text):
    return (
        '"'
        + "".join(
            "\\" + char if char in '"\\' or draw(st.booleans()) else char
            for char in text
        )
        + '"'
    )


@st.composite
def param(draw):
    name = draw(TOKEN)
    text = draw(TOKEN | TEXT)
    is_token = re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", text)
    written = text if is_token and draw(st.booleans()) else draw(quoted(text))
    return (name, text), f"{name}{draw(SPACE)}={draw(SPACE)}{written}"


@st.composite
def challenge(draw):
    scheme = draw(TOKEN)
    start = scheme + draw(st.sampled_from([" ", "  ", " \t"]))
    if draw(st.booleans()):
        token68 = draw(TOKEN68)
        return Challenge(scheme.lower(), {}), start + token68
    params = draw(st.lists(param(), max_size=3))
    first = {}
    for (name, text), _ in params:
        first.setdefault(name.lower(), text)
    written = "".join(
        (draw(COMMA) if index else "") + text for index, (_, text) in enumerate(params)
    )
    return Challenge(scheme.lower(), first), start + written


@st.composite
def field(draw):
    drawn = draw(st.lists(challenge(), max_size=3))
    text = "".join(
        (draw(COMMA) if i else "") + text for i, (_, text) in enumerate(drawn)
    )
    edge = st.from_regex(r"[ \t,]{0,3}", fullmatch=True)
    return [each for each, _ in drawn], draw(edge) + text + draw(edge)


@pytest.mark.rule("AUTH-08")
@pytest.mark.case("G05")
@given(field())
def test_any_grammatical_field_is_parsed(drawn):
    challenges, text = drawn
    assert parse_challenges(text) == challenges


@given(field(), st.sampled_from(['"', "@ Bearer a=1", ', x="', ", =", ", (comment)"]))
def test_garbage_does_not_affect_earlier_challenges(drawn, garbage):
    challenges, text = drawn
    assert parse_challenges(f"{text}, {garbage}") == challenges


@pytest.mark.case("G05")
@given(st.text() | st.text(' ,="\\abB\t\x00='))
def test_any_text_can_be_parsed(text):
    for found in parse_challenges(text):
        assert re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9a-z]+", found.scheme)


LENGTH = 1 << 17


@pytest.mark.case("G05")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "value",
    [
        "a" * LENGTH,
        "Bearer " + "a" * LENGTH + "@",
        "Bearer a" + " " * LENGTH + "@",
        "Bearer a" + "=" * LENGTH + '"',
        'Bearer a="' + "x" * LENGTH,
        'Bearer a="' + "\\" * LENGTH,
        'Bearer a="' + '\\"' * (LENGTH // 2),
        "Bearer " + 'a="' * (LENGTH // 3),
        "Bearer " + "a=1," * (LENGTH // 4),
        "a," * (LENGTH // 2),
        "a," + "a " * (LENGTH // 2),
        "," * LENGTH,
    ],
    ids=lambda value: value[:12],
)
def test_parsing_takes_linear_time(value):
    assert len(parse_challenges(value)) <= LENGTH // 2


ALL = (
    'Bearer error="insufficient_scope", scope="a b a", '
    f'resource_metadata="{URL}", error_description="no"'
)
MOST = 'Bearer realm=x, Bearer error=e, scope="a", DPoP algs="ES256", error=other'
DENIALS = {
    "no challenge for tokens": ('Basic realm="x", Negotiate', Denial(401)),
    "all of it": (
        ALL,
        Denial(403, "insufficient_scope", ("a", "b"), URL, has_bearer=True),
    ),
    "behind another scheme": (
        'Basic realm="Bearer scope=x", bearer scope=a',
        Denial(401, scopes=("a",), has_bearer=True),
    ),
    "the one that says most": (
        MOST,
        Denial(403, "e", ("a",), has_bearer=True, has_dpop=True),
    ),
    "the first of those that say as much": (
        "DPoP scope=a, Bearer scope=b",
        Denial(401, scopes=("a",), has_bearer=True, has_dpop=True),
    ),
    "what makes no sense is not said": (
        'Bearer error="a\\"b", scope=" ", resource_metadata=""',
        Denial(401, has_bearer=True),
    ),
    "an error that is a novel": (
        f"Bearer error={'x' * 101}",
        Denial(401, has_bearer=True),
    ),
    "a scope that is none": (
        'Bearer scope="a \\" \\\\ b\tc ü d"',
        Denial(401, scopes=("a", "d"), has_bearer=True),
    ),
}


@pytest.mark.rule("AUTH-08")
@pytest.mark.case("G05")
@pytest.mark.parametrize(("field", "denial"), DENIALS.values(), ids=DENIALS)
def test_read_denial_selects_the_token_challenge(field, denial):
    assert read_denial(denial.status, {"www-authenticate": field}) == denial
    assert read_denial(401, {}) == Denial(401)
