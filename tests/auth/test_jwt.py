"""JSON web tokens: client assertions, proofs of possession, and sealed texts."""

import base64
import hashlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from mcpwire.auth.config import ClientCredentials
from mcpwire.auth.jwt import (
    ALGORITHMS,
    Prover,
    client_assertion,
    generate_proof_key,
    import_sealing_key,
    import_signing_key,
    read_nonce,
    seal,
    unseal,
)
from mcpwire.errors import LocalProtocolError

ISSUER = "https://as.example/tenant"


def pem(key, *, private=True, password=None):
    return key.as_pem(private=private, password=password).decode()


EC = {curve: ECKey.generate_key(curve) for curve in ("P-256", "P-384", "P-521")}
RSA = RSAKey.generate_key(2048)


def key_for(algorithm):
    return EC.get(ALGORITHMS[algorithm], RSA)


@pytest.mark.rule("CC-01", "CC-02", "REG-04")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_client_assertion_has_issuer_audience_and_expiry(algorithm):
    key = key_for(algorithm)
    grant = ClientCredentials(
        issuer=ISSUER,
        client_id="me",
        private_key_pem=pem(key),
        signing_algorithm=algorithm,
    )
    text = client_assertion(grant, audience=ISSUER, now=1_000.9, jti="id-1")
    public = type(key).import_key(pem(key, private=False))
    token = jwt.decode(text, public, algorithms=[algorithm])
    assert token.header == {"typ": "JWT", "alg": algorithm}
    assert token.claims == {
        "iss": "me",
        "sub": "me",
        "aud": ISSUER,
        "jti": "id-1",
        "iat": 1_000,
        "exp": 1_300,
    }


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "es256", ""])
def test_symmetric_and_unknown_algorithms_are_refused(algorithm):
    with pytest.raises(ValueError, match="cannot sign with") as refused:
        import_signing_key(pem(EC["P-256"]), algorithm)
    assert "use one of ES256, ES384" in str(refused.value)


WRONG_KIND = "cannot sign with this key: it must be a private key of type"
SHAPES = {
    "no PEM": ("not-a-key", "ES256", WRONG_KIND),
    "encrypted": (pem(EC["P-256"], password="secret"), "ES256", WRONG_KIND),
    "EC for RSA": (pem(EC["P-256"]), "RS256", WRONG_KIND),
    "of another type": (pem(OKPKey.generate_key("Ed25519")), "ES256", WRONG_KIND),
    "public": (pem(EC["P-256"], private=False), "ES256", WRONG_KIND),
    "another curve": (pem(EC["P-384"]), "ES256", "signs with the curve P-256"),
}


@pytest.mark.case("G13")
@pytest.mark.parametrize(("key", "algorithm", "text"), SHAPES.values(), ids=SHAPES)
def test_an_unsuitable_key_is_refused_and_not_shown(key, algorithm, text):
    with pytest.raises(ValueError, match=text) as refused:
        import_signing_key(key, algorithm)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    lines = str(key).splitlines()[1:-1]
    assert not any(line in str(refused.value) for line in lines)


@pytest.mark.filterwarnings("ignore:Key size")  # joserfc warns, we refuse
def test_an_rsa_key_below_2048_bits_is_refused():
    short = pem(RSAKey.generate_key(1024))
    with pytest.raises(ValueError, match="must have 2048 bits, it has 1024"):
        import_signing_key(short, "RS256")


JWKS = {
    "empty": {},
    "public": {
        name: value for name, value in EC["P-256"].as_dict().items() if name != "d"
    },
    "another curve": EC["P-384"].as_dict(private=True),
    "a secret": OctKey.generate_key(256).as_dict(private=True),
    "broken": {**EC["P-256"].as_dict(private=True), "d": "!"},
    "of an unknown curve": {**EC["P-256"].as_dict(private=True), "crv": "P-1"},
}


@pytest.mark.parametrize("key", JWKS.values(), ids=JWKS)
def test_a_jwk_other_than_a_private_p256_key_is_refused(key):
    with pytest.raises(ValueError, match="the key is no") as refused:
        Prover(key)
    assert str(key.get("d")) not in str(refused.value) or not key.get("d")


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda: import_signing_key(pem(EC["P-256"]), "ES256"), "signing with a key"),
        (generate_proof_key, "signing with a key"),
        (lambda: Prover({}), "signing with a key"),
        (lambda: import_sealing_key(b"x" * 32), "sealing session ids"),
    ],
    ids=["a client's key", "a new key", "a stored key", "a sealing key"],
)
@pytest.mark.parametrize("module", ["joserfc", "joserfc.jwk"])
def test_missing_joserfc_is_named_in_the_error(*, use, what, module, monkeypatch):
    """Without cryptography, joserfc itself can be imported, but not its modules."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LocalProtocolError) as missing:
        use()
    assert str(missing.value) == f"{what} needs joserfc: pip install joserfc"


# --- proofs of possession (RFC 9449) ---------------------------------------------


PROOF_KEY = generate_proof_key()
PUBLIC = {name: PROOF_KEY[name] for name in ("kty", "crv", "x", "y")}
URL = "https://h.example/mcp"


def decoded(proof):
    return jwt.decode(proof, ECKey.import_key(PUBLIC), algorithms=["ES256"])


def claims(prover, url=URL, method="POST", **options):
    return decoded(prover.proof(method, url, now=1_000.9, jti="id-1", **options)).claims


def test_a_proof_contains_the_public_key_only():
    header = decoded(Prover(PROOF_KEY).proof("GET", URL, now=1.0, jti="id-1")).header
    assert header == {"typ": "dpop+jwt", "alg": "ES256", "jwk": PUBLIC}
    assert "d" not in PUBLIC
    named = {**PROOF_KEY, "kid": "mine", "use": "sig", "alg": "ES256"}
    header = decoded(Prover(named).proof("GET", URL, now=1.0, jti="id-1")).header
    assert header["jwk"] == PUBLIC


def test_a_proof_names_method_url_and_time():
    assert claims(Prover(PROOF_KEY), method="DELETE") == {
        "jti": "id-1",
        "htm": "DELETE",
        "htu": URL,
        "iat": 1_000,
    }


TARGETS = {
    "https://h.example/mcp?a=b": "https://h.example/mcp",
    "https://h.example/mcp#c": "https://h.example/mcp",
    "https://H.example:443/A%2Fb/": "https://h.example/A%2Fb/",
    "http://[::1]:8080/a": "http://[::1]:8080/a",
}


@pytest.mark.parametrize(("url", "target"), TARGETS.items(), ids=TARGETS)
def test_a_proof_names_its_url_without_query_and_fragment(url, target):
    assert claims(Prover(PROOF_KEY), url)["htu"] == target


def test_a_proof_with_a_token_contains_its_hash():
    found = claims(Prover(PROOF_KEY), access_token="the-token")["ath"]
    digest = hashlib.sha256(b"the-token").digest()
    assert base64.urlsafe_b64decode(f"{found}=") == digest


def test_a_proof_contains_the_nonce():
    assert "nonce" not in claims(Prover(PROOF_KEY))
    assert claims(Prover(PROOF_KEY), nonce="n")["nonce"] == "n"


@pytest.mark.parametrize(
    "nonce", [None, "", "a b", 'a"b', "a\\b", "a\x7f", "é", "n" * 1_025, "n\n"]
)
def test_an_invalid_nonce_is_ignored(nonce):
    assert read_nonce(nonce) is None
    assert read_nonce("eyJ7S_zG.eyJH0-Z.HX4w-7v") == "eyJ7S_zG.eyJH0-Z.HX4w-7v"


def test_generated_keys_differ_and_hold_texts():
    assert generate_proof_key() != generate_proof_key()
    assert set(PROOF_KEY) >= {"kty", "crv", "x", "y", "d"}
    assert all(isinstance(value, str) for value in PROOF_KEY.values())


@given(st.text(st.characters(codec="utf-8")), st.floats(0, 4e9))
def test_a_proof_verifies_for_any_token_and_time(token, now):
    proof = Prover(PROOF_KEY).proof("GET", URL, now=now, jti="id", access_token=token)
    found = decoded(proof).claims
    assert found["iat"] == int(now)
    assert "ath" in found
    assert not {"=", "+", "/"} & set(found["ath"])


OLD = import_sealing_key(b"o" * 32)
NEW = import_sealing_key(b"n" * 32)
KIND = "test-1"


@pytest.mark.system("O20")
@pytest.mark.parametrize("text", [b"", b"\0\0leading zeros", b"\xff" * 100, b"{}"])
def test_unseal_returns_the_sealed_text(text: bytes) -> None:
    sealed = seal(text, NEW, kind=KIND)
    assert all("!" <= letter <= "~" for letter in sealed)
    key = import_sealing_key(b"n" * 32)
    assert unseal(sealed, [key], kind=KIND) == text


UNSEALED = {
    "an older key": (seal(b"x", OLD, kind=KIND), [NEW, OLD], b"x"),
    "another key": (seal(b"x", OLD, kind=KIND), [NEW], None),
    "no key": (seal(b"x", OLD, kind=KIND), [], None),
    "another kind": (seal(b"x", NEW, kind="other-1"), [NEW], None),
    "an oversized text": (seal(b"x" * 100_000, NEW, kind=KIND), [NEW], None),
}


@pytest.mark.system("O20", "O22")
@pytest.mark.parametrize(("sealed", "keys", "text"), UNSEALED.values(), ids=UNSEALED)
def test_unseal_needs_one_of_the_keys_and_the_kind(sealed, keys, text) -> None:
    assert unseal(sealed, keys, kind=KIND) == text


@pytest.mark.system("O20")
def test_changing_any_character_invalidates_a_sealed_text() -> None:
    """Also the last one of each part, of which base64 ignores some bits."""
    sealed = seal(b"secret", NEW, kind=KIND)
    for at, letter in enumerate(sealed):
        for other in "AQgw_.":
            if other != letter:
                changed = f"{sealed[:at]}{other}{sealed[at + 1 :]}"
                assert unseal(changed, [NEW], kind=KIND) is None


@pytest.mark.system("O20")
@pytest.mark.parametrize(
    "given", ["", ".", "....", "x" * 100, "eyJhbGciOiJub25lIn0....", "\xe9", "\ud800"]
)
def test_unseal_returns_none_for_garbage(given: str) -> None:
    assert unseal(given, [NEW], kind=KIND) is None
    start = seal(b"x", NEW, kind=KIND).partition("..")[0]
    assert unseal(f"{start}..{given}", [NEW], kind=KIND) is None
    assert unseal(f"{start}..{given}.{given}.{given}", [NEW], kind=KIND) is None


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33, "x" * 32, None])
def test_an_invalid_sealing_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(ValueError, match="32 random bytes") as caught:
        import_sealing_key(key)
    assert "xxx" not in str(caught.value)
