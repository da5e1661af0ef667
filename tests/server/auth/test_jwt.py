"""Which JWTs are believed, and which are not."""

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


def test_a_token_says_who_it_is_of_and_what_it_allows():
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
def test_the_usual_signatures_are_understood(key, algorithm):
    assert verify(token(key, algorithm), jwks={"keys": [public(key)]}).subject == "ann"
    assert verify(token(key, algorithm), key=public(key)).subject == "ann"
    pem = key.as_pem(private=False).decode()
    assert verify(token(key, algorithm), key=pem).subject == "ann"


def test_a_signature_goes_by_both_names_of_its_algorithm():
    made = sign({"alg": "Ed25519"}, claims(), ED, by="EdDSA")
    assert verify(made, jwks=KEYS).subject == "ann"


def test_a_shared_secret_is_for_who_asks_for_it():
    made = token(SECRET, "HS256")
    assert verify(made, key=SECRET).subject == "ann"
    assert "algorithm is not accepted" in refuse(made, key=SECRET, algorithms=["HS512"])


FORGED = {
    "no signature": sign({"alg": "none"}, claims(), None),
    "no signature, spelled otherwise": sign({"alg": "nOnE"}, claims(), None) + "AA",
    "an empty signature": sign({"alg": "ES256"}, claims(), None),
    "another key": token(OTHER_EC),
    "a public key as a secret": sign(
        {"alg": "HS256"},
        claims(),
        EC.as_pem(private=False),
    ),
    "an algorithm of another kind": sign({"alg": "RS256"}, claims(), EC, by="ES256"),
    "a key of its own": sign(
        {"alg": "ES256", "jwk": public(OTHER_EC)}, claims(), OTHER_EC
    ),
    "a place of keys of its own": sign(
        {"alg": "ES256", "jku": "https://evil.example"}, claims(), OTHER_EC
    ),
    "what must be understood": sign({"alg": "ES256", "crit": ["x"]}, claims(), EC),
    "a payload that is not encoded": sign({"alg": "ES256", "b64": False}, claims(), EC),
    "an ID-JAG": sign({"alg": "ES256", "typ": "oauth-id-jag+jwt"}, claims(), EC),
    "a type that is no text": sign({"alg": "ES256", "typ": 1}, claims(), EC),
    "no algorithm": sign({}, claims(), EC, by="ES256"),
    "a key's name that is no text": sign({"alg": "ES256", "kid": 1}, claims(), EC),
    "encrypted": "a.b.c.d.e",
    "one part": "abc",
    "padding": token() + "=",
    "a space": token() + " ",
    "no JSON": sign({"alg": "ES256"}, b"{", EC),
    "no object": sign({"alg": "ES256"}, [], EC),
    "a time without end": sign(
        {"alg": "ES256"}, b'{"iss":"%s","exp":1e999}' % ISSUER.encode(), EC
    ),
    "a header that is no object": sign(b"[]", {}, None) + "AA",
    "no Base64": "a.b.c",
    "an altered payload": ".".join(
        [token().split(".")[0], encoded(b'{"sub":"eve"}'), token().split(".")[2]]
    ),
}


@pytest.mark.case("G01")
@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_what_the_issuer_has_not_signed_is_not_believed(text):
    assert text not in refuse(text)


UNSOUND = {
    "another issuer": {"iss": "https://other.example"},
    "an issuer with a slash": {"iss": ISSUER + "/"},
    "no issuer": {"iss": None},
    "over": {"exp": NOW - 30},
    "never over": {"exp": None},
    "over at no time": {"exp": "tomorrow"},
    "over at a truth": {"exp": True},
    "not yet": {"nbf": NOW + 31},
    "for nobody": {"aud": None},
    "for nobody at all": {"aud": []},
    "for a number": {"aud": 5},
    "for numbers": {"aud": [RESOURCE, 5]},
    "of a number": {"sub": 5},
    "with scopes that are none": {"scope": 5},
}


@pytest.mark.case("G01")
@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize("members", UNSOUND.values(), ids=UNSOUND)
def test_what_is_signed_may_be_wrong_all_the_same(members):
    refuse(token(**members))


@pytest.mark.parametrize("members", [{"exp": NOW - 29}, {"nbf": NOW + 30}])
def test_clocks_may_differ_a_little(members):
    assert verify(token(**members)).subject == "ann"
    refuse(token(**members), leeway=0)


@pytest.mark.rule("FLOW-23")
@pytest.mark.attack("S08")
def test_a_verifier_may_want_an_audience_of_its_own():
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
def test_scopes_are_understood_as_issuers_spell_them(members, scopes):
    assert verify(token(**members)).scopes == scopes


def test_a_client_is_understood_as_issuers_name_it():
    assert verify(token(client_id=None, azp="web")).client_id == "web"


# Which key...


def test_a_named_key_is_the_one_that_counts():
    named = sign({"alg": "ES256", "kid": "a"}, claims(), EC)
    assert verify(named, jwks=KEYS).subject == "ann"
    refuse(sign({"alg": "ES256", "kid": "z"}, claims(), EC), jwks=KEYS)


def test_the_name_of_the_only_key_does_not_matter():
    named = sign({"alg": "ES256", "kid": "z"}, claims(), EC)
    assert verify(named, key=public(EC, kid="a")).subject == "ann"


def test_a_key_for_one_algorithm_is_for_no_other():
    keys = {"keys": [public(RSA, alg="PS256")]}
    assert verify(token(RSA, "PS256"), jwks=keys).subject == "ann"
    refuse(token(RSA, "RS256"), jwks=keys)


def test_which_algorithms_are_taken_can_be_narrowed():
    assert verify(token(), algorithms="ES256").subject == "ann"
    assert "algorithm is not accepted" in refuse(token(), algorithms=["RS256", "ES384"])


def test_keys_that_check_nothing_are_passed_over():
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


def test_a_private_key_among_the_keys_checks_like_its_public_half():
    private = EC.as_dict(private=True) | {"key_ops": ["sign"]}
    assert verify(token(), jwks={"keys": [private]}).subject == "ann"


def test_a_library_that_chokes_on_a_signature_has_not_checked_it(monkeypatch):
    def choke(*_):
        raise ValueError(SECRET)

    monkeypatch.setattr(JWSRegistry.algorithms["ES256"], "verify", choke)
    assert "signature" in refuse(token())


# Remembering...


def test_a_token_is_checked_once_and_good_until_its_time():
    now = [NOW]
    made = JwtVerifier(ISSUER, key=public(EC), clock=lambda: now[0], leeway=0)
    text = token(exp=NOW + 20)
    first = asyncio.run(made.verify(text))
    assert asyncio.run(made.verify(text)) is first
    now[0] = NOW + 20
    with pytest.raises(InvalidToken):
        asyncio.run(made.verify(text))


def test_what_is_remembered_is_checked_again_after_a_while():
    now = [NOW]
    made = JwtVerifier(ISSUER, key=public(EC), clock=lambda: now[0])
    text = token()
    first = asyncio.run(made.verify(text))
    now[0] = NOW + 60
    assert asyncio.run(made.verify(text)) is not first


# How it is made...


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
def test_what_cannot_be_sound_is_refused_at_once(options):
    with pytest.raises(ValueError):
        verifier(**options)


def test_http_is_for_this_machine_or_for_who_says_so():
    assert verifier(jwks_uri="http://127.0.0.1:9/keys")
    assert verifier(jwks_uri=Http("http://login/keys", allow_insecure=True))


def test_without_joserfc_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(LocalProtocolError, match=r"pip install joserfc$"):
        verifier()


@pytest.mark.case("G13")
def test_neither_tokens_nor_keys_are_shown():
    text = token(email="hush-hush")
    parts = read_signed_token(text)
    assert "hush-hush" not in repr(parts)
    assert encoded(parts.signature) not in repr(parts)
    assert "OctKey" not in repr(import_secret(SECRET))


@pytest.mark.case("G13")
def test_it_shows_its_issuer_and_no_key():
    shown = repr(verifier(key=SECRET))
    assert shown == f"<JwtVerifier of '{ISSUER}'>"


@given(st.text(max_size=40), st.integers(0, 400), st.characters())
def test_no_other_text_is_believed(text, index, character):
    good = token()
    changed = good[:index] + character + good[index + 1 :]
    for wrong in (text, changed, good[:index]):
        if wrong != good:
            refuse(wrong)
