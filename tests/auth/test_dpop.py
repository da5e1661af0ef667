"""Proofs of possession (RFC 9449): one request each, and the servers' nonces."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey

from mcpwire.auth.jwt import Prover, generate_proof_key, read_nonce

KEY = generate_proof_key()
PUBLIC = {name: KEY[name] for name in ("kty", "crv", "x", "y")}
URL = "https://h.example/mcp"


def decoded(proof):
    return jwt.decode(proof, ECKey.import_key(PUBLIC), algorithms=["ES256"])


def claims(prover, url=URL, method="POST", **options):
    return decoded(prover.proof(method, url, now=1_000.9, jti="id-1", **options)).claims


def test_a_proof_contains_the_public_key_only():
    header = decoded(Prover(KEY).proof("GET", URL, now=1.0, jti="id-1")).header
    assert header == {"typ": "dpop+jwt", "alg": "ES256", "jwk": PUBLIC}
    assert "d" not in PUBLIC
    named = {**KEY, "kid": "mine", "use": "sig", "alg": "ES256"}
    header = decoded(Prover(named).proof("GET", URL, now=1.0, jti="id-1")).header
    assert header["jwk"] == PUBLIC


def test_a_proof_names_method_url_and_time():
    assert claims(Prover(KEY), method="DELETE") == {
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
    assert claims(Prover(KEY), url)["htu"] == target


def test_a_proof_with_a_token_contains_its_hash():
    found = claims(Prover(KEY), access_token="the-token")["ath"]
    digest = hashlib.sha256(b"the-token").digest()
    assert base64.urlsafe_b64decode(f"{found}=") == digest


# --- nonces ----------------------------------------------------------------------


def test_a_proof_contains_the_nonce():
    assert "nonce" not in claims(Prover(KEY))
    assert claims(Prover(KEY), nonce="n")["nonce"] == "n"


@pytest.mark.parametrize(
    "nonce", [None, "", "a b", 'a"b', "a\\b", "a\x7f", "é", "n" * 1_025, "n\n"]
)
def test_an_invalid_nonce_is_ignored(nonce):
    assert read_nonce(nonce) is None
    assert read_nonce("eyJ7S_zG.eyJH0-Z.HX4w-7v") == "eyJ7S_zG.eyJH0-Z.HX4w-7v"


# --- keys ------------------------------------------------------------------------


def test_generated_keys_differ_and_hold_texts():
    assert generate_proof_key() != generate_proof_key()
    assert set(KEY) >= {"kty", "crv", "x", "y", "d"}
    assert all(isinstance(value, str) for value in KEY.values())


@given(st.text(st.characters(codec="utf-8")), st.floats(0, 4e9))
def test_a_proof_verifies_for_any_token_and_time(token, now):
    proof = Prover(KEY).proof("GET", URL, now=now, jti="id", access_token=token)
    found = decoded(proof).claims
    assert found["iat"] == int(now)
    assert "ath" in found
    assert not {"=", "+", "/"} & set(found["ath"])
