"""What a server says where a token is missing, wrong, or allows too little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.discovery import parse_challenges, read_denial
from mcpwire.auth.resource_server import format_challenge
from mcpwire.server.auth.resource_server import (
    AuthenticationRefused,
    HttpRefusal,
    Principal,
    Realm,
    ScopeRequired,
    check_scopes,
)

KNOWN = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
REALM = Realm(metadata_url=KNOWN, required=("read",))


def denial_of(refusal):
    return read_denial(refusal.http_status, dict(refusal.http_headers))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1),
        max_size=4,
    )
)
def test_what_is_written_is_read_as_it_was(params):
    (found,) = parse_challenges(format_challenge("Bearer", params))
    assert (found.scheme, dict(found.params)) == ("bearer", params)


@given(st.text())
def test_no_value_ends_the_field_or_begins_another_parameter(value):
    written = format_challenge("Bearer", {"scope": value, "error": "invalid_token"})
    assert written.isascii()
    assert written.isprintable()
    (found,) = parse_challenges(written)
    assert found.params["error"] == "invalid_token"
    assert set(found.params) <= {"scope", "error"}


def test_a_challenge_of_nothing_is_its_scheme():
    assert format_challenge("Bearer", {"scope": None, "error": ""}) == "Bearer"


def test_who_shows_what_is_wrong_is_told_a_code_and_always_the_same_words():
    assert REALM.challenge("invalid_token") == (
        'Bearer error="invalid_token", '
        'error_description="The access token is not valid here", '
        f'scope="read", resource_metadata="{KNOWN}"'
    )


@pytest.mark.rule("FLOW-26")
def test_no_challenge_asks_for_refresh_tokens():
    realm = Realm(metadata_url=KNOWN, required=("read", "offline_access"))
    assert "offline_access" not in realm.challenge(None, {"offline_access", "write"})


def test_both_schemes_are_offered_with_what_each_needs():
    realm = Realm(schemes=("Bearer", "DPoP"), proof_algorithms=("ES256", "RS256"))
    assert realm.challenge() == 'Bearer, DPoP algs="ES256 RS256"'


@pytest.mark.rule("FLOW-14", "FLOW-15", "AUTH-14")
def test_a_missing_scope_is_a_403_that_names_all_that_are_needed():
    principal = Principal(subject="ann", scopes={"read", "b"}, realm=REALM)
    with pytest.raises(ScopeRequired) as caught:
        check_scopes(principal, {"b", "a", "c"})
    refusal = caught.value
    assert isinstance(refusal, HttpRefusal)
    assert refusal.http_status == 403
    assert refusal.scopes == ("read", "a", "b", "c")
    denial = denial_of(refusal)
    assert (denial.error, denial.scopes) == (
        "insufficient_scope",
        ("read", "a", "b", "c"),
    )
    assert denial.resource_metadata == KNOWN
    assert refusal.code == -32600


@pytest.mark.rule("FLOW-15")
def test_the_same_need_is_always_named_in_the_same_order():
    named = {
        Realm().scopes_for(order) for order in (["c", "a"], ["a", "c"], {"a", "c"})
    }
    assert named == {("a", "c")}


@pytest.mark.parametrize("needed", [set(), {"a"}, {"a", "b"}])
def test_who_has_the_scopes_may(needed):
    check_scopes(Principal(scopes={"a", "b"}), needed)


def test_nobody_may_what_needs_nothing_and_no_more():
    check_scopes(None, frozenset())
    with pytest.raises(ScopeRequired):
        check_scopes(None, {"a"})


def test_a_refusal_says_its_status_and_its_fields():
    refusal = AuthenticationRefused(
        "no token", status=401, headers=(("www-authenticate", "Bearer"),)
    )
    assert (refusal.http_status, refusal.http_headers, refusal.error) == (
        401,
        (("www-authenticate", "Bearer"),),
        None,
    )
