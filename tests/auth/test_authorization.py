"""The authorization request and the validation of its response."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.errors import ConsentDenied, DiscoveryError, ResponseRefused
from mcpwire.auth.flow import authorization_url, code_challenge, read_response
from mcpwire.auth.jwt import base64url
from mcpwire.auth.records import Identity, PendingLogin, Record, ServerMetadata
from mcpwire.auth.url_policy import check_authorization_url
from mcpwire.wire.urls import parse_url

ISSUER = "https://as.example/tenant"
STATE = "of-this-request"


def server(**members):
    members = {"authorization_endpoint": "https://as.example/authorize", **members}
    return ServerMetadata(ISSUER, **members)


def url_for(
    metadata=None,
    scopes=(),
    resource="https://h.example/mcp",
    client_id="me & you",
    prompt="consent",
):
    identity = Identity(client_id)
    record = Record(resource, metadata or server(), identity, asked_scopes=scopes)
    redirect_uri = "http://127.0.0.1:3333/callback"
    pending = PendingLogin(record, STATE, "verifier", redirect_uri, 0.0)
    return authorization_url(pending, prompt)


@pytest.mark.rule("FLOW-01")
def test_code_challenge_matches_the_rfc_7636_example():
    # RFC 7636, appendix B.
    entropy = bytes.fromhex(
        "7418dfb49799e0254ffa607dd8adbbba16d4254d69d6bff05b58055853848d79"
    )
    verifier = base64url(entropy)
    assert verifier == "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert code_challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.system("U51")
@pytest.mark.rule("FLOW-01", "FLOW-02", "FLOW-09")
def test_an_authorization_url_has_all_parameters():
    url = url_for(scopes=("files:read", "a/b"))
    assert urlsplit(url)[:3] == ("https", "as.example", "/authorize")
    assert parse_qsl(urlsplit(url).query, strict_parsing=True) == [
        ("response_type", "code"),
        ("client_id", "me & you"),
        ("redirect_uri", "http://127.0.0.1:3333/callback"),
        ("code_challenge", code_challenge("verifier")),
        ("code_challenge_method", "S256"),
        ("state", STATE),
        ("scope", "files:read a/b"),
        ("resource", "https://h.example/mcp"),
    ]
    assert "scope=files%3Aread%20a%2Fb&" in url


def test_offline_access_adds_prompt_consent():
    names = dict(parse_qsl(urlsplit(url_for()).query))
    assert set(names).isdisjoint({"scope", "prompt"})
    query = dict(parse_qsl(urlsplit(url_for(scopes=("a", "offline_access"))).query))
    assert (query["scope"], query["prompt"]) == ("a offline_access", "consent")


def test_another_prompt_replaces_consent():
    url = url_for(scopes=("offline_access",), prompt=None)
    assert "prompt" not in dict(parse_qsl(urlsplit(url).query))
    query = dict(parse_qsl(urlsplit(url_for(prompt="select_account")).query))
    assert query["prompt"] == "select_account"


@pytest.mark.rule("FLOW-02")
@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_the_resource_parameter_round_trips(resource):
    query = parse_qsl(urlsplit(url_for(resource=resource)).query, True)
    assert dict(query)["resource"] == resource


KEPT = {
    "https://as.example/authorize": "https://as.example/authorize?response_type=",
    "https://as.example/a?": "https://as.example/a?response_type=",
    "https://as.example/a?p=b2c%5Fx": "https://as.example/a?p=b2c%5Fx&response_type=",
    "https://as.example/a?x&&y=1": "https://as.example/a?x&y=1&response_type=",
    "http://127.0.0.1:9/a": "http://127.0.0.1:9/a?response_type=",
    # No parameter occurs twice, and ours takes precedence.
    "https://as.example/a?state=theirs&q=1": "https://as.example/a?q=1&response_type=",
    "https://as.example/a?%73tate=theirs": "https://as.example/a?response_type=",
    "https://as.example/a?code_challenge_method=plain": (
        "https://as.example/a?response_type="
    ),
}


@pytest.mark.parametrize(("endpoint", "start"), KEPT.items(), ids=KEPT)
def test_the_query_of_an_endpoint_cannot_replace_parameters(endpoint, start):
    url = url_for(server(authorization_endpoint=endpoint))
    assert url.startswith(start)
    names = [name for name, _ in parse_qsl(urlsplit(url).query, True)]
    assert len(names) == len(set(names))


WEAPONS = ("$(calc)", "`calc`", "'&calc&'", "a;calc", "a|b", "%COMSPEC%", "^x", "<x>")


@pytest.mark.attack("S04")
@pytest.mark.rule("SEC-08")
@pytest.mark.parametrize("weapon", WEAPONS)
def test_texts_of_a_server_are_encoded_in_the_authorization_url(weapon):
    url = url_for(None, (weapon,), f"https://h/a?b=c&{weapon}#e", weapon)
    assert check_authorization_url(url, server=parse_url("https://h/")) == url
    assert re.fullmatch(r"[A-Za-z0-9:/?=&%._~*!@,+-]+", url)


def test_a_missing_authorization_endpoint_is_an_error():
    with pytest.raises(DiscoveryError, match=r"tenant' names no authorization"):
        url_for(ServerMetadata(ISSUER))


STATES = {
    "absent": {},
    "empty": {"state": ""},
    "another": {"state": "another"},
    "other case": {"state": STATE.upper()},
    "no text": {"state": "\ud800é"},
}


@pytest.mark.system("U51")
@pytest.mark.case("G02")
@pytest.mark.rule("FLOW-09")
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("outcome", [{"code": "c"}, {"error": "access_denied"}])
def test_a_response_with_another_state_is_refused(state, outcome):
    with pytest.raises(ResponseRefused, match="state") as refused:
        read_response({**outcome, **state}, state=STATE, metadata=server())
    assert refused.value.parameter == "state"
    assert "access_denied" not in str(refused.value)


ADVERTISED = {"authorization_response_iss_parameter_supported": True}
OTHER_ISSUERS = [
    *("https://evil.example", "https://as.example/tenant/"),
    *("https://AS.example/tenant", "https://as.example:443/tenant"),
    *("https://as.example/%74enant", "https://as.example", ""),
]


@pytest.mark.system("U51")
@pytest.mark.attack("S06")
@pytest.mark.case("G11")
@pytest.mark.rule("FLOW-05", "FLOW-06", "FLOW-07")
@pytest.mark.parametrize("issuer", OTHER_ISSUERS)
@pytest.mark.parametrize("announced", [{}, ADVERTISED], ids=["silent", "announced"])
@pytest.mark.parametrize(
    "outcome",
    [{"code": "c"}, {"error": "access_denied", "error_description": "pay evil"}],
    ids=["code", "error"],
)
def test_a_response_of_another_issuer_is_refused(issuer, announced, outcome):
    params = {"state": STATE, "iss": issuer, **outcome}
    with pytest.raises(ResponseRefused, match="another issuer") as refused:
        read_response(params, state=STATE, metadata=server(**announced))
    assert refused.value.parameter == "iss"
    assert "evil" not in str(refused.value)
    assert "access_denied" not in str(refused.value)


@pytest.mark.system("U51")
@pytest.mark.attack("S06")
@pytest.mark.case("G11")
@pytest.mark.rule("FLOW-05", "FLOW-07")
@pytest.mark.parametrize("outcome", [{"code": "c"}, {"error": "access_denied"}])
def test_an_announced_iss_parameter_must_be_present(outcome):
    with pytest.raises(ResponseRefused, match="this one does not") as refused:
        read_response(
            {"state": STATE, **outcome}, state=STATE, metadata=server(**ADVERTISED)
        )
    assert refused.value.parameter == "iss"
    assert "access_denied" not in str(refused.value)


@pytest.mark.attack("S06")
@pytest.mark.rule("FLOW-05")
@pytest.mark.parametrize(
    ("announced", "issuer"),
    [({}, {}), ({}, {"iss": ISSUER}), (ADVERTISED, {"iss": ISSUER})],
    ids=["silent and absent", "silent and right", "announced and right"],
)
def test_a_response_of_the_right_issuer_returns_its_code(announced, issuer):
    params = {"state": STATE, "code": "the-code", **issuer}
    code = read_response(params, state=STATE, metadata=server(**announced))
    assert code == "the-code"


DENIALS = {
    "plain": ({"error": "access_denied"}, "access_denied", None),
    "described": (
        {"error": "invalid_scope", "error_description": " too\nmuch\x1b[2J é "},
        "invalid_scope",
        "too?much?[2J ?",
    ),
    "with a code": ({"error": "server_error", "code": "c"}, "server_error", None),
    "empty": ({"error": "", "code": "c"}, "unknown", None),
}


@pytest.mark.case("G02")
@pytest.mark.parametrize(
    ("params", "error", "description"), DENIALS.values(), ids=DENIALS
)
def test_an_error_response_raises_consent_denied(params, error, description):
    with pytest.raises(ConsentDenied) as denied:
        read_response({"state": STATE, **params}, state=STATE, metadata=server())
    assert (denied.value.error, denied.value.description) == (error, description)
    assert str(denied.value) == f"the authorization server gave no code: {error}"


@pytest.mark.parametrize("params", [{}, {"code": ""}])
def test_a_response_without_code_and_error_is_refused(params):
    with pytest.raises(ResponseRefused, match="neither a code") as refused:
        read_response({"state": STATE, **params}, state=STATE, metadata=server())
    assert refused.value.parameter == "code"
