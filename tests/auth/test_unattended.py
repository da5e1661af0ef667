"""Unattended logins: what is sent to which server, and which responses are accepted."""

import attrs
import pytest
from flow_driver import (
    GOOD,
    ISSUER,
    NOW,
    PRM,
    RESOURCE,
    World,
    denied,
    document,
    metadata,
    refused,
    resource_document,
    server_document,
    tokens,
    wants_more,
    well_known,
)
from joserfc.jwk import ECKey

from mcpwire.auth.config import (
    DISCOVERED,
    ClientCredentials,
    EnterpriseManaged,
    WorkloadIdentity,
)
from mcpwire.auth.errors import AuthTemporarilyUnavailable, TokenError
from mcpwire.auth.records import Identity, Record, Tokens
from mcpwire.auth.steps import (
    AcquireLease,
    Answer,
    AuthorizeUser,
    CallFunction,
    Fetch,
    Listen,
)
from mcpwire.auth.tokens import ID_JAG

KEY = ECKey.generate_key("P-256")
PEM = KEY.as_pem(private=True).decode()
TOKEN = f"{ISSUER}/token"
IDP = "https://idp.example/token"

SECRET = ClientCredentials(issuer=ISSUER, client_id="me", client_secret="pass-word")
SIGNED = ClientCredentials(issuer=ISSUER, client_id="me", private_key_pem=PEM)
WORKLOAD = WorkloadIdentity(issuer=ISSUER, client_id="me", assertion="jwt-1")
ENTERPRISE = EnterpriseManaged(
    issuer=ISSUER,
    client_id="me",
    client_secret="pass-word",
    idp_client_id="at-idp",
    idp_client_secret="idp-pass",
    idp_token_endpoint=IDP,
    id_token="id-token-1",
)
GRANTS = {
    "secret": SECRET,
    "signed": SIGNED,
    "workload": WORKLOAD,
    "enterprise": ENTERPRISE,
}


def assertion(token="id-jag-1", **members):
    """Return the successful response of an identity provider."""
    given = {"issued_token_type": ID_JAG, "token_type": "N_A", "access_token": token}
    return document(**given | members)


def world_with(**server):
    world = World()
    world.answers[TOKEN] = tokens("access-m", None)
    world.answers[IDP] = assertion()
    world.answers[well_known(ISSUER)] = server_document(**server)
    return world


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS)
@pytest.mark.parametrize("issuer", [ISSUER, DISCOVERED])
def test_an_unattended_login_needs_no_user_and_stores_tokens(grant, issuer):
    world = world_with()
    grant = attrs.evolve(grant, issuer=issuer)
    obtained = world.obtain(grant, denial=denied(scopes=("a",)))
    secret = getattr(grant, "client_secret", None)
    record = Record(
        RESOURCE,
        metadata(),
        Identity("me", secret, ISSUER),
        Tokens("access-m", "Bearer", NOW + 3600, None, ("a",)),
        ("a",),
    )
    assert obtained == (record, "logged-in")
    assert world.record == record
    assert not world.of(AuthorizeUser) + world.of(Listen) + world.of(AcquireLease)
    assert f"{ISSUER}/register" not in world.urls


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS)
def test_a_valid_stored_token_is_used(grant):
    world = world_with()
    first = world.obtain(grant)
    before = len(world.urls)
    assert world.obtain(grant) == (first.record, "stored")
    assert len(world.urls) == before


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS)
def test_a_stored_token_of_another_client_is_not_used(grant):
    world = world_with()
    world.obtain(attrs.evolve(grant, client_id="other"))
    obtained = world.obtain(grant)
    assert obtained.source == "logged-in"
    assert obtained.record.identity.client_id == "me"


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS)
def test_a_stored_token_for_other_scopes_is_not_used(grant):
    world = world_with()
    sources = [
        world.obtain(attrs.evolve(grant, scopes=scopes))[1]
        for scopes in ("a", "b a", "a offline_access", None)
    ]
    assert sources == ["logged-in", "logged-in", "stored", "stored"]
    assert [form["scope"] for form in world.token_forms()] == ["a", "b a"]


def test_an_unattended_login_uses_the_auth_method_that_was_accepted():
    methods = ("client_secret_basic", "client_secret_post")
    world = world_with(token_endpoint_auth_methods_supported=methods)
    granted = tokens("access-m", None)
    world.answers[TOKEN] = [refused("invalid_client", 401), granted, granted, granted]
    changed = attrs.evolve(SECRET, client_secret="new-word")
    for grant in (SECRET, SECRET, changed):
        world.obtain(grant, refused_token="access-m")
    secrets = [form.get("client_secret") for form in world.token_forms()]
    assert secrets == [None, "pass-word", "pass-word", None]


def test_a_workload_sends_its_assertion():
    world = world_with()
    world.obtain(attrs.evolve(WORKLOAD, scopes="x"))
    assert world.token_forms() == [
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": "jwt-1",
            "resource": RESOURCE,
            "scope": "x",
            "client_id": "me",
        }
    ]


@pytest.mark.parametrize(
    ("grant", "field", "what"),
    [
        (WORKLOAD, "assertion", "the workload's assertion"),
        (ENTERPRISE, "id_token", "the ID token"),
    ],
)
def test_a_function_is_called_each_time_after_discovery(grant, field, what):
    def supply():
        raise AssertionError("the shell calls it")

    grant = attrs.evolve(grant, **{field: supply})
    world = world_with()
    for _ in range(2):
        world.obtain(grant, refused_token="access-m")
    assert world.of(CallFunction) == [CallFunction(supply, what)] * 2
    assert "supplied-1" in str(world.posted[0])
    kinds = world.kinds
    assert kinds.index("CallFunction") > kinds.index("Fetch") + 1, "after discovery"


@pytest.mark.parametrize("grant", [WORKLOAD, ENTERPRISE])
def test_an_error_of_the_function_ends_the_login(grant):
    field = "assertion" if grant is WORKLOAD else "id_token"
    world = world_with()
    world.supplies = AuthTemporarilyUnavailable("it gave nothing")
    with pytest.raises(AuthTemporarilyUnavailable):
        world.obtain(attrs.evolve(grant, **{field: print}))
    assert world.posted == []
    assert world.record is None


@pytest.mark.rule("EMA-01", "EMA-02", "EMA-04")
def test_the_id_token_is_exchanged_for_an_assertion():
    world = world_with()
    grant = attrs.evolve(ENTERPRISE, scopes=("x", "y"))
    world.obtain(grant)
    [(first, exchange), (second, request)] = world.posted
    assert (first, second) == (IDP, TOKEN)
    assert exchange == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": ID_JAG,
        "audience": ISSUER,
        "subject_token": "id-token-1",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "resource": RESOURCE,
        "scope": "x y",
    }
    assert request == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "id-jag-1",
        "resource": RESOURCE,
        "scope": "x y",
    }
    headers = [dict(step.headers) for step in world.of(Fetch) if step.form]
    assert headers[0]["authorization"] == "Basic YXQtaWRwOmlkcC1wYXNz"
    assert headers[1]["authorization"] == "Basic bWU6cGFzcy13b3Jk"


REFUSED = {
    "of another type": assertion(issued_token_type="urn:other"),
    "no": document(400, error="invalid_grant", error_description="id-token-1"),
    "a page": Answer(200, {}, b"<p>"),
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_a_failed_exchange_sends_no_token_request(answer):
    world = world_with()
    world.answers[IDP] = answer
    with pytest.raises(TokenError) as caught:
        world.obtain(ENTERPRISE)
    assert "id-token-1" not in f"{caught.value} {vars(caught.value)}"
    assert world.token_forms() == []


@pytest.mark.fault("F38")
@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused("invalid_client", 401), TokenError),
        (refused("invalid_grant"), TokenError),
        (Answer(500, {}, b""), AuthTemporarilyUnavailable),
    ],
)
def test_a_refused_unattended_login_is_not_retried(grant, answer, error):
    world = world_with()
    before = world.obtain(grant).record
    world.answers[TOKEN] = answer
    with pytest.raises(error) as caught:
        world.obtain(grant, refused_token="access-m")
    assert world.record == before
    assert len(world.token_forms()) == 2
    for secret in ("pass-word", "jwt-1", "id-token-1", "id-jag-1"):
        assert secret not in f"{caught.value} {caught.value!r}"


def test_a_configured_identity_provider_may_be_internal():
    world = world_with()
    inner = "https://10.0.0.1/token"
    world.answers[inner] = assertion()
    world.obtain(attrs.evolve(ENTERPRISE, idp_token_endpoint=inner))
    assert [url for url, _ in world.posted] == [inner, TOKEN]


def test_unattended_scopes_never_include_offline_access():
    listed = ["x", "offline_access"]
    world = world_with(scopes_supported=listed)
    world.answers[PRM] = resource_document(scopes_supported=listed)
    world.obtain(SECRET)
    more = {"denial": wants_more("y"), "refused_token": "access-m"}
    world.obtain(SECRET, **more)
    world.obtain(attrs.evolve(SECRET, scopes="z"), **more)
    assert [form["scope"] for form in world.token_forms()] == ["x", "y", "z"]


def test_unattended_grants_never_use_a_refresh_token():
    world = world_with()
    world.answers[TOKEN] = tokens("access-m", "refresh-m")
    for _ in range(2):
        world.obtain(SECRET, refused_token="access-m")
    assert [form["grant_type"] for form in world.token_forms()] == [
        "client_credentials"
    ] * 2
    assert GOOD.refresh_token not in str(world.sent)
