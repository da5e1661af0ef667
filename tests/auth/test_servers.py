"""Authorization servers: their metadata URLs, and which metadata is accepted."""

import attrs
import pytest

from mcpwire.auth.discovery import (
    assumed_metadata,
    check_pkce,
    read_server_metadata,
    server_metadata_urls,
)
from mcpwire.auth.errors import DiscoveryError
from mcpwire.auth.records import ServerMetadata
from mcpwire.wire.urls import parse_url

OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"

PLACES = {
    "no path": ("https://as", [f"https://as{OAUTH}", f"https://as{OPENID}"]),
    "a path": (
        "https://as/t1",
        [f"https://as{OAUTH}/t1", f"https://as{OPENID}/t1", f"https://as/t1{OPENID}"],
    ),
    "a path with a slash": (
        "https://as/a/b/",
        [
            f"https://as{OAUTH}/a/b",
            f"https://as{OPENID}/a/b",
            f"https://as/a/b{OPENID}",
        ],
    ),
}


@pytest.mark.rule("ASM-02", "ASM-03", "ASM-04", "ASM-06")
@pytest.mark.system("U44")
@pytest.mark.parametrize(("issuer", "urls"), PLACES.values(), ids=PLACES)
def test_server_metadata_urls_are_tried_in_order(issuer, urls):
    assert server_metadata_urls(issuer) == urls


NO_ISSUER = {
    "a query": ("https://as?a=s3cret", "must have no query and no fragment"),
    "a fragment": ("https://as#", "must have no query and no fragment"),
    "a path alone": ("/t1", "it must be absolute"),
}


@pytest.mark.case("G06")
@pytest.mark.parametrize(("issuer", "reason"), NO_ISSUER.values(), ids=NO_ISSUER)
def test_an_invalid_issuer_is_refused(issuer, reason):
    with pytest.raises(DiscoveryError, match=reason) as caught:
        server_metadata_urls(issuer)
    assert "s3cret" not in str(caught.value)


def document(**members):
    whole = {"issuer": "https://as/t1", "token_endpoint": "https://as/t1/token"}
    return whole | members


MINIMAL = ServerMetadata("https://as/t1", token_endpoint="https://as/t1/token")


def metadata(**members):
    return read_server_metadata(document(**members), "https://as/t1")


def test_server_metadata_is_read():
    members = {
        "authorization_endpoint": "https://as/authorize?tenant=1",
        "token_endpoint": "https://as/token",
        "registration_endpoint": "https://as/register",
        "revocation_endpoint": "https://as/revoke",
        "scopes_supported": ["a", "offline_access"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "code_challenge_methods_supported": ["S256", "plain"],
        "dpop_signing_alg_values_supported": ["ES256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
    read = metadata(**members, jwks_uri=7, unheard_of={"a": 1})
    assert read.issuer == "https://as/t1"
    assert not read.is_assumed
    for name, value in members.items():
        expected = tuple(value) if isinstance(value, list) else value
        assert getattr(read, name) == expected, name
    names = {field.name for field in attrs.fields(ServerMetadata)}
    assert names == {*members, "issuer", "is_assumed"}


FORGIVEN = {
    "null everywhere": dict.fromkeys(
        (
            *("authorization_endpoint", "registration_endpoint", "revocation_endpoint"),
            *("scopes_supported", "code_challenge_methods_supported"),
            "client_id_metadata_document_supported",
        )
    ),
    "a text in place of a list": {"scopes_supported": "a b"},
    "an object in place of a list": {"grant_types_supported": {}},
    "words for true": {
        "client_id_metadata_document_supported": "true",
        "authorization_response_iss_parameter_supported": 1,
    },
}


@pytest.mark.case("G06")
@pytest.mark.parametrize("members", FORGIVEN.values(), ids=FORGIVEN)
def test_an_optional_member_of_another_type_is_ignored(members):
    assert metadata(**members) == MINIMAL


def test_list_items_that_are_not_texts_are_dropped():
    read = metadata(code_challenge_methods_supported=["S256", None, 7, ["plain"]])
    assert read.code_challenge_methods_supported == ("S256",)


USELESS = {
    "no issuer": ({"issuer": None}, "names no issuer"),
    "issuers": ({"issuer": ["https://as/t1"]}, "names no issuer"),
    "no token endpoint": ({"token_endpoint": None}, "names no token endpoint"),
    "a token endpoint that is none": (
        {"token_endpoint": {"url": "https://as"}},
        "has token_endpoint that is not text",
    ),
    "a registration endpoint that is none": (
        {"registration_endpoint": True},
        "has registration_endpoint that is not text",
    ),
}


@pytest.mark.case("G06")
@pytest.mark.parametrize(("members", "reason"), USELESS.values(), ids=USELESS)
def test_an_incomplete_document_is_refused(members, reason):
    with pytest.raises(DiscoveryError, match=reason):
        metadata(**members)


OTHER_ISSUERS = {
    "another": "https://evil/t1",
    "another tenant": "https://as/t2",
    "the origin": "https://as",
    "a slash more": "https://as/t1/",
    "another case": "https://AS/t1",
    "the port that goes without saying": "https://as:443/t1",
    "an encoded letter": "https://as/%741",
}


@pytest.mark.rule("ASM-05")
@pytest.mark.attack("S01")
@pytest.mark.system("U45")
@pytest.mark.parametrize("found", OTHER_ISSUERS.values(), ids=OTHER_ISSUERS)
def test_the_issuer_must_match_exactly(found):
    with pytest.raises(DiscoveryError, match="has the issuer"):
        metadata(issuer=found)


SAME_ORIGIN = {
    "the same": "https://h",
    "a slash": "https://h/",
    "below": "https://h/oauth",
    "in other letters": "HTTPS://H:443/oauth",
}


NOT_THERE = {
    "another host": "https://evil/oauth",
    "another port": "https://h:8443",
    "no encryption": "http://h",
    "a query": "https://h/?a",
    "a fragment": "https://h/#a",
    "no URL": "h",
}


@pytest.mark.rule("ASM-05", "AUTH-12")
@pytest.mark.attack("S01")
@pytest.mark.system("U42")
@pytest.mark.parametrize("name", [*SAME_ORIGIN, *NOT_THERE])
def test_a_2025_03_server_may_be_any_issuer_at_its_origin_only(name):
    found = (SAME_ORIGIN | NOT_THERE)[name]
    if name in SAME_ORIGIN:
        read = read_server_metadata(document(issuer=found), "https://h", relaxed=True)
        assert read.issuer == found
    else:
        with pytest.raises(DiscoveryError, match="has the issuer"):
            read_server_metadata(document(issuer=found), "https://h", relaxed=True)


@pytest.mark.rule("AUTH-12")
@pytest.mark.system("U42")
def test_assumed_metadata_has_three_endpoints():
    assert assumed_metadata(parse_url("https://h:8443/a/mcp?b")) == ServerMetadata(
        "https://h:8443",
        authorization_endpoint="https://h:8443/authorize",
        token_endpoint="https://h:8443/token",
        registration_endpoint="https://h:8443/register",
        is_assumed=True,
    )


PROTECTED = (
    attrs.evolve(MINIMAL, code_challenge_methods_supported=("S256",)),
    attrs.evolve(MINIMAL, code_challenge_methods_supported=("plain", "S256")),
    assumed_metadata(parse_url("https://h")),
)


UNPROTECTED = {
    "not said": None,
    "none": (),
    "plain alone": ("plain",),
    "another case": ("s256",),
}


@pytest.mark.rule("ASM-07")
@pytest.mark.case("G02")
@pytest.mark.system("U42", "U47")
@pytest.mark.parametrize("methods", UNPROTECTED.values(), ids=UNPROTECTED)
def test_a_server_without_s256_is_refused(methods):
    metadata = attrs.evolve(MINIMAL, code_challenge_methods_supported=methods)
    with pytest.raises(DiscoveryError, match="does not support PKCE by S256"):
        check_pkce(metadata)
    for known in PROTECTED:
        check_pkce(known)
