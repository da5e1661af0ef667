"""Scopes: the initial selection, and step-ups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.discovery import Denial
from mcpwire.auth.flow import initial_scopes, step_up_scopes
from mcpwire.auth.records import (
    ResourceMetadata,
    ServerMetadata,
    check_scope,
    is_scope,
    unique_scopes,
)


def select(
    *,
    challenged=None,
    listed=None,
    configured=None,
    supported=None,
    wants_refresh=False,
):
    return initial_scopes(
        Denial(401, scopes=challenged),
        ResourceMetadata("https://h", ("https://as",), listed),
        configured,
        ServerMetadata("https://as", scopes_supported=supported),
        wants_refresh=wants_refresh,
    )


FIRST = {
    "the challenge's": ({"challenged": ("b", "a"), "listed": ("c",)}, ("b", "a")),
    "else all the resource's": ({"listed": ("b", "a", "c")}, ("b", "a", "c")),
    "else none": ({}, ()),
    "a list of none is none": ({"listed": ()}, ()),
    "an empty challenge asks for nothing": (
        {"challenged": (), "listed": ("a",)},
        ("a",),
    ),
    "the challenge's, listed or not": (
        {"challenged": ("x",), "listed": ("a",), "supported": ("b",)},
        ("x",),
    ),
    "the user's in place of those": (
        {"challenged": ("a",), "listed": ("b",), "configured": ("c", "d")},
        ("c", "d"),
    ),
    "the user's none": ({"challenged": ("a",), "configured": ()}, ()),
    "each once": ({"challenged": ("a", "b", "a")}, ("a", "b")),
    "no scope that is none": ({"listed": ("a", "b c", "", 'd"')}, ("a",)),
}


@pytest.mark.rule("FLOW-12", "FLOW-13", "FLOW-33")
@pytest.mark.system("U50")
@pytest.mark.parametrize(("given_", "asked"), FIRST.values(), ids=FIRST)
def test_initial_scopes_come_from_challenge_or_metadata(given_, asked):
    assert select(**given_) == asked


A, OFF, BOTH = ("a",), ("offline_access",), ("a", "offline_access")
OFFLINE = {
    "where it is offered and wanted": ({"challenged": A, "supported": BOTH}, BOTH),
    "beside what the resource lists": ({"listed": A, "supported": BOTH}, BOTH),
    "beside what the user asks for": ({"configured": A, "supported": BOTH}, BOTH),
    "once": ({"listed": BOTH, "supported": BOTH}, BOTH),
    "not where it is not wanted": (
        {"challenged": A, "supported": BOTH, "wants_refresh": False},
        A,
    ),
    "not where it is not offered": ({"challenged": A, "supported": A}, A),
    "not where nothing is offered": ({"challenged": A}, A),
    "not because the server says so": ({"challenged": BOTH, "supported": A}, A),
    "not because the resource says so": ({"listed": BOTH}, A),
    "not alone": ({"supported": BOTH}, ()),
    "alone where it is named alone": ({"challenged": OFF, "supported": BOTH}, OFF),
    "where the user asks and nobody says no": ({"configured": BOTH}, BOTH),
    "not where nobody offers it": ({"configured": BOTH, "supported": A}, A),
}


@pytest.mark.rule("FLOW-25")
@pytest.mark.system("U50")
@pytest.mark.parametrize(("given_", "asked"), OFFLINE.values(), ids=OFFLINE)
def test_offline_access_is_added_when_wanted_and_supported(given_, asked):
    assert select(**{"wants_refresh": True} | given_) == asked


STEPS = {
    "both": (("a", "b"), ("c",), ("a", "b", "c")),
    "each once, in the order heard of": (("b", "a"), ("c", "a"), ("b", "a", "c")),
    "nothing demanded": (("a",), (), ("a",)),
    "nothing asked so far": ((), ("a",), ("a",)),
    "no refresh tokens that were not asked for": (
        ("a",),
        ("offline_access", "b"),
        ("a", "b"),
    ),
    "those that were": (
        ("a", "offline_access"),
        ("b", "offline_access"),
        ("a", "offline_access", "b"),
    ),
}


@pytest.mark.rule("FLOW-18")
@pytest.mark.pain("P35")
@pytest.mark.system("U54")
@pytest.mark.parametrize(("asked", "demanded", "union"), STEPS.values(), ids=STEPS)
def test_a_step_up_requests_the_union(asked, demanded, union):
    assert step_up_scopes(asked, demanded) == union


SCOPE = st.text("abc:/.*,'", min_size=1, max_size=2)


@pytest.mark.rule("FLOW-18")
@given(st.lists(SCOPE, unique=True), st.lists(SCOPE))
def test_a_step_up_keeps_all_scopes_in_order(asked, demanded):
    union = step_up_scopes(asked, demanded)
    assert list(union[: len(asked)]) == asked
    assert set(union) == {*asked, *demanded}
    assert step_up_scopes(union, demanded) == union


@given(st.text(max_size=3))
def test_a_scope_is_visible_ascii_without_quotes(text):
    allowed = {chr(code) for code in range(0x21, 0x7F)} - set('"\\')
    assert is_scope(text) is (text != "" and set(text) <= allowed)


@given(st.lists(SCOPE, unique=True))
def test_unique_scopes_drops_invalid_and_repeated_ones(scopes):
    assert unique_scopes(scopes) == tuple(scopes)
    assert unique_scopes(["", *scopes, "a b", *scopes]) == tuple(scopes)


@pytest.mark.parametrize("scope", ["", "a b", 'a"', "a\\b", "ü", "a\n", None, 7])
def test_check_scope_names_the_invalid_scope(scope):
    assert check_scope("files:read") == "files:read"
    with pytest.raises(ValueError, match="a scope must be visible ASCII") as caught:
        check_scope(scope)
    assert repr(scope) in str(caught.value)
