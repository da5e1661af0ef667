"""Tokens bound to a key, and their DPoP proofs (RFC 9449)."""

import hashlib

import pytest
from issuing import EC, ED, OTHER_EC, P384, RSA, encoded, public, sign
from joserfc.jwk import ECKey
from resources import (
    KNOWN,
    NOW,
    RESOURCE,
    Verdicts,
    ask,
    denial_of,
    principal,
    refusal,
    resource,
)

from mcpwire.auth.jwt import Prover, generate_proof_key
from mcpwire.auth.resource_server import PROOF_ALGORITHMS

TOKEN = "the-token"
ATH = encoded(hashlib.sha256(TOKEN.encode()).digest())


def verifier_for(key=EC, **members):
    cnf = {"cnf": {"jkt": key.thumbprint()}}
    return Verdicts({TOKEN: principal(claims=cnf, **members)})


def proof(key=EC, *, header=None, **claims):
    defaults = {"htm": "POST", "htu": RESOURCE, "iat": NOW, "jti": "one", "ath": ATH}
    proof_claims = {k: v for k, v in (defaults | claims).items() if v is not None}
    head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": public(key)}
    return sign(head | (header or {}), proof_claims, key, by="ES256")


def dpop_server(**options):
    return resource(verifier_for(), **({"dpop": True} | options))


@pytest.mark.case("G01")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(EC, "ES256"), (P384, "ES384"), (RSA, "RS256"), (RSA, "PS256"), (ED, "EdDSA")],
)
def test_proof_with_any_key_type_is_accepted(key, algorithm):
    head = {"typ": "dpop+jwt", "alg": algorithm, "jwk": public(key)}
    claims = {"htm": "POST", "htu": RESOURCE, "iat": NOW, "jti": "one", "ath": ATH}
    server = resource(verifier_for(key), dpop=True)
    made = sign(head, claims, key)
    assert ask(server, authorization=f"DPoP {TOKEN}", dpop=made).subject == "ann"


def test_proof_of_the_mcpwire_client_is_accepted():
    key = generate_proof_key()
    prover = Prover(key)
    made = prover.proof("POST", RESOURCE + "?a=b", now=NOW, jti="x", access_token=TOKEN)
    claims = {"cnf": {"jkt": ECKey.import_key(key).thumbprint()}}
    server = resource(Verdicts({TOKEN: principal(claims=claims)}), dpop=True)
    assert ask(server, authorization=f"DPoP {TOKEN}", dpop=made).subject == "ann"


WRONG = {
    "of another key": proof(OTHER_EC),
    "signed by another key": proof(OTHER_EC, header={"jwk": public(EC)}),
    "of another method": proof(htm="GET"),
    "of another case of it": proof(htm="post"),
    "of another path": proof(htu=RESOURCE + "/more"),
    "of another host": proof(htu="https://evil.example/mcp"),
    "of no URL": proof(htu="mcp"),
    "of a number": proof(htu=5),
    "of no request": proof(htu=None),
    "too old": proof(iat=NOW - 61),
    "too early": proof(iat=NOW + 61),
    "without a time": proof(iat=None),
    "of a text for a time": proof(iat=str(NOW)),
    "with an infinite time": proof(iat=1e300),
    "with no id": proof(jti=None),
    "with an empty id": proof(jti=""),
    "with a number for an id": proof(jti=5),
    "with an endless id": proof(jti="a" * 1_025),
    "of another token": proof(ath=encoded(hashlib.sha256(b"other").digest())),
    "of no token": proof(ath=None),
    "of another kind of signature": proof(header={"alg": "RS256"}),
    "of another type": proof(header={"typ": "JWT"}),
    "without a key": proof(header={"jwk": None}),
    "with a malformed key": proof(header={"jwk": {"kty": "EC"}}),
    "with its private key": proof(header={"jwk": EC.as_dict(private=True)}),
    "with a shared secret": sign(
        {"typ": "dpop+jwt", "alg": "HS256", "jwk": {"kty": "oct", "k": "AA"}}, {}, b"\0"
    ),
    "unsigned": sign({"typ": "dpop+jwt", "alg": "none", "jwk": public(EC)}, {}, None),
    "that needs an extension": proof(header={"crit": ["x"]}),
    "too long": proof(jti="a" * 4_000),
    "twice": [proof(), proof(jti="two")],
    "none": [],
    "no JWT": "proof",
}


@pytest.mark.case("G01")
@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG)
def test_invalid_proof_is_refused(shown):
    refused = refusal(dpop_server(), authorization=f"DPoP {TOKEN}", dpop=shown)
    assert (refused.http_status, refused.error) == (401, "invalid_dpop_proof")
    assert 'error="invalid_dpop_proof"' in refused.http_headers[0][1]


@pytest.mark.parametrize("skew", [-59, 0, 59])
def test_proof_cannot_be_replayed(skew):
    server, made = dpop_server(), proof(iat=NOW + skew)
    ask(server, authorization=f"DPoP {TOKEN}", dpop=made)
    refused = refusal(server, authorization=f"DPoP {TOKEN}", dpop=made)
    assert refused.error == "invalid_dpop_proof"
    another = proof(iat=NOW + skew, jti="two")
    assert ask(server, authorization=f"DPoP {TOKEN}", dpop=another).subject == "ann"


@pytest.mark.parametrize("dpop", [False, True, "required"])
def test_bound_token_without_a_proof_is_refused(dpop):
    refused = refusal(
        resource(verifier_for(), dpop=dpop), authorization=f"Bearer {TOKEN}"
    )
    assert (refused.http_status, refused.error) == (401, "invalid_token")


@pytest.mark.parametrize(
    ("dpop", "scheme", "claims"),
    [
        (False, "DPoP", {"cnf": {"jkt": EC.thumbprint()}}),
        (True, "DPoP", {}),
        ("required", "Bearer", {}),
        ("required", "DPoP", {}),
        (True, "Bearer", {"cnf": {"x5t#S256": "a"}}),
        (True, "DPoP", {"cnf": {"jkt": EC.thumbprint(), "x5t#S256": "a"}}),
        (True, "DPoP", {"cnf": {"jkt": 5}}),
        (True, "Bearer", {"cnf": None}),
        (False, "Bearer", {"cnf": {}}),
    ],
)
def test_token_with_the_wrong_scheme_or_binding_is_refused(dpop, scheme, claims):
    server = resource(Verdicts({TOKEN: principal(claims=claims)}), dpop=dpop)
    refused = refusal(server, authorization=f"{scheme} {TOKEN}", dpop=proof())
    assert (refused.http_status, refused.error) == (401, "invalid_token")


def test_unbound_bearer_token_is_accepted_with_dpop_enabled():
    server = resource(Verdicts({TOKEN: principal()}), dpop=True)
    assert ask(server, authorization=f"Bearer {TOKEN}").subject == "ann"


@pytest.mark.parametrize(
    ("htu", "url"),
    [
        (RESOURCE, RESOURCE),
        (RESOURCE, "http://10.0.0.1:8000/mcp?a=b"),
        (RESOURCE, "http://10.0.0.1/"),
        ("https://MCP.example:443/mcp/sse?x=y#z", "http://127.0.0.1:8000/mcp/sse"),
    ],
)
def test_proof_url_is_the_public_resource_url_or_has_the_requested_path(htu, url):
    shown = {"authorization": f"DPoP {TOKEN}", "dpop": proof(htu=htu, htm="GET")}
    assert ask(dpop_server(), verb="GET", url=url, **shown).subject == "ann"


@pytest.mark.parametrize(
    ("dpop", "schemes", "required"),
    [(True, (True, True), None), ("required", (False, True), True)],
)
def test_dpop_support_is_in_metadata_and_challenge(dpop, schemes, required):
    server = dpop_server(dpop=dpop)
    document = server.metadata()
    assert document["dpop_signing_alg_values_supported"] == list(PROOF_ALGORITHMS)
    assert document.get("dpop_bound_access_tokens_required") is required
    denial = denial_of(refusal(server))
    assert (denial.has_bearer, denial.has_dpop) == schemes
    assert denial.resource_metadata == KNOWN


def test_proof_ids_are_separate_per_key():
    keys = {"one": EC, "two": OTHER_EC}
    verdicts = {
        name: principal(claims={"cnf": {"jkt": key.thumbprint()}})
        for name, key in keys.items()
    }
    server = resource(Verdicts(verdicts), dpop=True)
    for name, key in keys.items():
        made = proof(key, ath=encoded(hashlib.sha256(name.encode()).digest()))
        assert ask(server, authorization=f"DPoP {name}", dpop=made).subject == "ann"
