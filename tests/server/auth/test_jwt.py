"""`JwtVerifier`: accepted and refused JWTs, and the choice of keys."""

import asyncio
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from issuing import (
    EC,
    ED,
    OTHER_EC,
    P384,
    RSA,
    SECRET,
    claims,
    encoded,
    public,
    sign,
    token,
)
from joserfc.jws import JWSRegistry
from resources import ISSUER, NOW, RESOURCE

from mcpwire.auth.jwt import import_secret
from mcpwire.auth.resource_server import read_signed_token
from mcpwire.errors import LocalProtocolError
from mcpwire.server.auth import InvalidToken, JwtVerifier, Principal
from mcpwire.transports.http.target import Http

KEYS = {"keys": [public(EC, kid="a"), public(RSA, kid="b"), public(ED, kid="c")]}


def verifier(**options):
    if not options.keys() & {"jwks", "key", "jwks_uri"}:
        options["jwks"] = {"keys": [public(EC)]}
    return JwtVerifier(ISSUER, clock=lambda: NOW, **options)


def verify(text, **options):
    return asyncio.run(verifier(**options).verify(text))


def refuse(text, **options):
    with pytest.raises(InvalidToken) as caught:
        verify(text, **options)
    return str(caught.value)


def test_token_claims_become_a_principal():
    assert verify(token()) == Principal(
        issuer=ISSUER,
        client_id="cli",
        subject="ann",
        scopes={"read", "write"},
        audience={RESOURCE},
        expires_at=NOW + 600,
    )
    assert verify(token(roles=["a"])).claims["roles"] == ["a"]


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (EC, "ES256"),
        (P384, "ES384"),
        (RSA, "RS256"),
        (RSA, "RS512"),
        (RSA, "PS256"),
        (ED, "EdDSA"),
    ],
)
def test_common_signature_algorithms_are_accepted(key, algorithm):
    assert verify(token(key, algorithm), jwks={"keys": [public(key)]}).subject == "ann"
    assert verify(token(key, algorithm), key=public(key)).subject == "ann"
    pem = key.as_pem(private=False).decode()
    assert verify(token(key, algorithm), key=pem).subject == "ann"


def test_ed25519_is_accepted_as_a_name_of_eddsa():
    made = sign({"alg": "Ed25519"}, claims(), ED, by="EdDSA")
    assert verify(made, jwks=KEYS).subject == "ann"


def test_shared_secret_is_accepted_only_if_configured():
    made = token(SECRET, "HS256")
    assert verify(made, key=SECRET).subject == "ann"
    assert "algorithm is not accepted" in refuse(made, key=SECRET, algorithms=["HS512"])


FORGED = {
    "no signature": sign({"alg": "none"}, claims(), None),
    "no signature, spelled otherwise": sign({"alg": "nOnE"}, claims(), None) + "AA",
    "an empty signature": sign({"alg": "ES256"}, claims(), None),
    "another key": token(OTHER_EC),
    "a public key as a secret": sign(
        {"alg": "HS256"}, claims(), EC.as_pem(private=False)
    ),
    "an algorithm of another kind": sign({"alg": "RS256"}, claims(), EC, by="ES256"),
    "a key of its own": sign(
        {"alg": "ES256", "jwk": public(OTHER_EC)}, claims(), OTHER_EC
    ),
    "a key URL of its own": sign(
        {"alg": "ES256", "jku": "https://evil.example"}, claims(), OTHER_EC
    ),
    "an unknown critical header": sign({"alg": "ES256", "crit": ["x"]}, claims(), EC),
    "a payload that is not encoded": sign({"alg": "ES256", "b64": False}, claims(), EC),
    "an ID-JAG": sign({"alg": "ES256", "typ": "oauth-id-jag+jwt"}, claims(), EC),
    "a type that is not a string": sign({"alg": "ES256", "typ": 1}, claims(), EC),
    "no algorithm": sign({}, claims(), EC, by="ES256"),
    "a key id that is not a string": sign({"alg": "ES256", "kid": 1}, claims(), EC),
    "encrypted": "a.b.c.d.e",
    "one part": "abc",
    "padding": token() + "=",
    "a space": token() + " ",
    "no JSON": sign({"alg": "ES256"}, b"{", EC),
    "no object": sign({"alg": "ES256"}, [], EC),
    "an infinite expiry": sign(
        {"alg": "ES256"}, b'{"iss":"%s","exp":1e999}' % ISSUER.encode(), EC
    ),
    "a header that is not an object": sign(b"[]", {}, None) + "AA",
    "no Base64": "a.b.c",
    "an altered payload": ".".join(
        [token().split(".")[0], encoded(b'{"sub":"eve"}'), token().split(".")[2]]
    ),
}


@pytest.mark.case("G01")
@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_forged_or_malformed_token_is_refused(text):
    assert text not in refuse(text)


UNSOUND = {
    "another issuer": {"iss": "https://other.example"},
    "an issuer with a slash": {"iss": ISSUER + "/"},
    "no issuer": {"iss": None},
    "expired": {"exp": NOW - 30},
    "without an expiry": {"exp": None},
    "with a malformed expiry": {"exp": "tomorrow"},
    "with a boolean expiry": {"exp": True},
    "not yet valid": {"nbf": NOW + 31},
    "without an audience": {"aud": None},
    "with an empty audience": {"aud": []},
    "with a number as audience": {"aud": 5},
    "with numbers in the audience": {"aud": [RESOURCE, 5]},
    "with a number as subject": {"sub": 5},
    "with malformed scopes": {"scope": 5},
}


@pytest.mark.case("G01")
@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize("members", UNSOUND.values(), ids=UNSOUND)
def test_signed_token_with_invalid_claims_is_refused(members):
    refuse(token(**members))


@pytest.mark.parametrize("members", [{"exp": NOW - 29}, {"nbf": NOW + 30}])
def test_leeway_tolerates_clock_differences(members):
    assert verify(token(**members)).subject == "ann"
    refuse(token(**members), leeway=0)


@pytest.mark.rule("FLOW-23")
@pytest.mark.attack("S08")
def test_audience_option_restricts_tokens():
    assert verify(token(aud=["urn:a", RESOURCE]), audience="urn:a").subject == "ann"
    assert verify(token(aud="urn:a"), audience=["urn:a", "urn:b"]).subject == "ann"
    assert "another server" in refuse(token(), audience="urn:a")


@pytest.mark.parametrize(
    ("members", "scopes"),
    [
        ({"scope": "a  b a"}, {"a", "b"}),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scope": None, "scp": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": "a", "scp": "b"}, {"a"}),
        ({"scope": None}, set()),
        ({"scope": 'a "b'}, {"a"}),
    ],
)
def test_scope_and_scp_claims_are_read(members, scopes):
    assert verify(token(**members)).scopes == scopes


def test_azp_claim_is_read_as_the_client_id():
    assert verify(token(client_id=None, azp="web")).client_id == "web"


def test_key_id_selects_the_key():
    named = sign({"alg": "ES256", "kid": "a"}, claims(), EC)
    assert verify(named, jwks=KEYS).subject == "ann"
    refuse(sign({"alg": "ES256", "kid": "z"}, claims(), EC), jwks=KEYS)


def test_key_id_is_ignored_with_a_single_key():
    named = sign({"alg": "ES256", "kid": "z"}, claims(), EC)
    assert verify(named, key=public(EC, kid="a")).subject == "ann"


def test_key_with_an_algorithm_is_used_for_that_one_only():
    keys = {"keys": [public(RSA, alg="PS256")]}
    assert verify(token(RSA, "PS256"), jwks=keys).subject == "ann"
    refuse(token(RSA, "RS256"), jwks=keys)


def test_algorithms_option_restricts_tokens():
    assert verify(token(), algorithms="ES256").subject == "ann"
    assert "algorithm is not accepted" in refuse(token(), algorithms=["RS256", "ES384"])


def test_unusable_keys_in_a_key_set_are_ignored():
    keys = [
        "text",
        {},
        {"kty": "oct", "k": encoded(SECRET)},
        public(OTHER_EC, use="enc"),
        public(OTHER_EC, key_ops=["encrypt"]),
        public(OTHER_EC, key_ops="verify"),
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "!"},
        {"kty": "EC", "crv": "P-0", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {"kty": ["EC"]},
        public(EC, use="sig", key_ops=["verify"]),
    ]
    assert verify(token(), jwks={"keys": keys}).subject == "ann"
    refuse(token(OTHER_EC), jwks={"keys": keys})


def test_private_key_in_a_key_set_verifies_like_a_public_one():
    private = EC.as_dict(private=True) | {"key_ops": ["sign"]}
    assert verify(token(), jwks={"keys": [private]}).subject == "ann"


def test_error_of_the_crypto_library_refuses_the_token(monkeypatch):
    def fail(*_):
        raise ValueError(SECRET)

    monkeypatch.setattr(JWSRegistry.algorithms["ES256"], "verify", fail)
    assert "signature" in refuse(token())


def test_verified_token_is_cached_until_it_expires():
    now = [NOW]
    made = JwtVerifier(ISSUER, key=public(EC), clock=lambda: now[0], leeway=0)
    text = token(exp=NOW + 20)
    first = asyncio.run(made.verify(text))
    assert asyncio.run(made.verify(text)) is first
    now[0] = NOW + 20
    with pytest.raises(InvalidToken):
        asyncio.run(made.verify(text))


def test_cached_token_is_verified_again_after_a_minute():
    now = [NOW]
    made = JwtVerifier(ISSUER, key=public(EC), clock=lambda: now[0])
    text = token()
    first = asyncio.run(made.verify(text))
    now[0] = NOW + 60
    assert asyncio.run(made.verify(text)) is not first


@pytest.mark.parametrize(
    "options",
    [
        {"key": SECRET, "jwks": KEYS},
        {"key": b"short"},
        {"key": "no PEM"},
        {"key": {"kty": "EC"}},
        {"key": {"kty": "RSA", "n": encoded(b"n" * 128), "e": "AQAB"}},
        {"key": SECRET, "algorithms": ["ES256"]},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": ["ES256", "HS256"]},
        {"algorithms": []},
        {"audience": []},
        {"leeway": -1},
        {"leeway": 301},
        {"jwks_uri": "http://login.example/keys"},
    ],
)
def test_unsound_verifier_options_are_refused(options):
    with pytest.raises(ValueError):
        verifier(**options)


def test_http_is_allowed_on_loopback_or_with_allow_insecure():
    assert verifier(jwks_uri="http://127.0.0.1:9/keys")
    assert verifier(jwks_uri=Http("http://login/keys", allow_insecure=True))


def test_missing_joserfc_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(LocalProtocolError, match=r"pip install joserfc$"):
        verifier()


@pytest.mark.case("G13")
def test_repr_of_tokens_and_keys_shows_no_secret():
    text = token(email="hush-hush")
    parts = read_signed_token(text)
    assert "hush-hush" not in repr(parts)
    assert encoded(parts.signature) not in repr(parts)
    assert "OctKey" not in repr(import_secret(SECRET))


@pytest.mark.case("G13")
def test_verifier_repr_shows_the_issuer_but_no_key():
    shown = repr(verifier(key=SECRET))
    assert shown == f"<JwtVerifier of '{ISSUER}'>"


@given(st.text(max_size=40), st.integers(0, 400), st.characters())
def test_random_or_altered_token_is_refused(text, index, character):
    valid = token()
    changed = valid[:index] + character + valid[index + 1 :]
    for wrong in (text, changed, valid[:index]):
        if wrong != valid:
            refuse(wrong)
