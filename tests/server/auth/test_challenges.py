"""Challenges for a missing or invalid token, and for missing scopes."""

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
def test_formatted_challenge_parses_to_the_same_parameters(params):
    (found,) = parse_challenges(format_challenge("Bearer", params))
    assert (found.scheme, dict(found.params)) == ("bearer", params)


@given(st.text())
def test_parameter_values_cannot_inject_other_parameters(value):
    written = format_challenge("Bearer", {"scope": value, "error": "invalid_token"})
    assert written.isascii()
    assert written.isprintable()
    (found,) = parse_challenges(written)
    assert found.params["error"] == "invalid_token"
    assert set(found.params) <= {"scope", "error"}


def test_challenge_without_parameters_is_the_scheme():
    assert format_challenge("Bearer", {"scope": None, "error": ""}) == "Bearer"


def test_invalid_token_challenge_has_a_fixed_description():
    assert REALM.challenge("invalid_token") == (
        'Bearer error="invalid_token", '
        'error_description="The access token is not valid here", '
        f'scope="read", resource_metadata="{KNOWN}"'
    )


@pytest.mark.rule("FLOW-26")
def test_challenge_omits_offline_access():
    realm = Realm(metadata_url=KNOWN, required=("read", "offline_access"))
    assert "offline_access" not in realm.challenge(None, {"offline_access", "write"})


def test_challenge_offers_both_schemes_with_parameters():
    realm = Realm(schemes=("Bearer", "DPoP"), proof_algorithms=("ES256", "RS256"))
    assert realm.challenge() == 'Bearer, DPoP algs="ES256 RS256"'


@pytest.mark.rule("FLOW-14", "FLOW-15", "AUTH-14")
def test_missing_scope_is_a_403_with_all_required_scopes():
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
def test_scopes_are_named_in_a_fixed_order():
    named = {
        Realm().scopes_for(order) for order in (["c", "a"], ["a", "c"], {"a", "c"})
    }
    assert named == {("a", "c")}


@pytest.mark.parametrize("needed", [set(), {"a"}, {"a", "b"}])
def test_principal_with_the_scopes_passes(needed):
    check_scopes(Principal(scopes={"a", "b"}), needed)


def test_missing_principal_passes_only_without_scopes():
    check_scopes(None, frozenset())
    with pytest.raises(ScopeRequired):
        check_scopes(None, {"a"})


def test_refusal_has_status_headers_and_error():
    refusal = AuthenticationRefused(
        "no token", status=401, headers=(("www-authenticate", "Bearer"),)
    )
    assert (refusal.http_status, refusal.http_headers, refusal.error) == (
        401,
        (("www-authenticate", "Bearer"),),
        None,
    )
