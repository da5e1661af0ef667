"""Client assertions: signed claims, accepted keys, and error texts without keys."""

import sys

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from mcpwire.auth.config import ClientCredentials
from mcpwire.auth.jwt import (
    ALGORITHMS,
    Prover,
    client_assertion,
    generate_proof_key,
    import_signing_key,
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
    "use",
    [
        lambda: import_signing_key(pem(EC["P-256"]), "ES256"),
        generate_proof_key,
        lambda: Prover({}),
    ],
    ids=["a client's key", "a new key", "a stored key"],
)
def test_missing_joserfc_is_named_in_the_error(use, monkeypatch):
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(LocalProtocolError) as missing:
        use()
    assert str(missing.value) == (
        "signing with a key needs joserfc: pip install joserfc"
    )
