"""What is stored comes back with every member that it can have."""

import attrs
import pytest

from mcpwire.auth.records import (
    Identity,
    Pending,
    Record,
    ServerMetadata,
    Tokens,
    dump,
    dump_pending,
    load,
    load_pending,
)

METADATA = ServerMetadata(
    issuer="https://as.example",
    authorization_endpoint="https://as.example/authorize",
    token_endpoint="https://as.example/token",
    registration_endpoint="https://as.example/register",
    revocation_endpoint="https://as.example/revoke",
    scopes_supported=("a", "b"),
    grant_types_supported=("authorization_code",),
    token_endpoint_auth_methods_supported=("none",),
    token_endpoint_auth_signing_alg_values_supported=("ES256",),
    code_challenge_methods_supported=("S256",),
    dpop_signing_alg_values_supported=("ES256",),
    client_id_metadata_document_supported=True,
    authorization_response_iss_parameter_supported=True,
    is_assumed=True,
)
IDENTITY = Identity(
    client_id="some-client",
    client_secret="some-secret",
    issuer="https://as.example",
    kind="registered",
    auth_method="client_secret_post",
    secret_expires_at=1_800_000_000.5,
    redirect_uri="http://127.0.0.1:1/callback",
)
TOKENS = Tokens(
    access_token="some-token",
    token_type="DPoP",
    expires_at=1_800_000_000.25,
    refresh_token="some-refresh-token",
    scopes=("a",),
)
RECORD = Record(
    issuer="https://as.example",
    resource="https://mcp.example/mcp",
    metadata=METADATA,
    identity=IDENTITY,
    tokens=TOKENS,
    asked_scopes=("a", "b"),
    dpop_key={"kty": "EC", "crv": "P-256"},
    registered=Identity("other-client", issuer="https://as.example", kind="registered"),
)


@pytest.mark.parametrize("part", [METADATA, IDENTITY, TOKENS, RECORD])
def test_the_example_leaves_no_member_at_its_default(part):
    for field in attrs.fields(type(part)):
        assert getattr(part, field.name) != field.default, field.name


def test_a_record_with_every_member_comes_back_as_it_was():
    assert load(dump(RECORD)) == RECORD


@pytest.mark.parametrize(
    "method", ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
)
def test_a_registration_is_remembered_with_each_way_to_authenticate(method):
    record = attrs.evolve(RECORD, identity=attrs.evolve(IDENTITY, auth_method=method))
    assert load(dump(record)) == record


def test_a_login_that_was_begun_comes_back_as_it_was():
    pending = Pending(
        record=RECORD,
        state="some-state",
        verifier="some-verifier",
        redirect_uri="http://127.0.0.1:1/callback",
        scopes=("a",),
        begun_at=1_800_000_000.75,
    )
    assert load_pending(dump_pending(pending)) == pending
