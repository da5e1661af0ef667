"""Stored records, and loading them back, valid or not."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.records import (
    Identity,
    PendingLogin,
    Record,
    ServerMetadata,
    Tokens,
    credential_key,
    dump,
    load,
    load_pending,
    pending_key,
)

ISSUER = "https://as.example"
RECORD = Record(
    "https://mcp.example/mcp",
    ServerMetadata(ISSUER, scopes_supported=("a", "b")),
    Identity("some-client", issuer=ISSUER),
    Tokens("some-token", expires_at=1_800_000_000.5, refresh_token="some-refresh"),
    dpop_key={"kty": "EC", "x": "1"},
)
METADATA = ServerMetadata(
    issuer=ISSUER,
    authorization_endpoint="https://as.example/authorize",
    token_endpoint="https://as.example/token",
    registration_endpoint="https://as.example/register",
    revocation_endpoint="https://as.example/revoke",
    scopes_supported=("a", "b"),
    grant_types_supported=("authorization_code",),
    token_endpoint_auth_methods_supported=("none",),
    code_challenge_methods_supported=("S256",),
    dpop_signing_alg_values_supported=("ES256",),
    client_id_metadata_document_supported=True,
    authorization_response_iss_parameter_supported=True,
    is_assumed=True,
)
IDENTITY = Identity(
    client_id="some-client",
    client_secret="some-secret",
    issuer=ISSUER,
    kind="registered",
    auth_method="client_secret_post",
    secret_expires_at=1_800_000_000.5,
    redirect_uri="http://127.0.0.1:1/callback",
    scopes=("a",),
)
TOKENS = Tokens("some-token", "DPoP", 1_800_000_000.25, "some-refresh-token", ("a",))
FULL = Record(
    resource="https://mcp.example/mcp",
    metadata=METADATA,
    identity=IDENTITY,
    tokens=TOKENS,
    asked_scopes=("a", "b"),
    dpop_key={"kty": "EC", "crv": "P-256"},
    registered=Identity("other-client", issuer=ISSUER, kind="registered"),
)
PENDING = PendingLogin(FULL, "some-state", "some-verifier", "http://localhost/", 1.5)


def edited(path, value):
    """Return the record's text with one member replaced; `...` takes it away."""
    document = json.loads(dump(RECORD))
    *parents, name = path.split(".")
    place = document
    for parent in parents:
        place = place[parent]
    if value is ...:
        del place[name]
    else:
        place[name] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "record",
    [
        FULL,
        attrs.evolve(RECORD, tokens=None, dpop_key=None),
        attrs.evolve(RECORD, identity=Identity("https://me.example/", kind="document")),
    ],
)
def test_a_record_round_trips(record):
    assert load(dump(record)) == record


@pytest.mark.parametrize("part", [METADATA, IDENTITY, TOKENS, FULL])
def test_the_examples_set_all_members(part):
    for field in attrs.fields(type(part)):
        assert getattr(part, field.name) != field.default, field.name


text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20
)
texts = st.lists(text, max_size=3).map(tuple)
instants = st.none() | st.floats(0, 1e12)
tokens = st.builds(
    Tokens,
    st.from_regex(r"[!-~]{1,30}", fullmatch=True),
    st.sampled_from(["Bearer", "DPoP"]),
    instants,
    st.none() | text,
    st.none() | texts,
)
records = st.builds(
    Record,
    text,
    st.builds(
        ServerMetadata, st.just(ISSUER), st.none() | text, is_assumed=st.booleans()
    ),
    st.builds(Identity, text, st.none() | text, st.just(ISSUER)),
    st.none() | tokens,
    texts,
    st.dictionaries(text, text, max_size=2),
)


@given(records)
def test_any_record_round_trips(record):
    assert load(dump(record)) == record


@pytest.mark.fault("F40")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format": 1}',
        b"\xff\xfe",
        dump(RECORD)[:-1],
        b"[" * 100_000,
        edited("format", 2),
        edited("format", ...),
    ],
)
def test_load_returns_none_for_invalid_data(data):
    assert load(data) is None
    assert load_pending(data) is None


@pytest.mark.fault("F40")
@given(st.data())
def test_load_of_a_damaged_record_gives_a_valid_one_or_none(data):
    stored = bytearray(dump(RECORD))
    place = data.draw(st.integers(0, len(stored) - 1))
    stored[place] = data.draw(st.integers(0, 255))
    record = load(bytes(stored))
    assert record is None or (record.issuer == record.metadata.issuer)


@pytest.mark.rule("REG-10")
def test_load_refuses_a_secret_without_issuer():
    identity = Identity("some-client", "some-secret")
    assert load(dump(attrs.evolve(RECORD, identity=identity))) is None


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.issuer", ...),
        ("metadata.issuer", ""),
        ("metadata.issuer", None),
        ("metadata.issuer", "https://as.example/"),
        ("identity.issuer", "https://other.example"),
        ("metadata", ...),
        ("metadata.scopes_supported", ["a", 1]),
        ("metadata.is_assumed", 1),
        ("identity.client_id", ...),
        ("identity.client_id", ""),
        ("identity.kind", "stolen"),
        ("identity.auth_method", "client_secret_jwt"),
        ("identity.secret_expires_at", "tomorrow"),
        ("tokens.access_token", ""),
        ("tokens.access_token", "some token"),
        ("tokens.access_token", "some-token\r\nx-evil: 1"),
        ("tokens.access_token", "some-tökén"),
        ("tokens.token_type", "bearer"),
        ("tokens.refresh_token", ""),
        ("tokens.expires_at", "1800000000"),
        ("dpop_key", "key"),
    ],
)
def test_load_refuses_an_invalid_member(path, value):
    assert load(edited(path, value)) is None


def test_load_refuses_a_dpop_token_without_its_key():
    bound = attrs.evolve(RECORD, tokens=Tokens("some-token", "DPoP"))
    assert load(dump(bound)) == bound
    assert load(dump(attrs.evolve(bound, dpop_key=None))) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [("tokens", None), ("tokens.expires_at", 5), ("identity.later", "unknown")],
)
def test_load_accepts_null_and_unknown_members(path, value):
    assert load(edited(path, value)) is not None


@pytest.mark.parametrize("name", ["state", "verifier"])
@pytest.mark.parametrize("value", ["", None, 1, ["text"]])
def test_load_pending_refuses_a_login_without_its_secrets(name, value):
    document = json.loads(dump(PENDING)) | {name: value}
    assert load_pending(json.dumps(document).encode()) is None


def test_load_and_load_pending_refuse_each_others_data():
    assert load_pending(dump(PENDING)) == PENDING
    assert load(dump(PENDING)) is None
    assert load_pending(dump(RECORD)) is None


profiles = st.sampled_from(["a", "a:pending", "OAuth a", ":pending", "a b"]) | st.text()
servers = st.sampled_from(["https://a.example/mcp", "https://a.example/"])
grants = st.sampled_from(["OAuth", "ClientCredentials"])
names = st.tuples(servers, profiles, grants)


@given(names, names)
def test_each_server_profile_and_grant_has_its_own_keys(one, other):
    keys = {credential_key(*one), pending_key(*one)}
    other_keys = {credential_key(*other), pending_key(*other)}
    assert len(keys) == 2
    assert keys == other_keys if one == other else not keys & other_keys
