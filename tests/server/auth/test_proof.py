"""Tokens that are bound to a key, and the proofs that go with them (RFC 9449)."""

import hashlib

import pytest
from issuing import EC, ED, OTHER_EC, P384, RSA, encoded, public, sign
from resources import (
    KNOWN,
    NOW,
    RESOURCE,
    Verdicts,
    ask,
    denial_of,
    principal,
    resource,
)

from mcpwire.auth.jwt import Prover, generate_proof_key
from mcpwire.auth.resource_server import PROOF_ALGORITHMS, ReplayCache
from mcpwire.server.auth import AuthenticationRefused

TOKEN = "the-token"
ATH = encoded(hashlib.sha256(TOKEN.encode()).digest())


def owned(key=EC, **members):
    cnf = {"cnf": {"jkt": key.thumbprint()}}
    return Verdicts({TOKEN: principal(claims=cnf, **members)})


def proof(key=EC, *, header=None, **claims):
    usual = {"htm": "POST", "htu": RESOURCE, "iat": NOW, "jti": "one", "ath": ATH}
    said = {k: v for k, v in (usual | claims).items() if v is not None}
    head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": public(key)}
    return sign(head | (header or {}), said, key, by="ES256")


def refusal(server, **fields):
    with pytest.raises(AuthenticationRefused) as caught:
        ask(server, **fields)
    return caught.value


def bound(**options):
    return resource(owned(), **({"dpop": True} | options))


@pytest.mark.case("G01")
@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(EC, "ES256"), (P384, "ES384"), (RSA, "RS256"), (RSA, "PS256"), (ED, "EdDSA")],
)
def test_who_has_the_key_comes_in_whatever_kind_it_is(key, algorithm):
    head = {"typ": "dpop+jwt", "alg": algorithm, "jwk": public(key)}
    claims = {"htm": "POST", "htu": RESOURCE, "iat": NOW, "jti": "one", "ath": ATH}
    server = resource(owned(key), dpop=True)
    made = sign(head, claims, key)
    assert ask(server, authorization=f"DPoP {TOKEN}", dpop=made).subject == "ann"


def test_the_proofs_of_our_own_client_are_good():
    key = generate_proof_key()
    prover = Prover(key)
    made = prover.proof("POST", RESOURCE + "?a=b", now=NOW, jti="x", access_token=TOKEN)
    claims = {"cnf": {"jkt": prover._key.thumbprint()}}
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
    "of no time": proof(iat=None),
    "of a text for a time": proof(iat=str(NOW)),
    "of an endless time": proof(iat=1e300),
    "with no id": proof(jti=None),
    "with an empty id": proof(jti=""),
    "with a number for an id": proof(jti=5),
    "with an endless id": proof(jti="a" * 1_025),
    "of another token": proof(ath=encoded(hashlib.sha256(b"other").digest())),
    "of no token": proof(ath=None),
    "of another kind of signature": proof(header={"alg": "RS256"}),
    "of another type": proof(header={"typ": "JWT"}),
    "that shows no key": proof(header={"jwk": None}),
    "that shows a key that is none": proof(header={"jwk": {"kty": "EC"}}),
    "that shows its private key": proof(header={"jwk": EC.as_dict(private=True)}),
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
def test_a_proof_that_proves_nothing_lets_nobody_in(shown):
    refused = refusal(bound(), authorization=f"DPoP {TOKEN}", dpop=shown)
    assert (refused.http_status, refused.error) == (401, "invalid_dpop_proof")
    assert 'error="invalid_dpop_proof"' in refused.http_headers[0][1]


def test_a_proof_is_good_once():
    server, made = bound(), proof()
    ask(server, authorization=f"DPoP {TOKEN}", dpop=made)
    refused = refusal(server, authorization=f"DPoP {TOKEN}", dpop=made)
    assert refused.error == "invalid_dpop_proof"
    another = proof(jti="two")
    assert ask(server, authorization=f"DPoP {TOKEN}", dpop=another).subject == "ann"


@pytest.mark.parametrize("dpop", [False, True, "required"])
def test_a_bound_token_is_nothing_without_its_proof(dpop):
    refused = refusal(resource(owned(), dpop=dpop), authorization=f"Bearer {TOKEN}")
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
def test_a_token_is_sent_as_it_was_given_out_and_as_is_taken_here(dpop, scheme, claims):
    server = resource(Verdicts({TOKEN: principal(claims=claims)}), dpop=dpop)
    refused = refusal(server, authorization=f"{scheme} {TOKEN}", dpop=proof())
    assert (refused.http_status, refused.error) == (401, "invalid_token")


def test_tokens_that_are_bound_to_nothing_are_taken_beside_those_that_are():
    server = resource(Verdicts({TOKEN: principal()}), dpop=True)
    assert ask(server, authorization=f"Bearer {TOKEN}").subject == "ann"


@pytest.mark.parametrize(
    "url", [RESOURCE, "http://10.0.0.1:8000/mcp?a=b", "http://10.0.0.1/"]
)
def test_the_url_of_a_proof_is_the_one_that_clients_know(url):
    made = proof(htu=RESOURCE)
    known = ask(bound(), url=url, authorization=f"DPoP {TOKEN}", dpop=made)
    assert known.subject == "ann"


def test_the_url_of_a_proof_may_be_of_another_path_that_was_asked():
    made = proof(htu="https://MCP.example:443/mcp/sse?x=y#z", htm="GET")
    known = ask(
        bound(),
        verb="GET",
        url="http://127.0.0.1:8000/mcp/sse",
        authorization=f"DPoP {TOKEN}",
        dpop=made,
    )
    assert known.subject == "ann"


@pytest.mark.parametrize(
    ("dpop", "schemes", "required"),
    [(True, (True, True), None), ("required", (False, True), True)],
)
def test_what_is_taken_is_said(dpop, schemes, required):
    server = bound(dpop=dpop)
    document = server.metadata()
    assert document["dpop_signing_alg_values_supported"] == list(PROOF_ALGORITHMS)
    assert document.get("dpop_bound_access_tokens_required") is required
    denial = denial_of(refusal(server))
    assert (denial.has_bearer, denial.has_dpop) == schemes
    assert denial.resource_metadata == KNOWN


# Replays...


def test_the_same_id_of_another_key_is_another_proof():
    replays = ReplayCache()
    assert replays.record("a", "ann", now=0, until=10)
    assert replays.record("a", "bob", now=0, until=10)
    assert not replays.record("a", "ann", now=9, until=10)
    assert replays.record("a", "ann", now=10, until=20)


def test_what_is_remembered_of_proofs_is_bounded():
    replays = ReplayCache(10)
    for number in range(100):
        assert replays.record(str(number), "ann", now=0, until=10)
    assert len(replays) <= 10
    assert not replays.record("99", "ann", now=0, until=10)


def test_what_is_too_old_to_come_again_is_forgotten():
    replays = ReplayCache()
    for number in range(100):
        replays.record(str(number), "ann", now=number, until=number + 5)
    assert len(replays) <= 7
