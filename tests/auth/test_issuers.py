"""Secrets of one issuer are never sent to another, whatever a server answers."""

import attrs
import pytest
from flow_driver import (
    EVIL,
    EXPIRED,
    GOOD,
    ISSUER,
    PRM,
    SERVER,
    STEP_UP,
    World,
    denied,
    document,
    registered,
    resource_document,
    server_document,
    stored,
    tokens,
    wants_more,
    well_known,
)

from mcpwire.auth.config import (
    DISCOVERED,
    ClientCredentials,
    EnterpriseManaged,
    OAuth,
    WorkloadIdentity,
)
from mcpwire.auth.errors import (
    AuthError,
    ConsentDenied,
    DiscoveryError,
    RegistrationError,
)
from mcpwire.auth.records import Identity
from mcpwire.auth.steps import Answer, AuthorizeUser, CallFunction

OAUTH = OAuth()
SECRETS = ("access-1", "refresh-1", "SENTINEL", "client-1")
GIVEN = {"client_id": "given-1", "client_secret": "SENTINEL-given"}
ORIGIN = SERVER.origin
NOT_THERE = Answer(404, {}, b"")

CREDENTIALS = ClientCredentials(
    issuer=ISSUER, client_id="SENTINEL-id", client_secret="SENTINEL-secret"
)
WORKLOAD = WorkloadIdentity(
    issuer=ISSUER, client_id="SENTINEL-id", assertion="SENTINEL-jwt"
)
ENTERPRISE = EnterpriseManaged(
    issuer=ISSUER,
    client_id="SENTINEL-id",
    client_secret="SENTINEL-secret",
    idp_client_id="idp-id",
    idp_token_endpoint="https://idp.example/token",
    id_token=lambda: "never called here",
)
UNATTENDED = {
    "client credentials": CREDENTIALS,
    "workload": WORKLOAD,
    "enterprise": ENTERPRISE,
}


def all_answers_of(issuer):
    """Return the answers of an authorization server that accepts every request."""
    return {
        well_known(issuer): server_document(issuer),
        f"{issuer}/register": document(201, client_id="at-evil"),
        f"{issuer}/token": tokens("access-evil", "refresh-evil"),
        f"{issuer}/revoke": Answer(200, {}, b""),
    }


def hostile(which):
    """Return the answers of a hostile MCP server and of the hosts that it owns."""
    answers = all_answers_of(EVIL) | all_answers_of(ORIGIN)
    answers[well_known(ISSUER)] = server_document()
    if which == "names another":
        answers[PRM] = resource_document(EVIL)
    elif which == "names another first":
        answers[PRM] = resource_document(EVIL, "https://third.example")
    elif which == "names nobody, is one itself":
        answers[PRM] = NOT_THERE
    elif which == "names nobody and is none":
        answers[PRM] = answers[well_known(ORIGIN)] = NOT_THERE
    elif which == "says that another is the good one":
        answers[PRM] = resource_document(EVIL)
        answers[well_known(EVIL)] = server_document(
            EVIL, issuer=ISSUER, token_endpoint=f"{EVIL}/token"
        )
    elif which == "names one that says nothing":
        answers[PRM] = resource_document(EVIL)
        answers[well_known(EVIL)] = NOT_THERE
    else:
        answers[PRM] = resource_document(which)
        answers |= all_answers_of(which)
    return answers


HOSTILE = [
    "names another",
    "names another first",
    "names nobody, is one itself",
    "names nobody and is none",
    "says that another is the good one",
    "names one that says nothing",
    # The same issuer for clients that normalise URLs.
    f"{ISSUER}/",
    "https://AS.example",
    f"{ISSUER}:443",
    f"{ISSUER}/.",
    "https://as.example.",
]


def assert_no_secret_sent(world, *, asks_good=False):
    """Check that no request contains a secret of the good issuer."""
    for host, text in world.sent:
        if asks_good and text.startswith(f"{ISSUER}/token "):
            continue
        for secret in SECRETS:
            assert secret not in text, (host, secret)


@pytest.mark.system("U49")
@pytest.mark.attack("S01")
@pytest.mark.rule("REG-10", "AUTH-11")
@pytest.mark.parametrize("which", HOSTILE)
@pytest.mark.parametrize(
    "identity",
    [
        registered(client_secret="SENTINEL-registered", auth_method=None),
        Identity(**GIVEN, issuer=ISSUER),
    ],
)
@pytest.mark.parametrize("reasons", [{"must_log_in": True}, {}])
def test_stored_secrets_are_sent_to_their_issuer_only(which, identity, reasons):
    record = stored(identity=identity, tokens=attrs.evolve(EXPIRED))
    world = World(record, hostile(which) | {f"{ISSUER}/token": NOT_THERE})
    reasons = {"refused_token": "access-1", "denial": denied()} | reasons
    try:
        obtained = world.obtain(OAUTH, **reasons)
    except AuthError:
        assert world.record == record
    else:
        assert obtained.record.issuer != ISSUER
        assert obtained.record.identity.client_id == "at-evil"
    assert_no_secret_sent(world, asks_good=True)


@pytest.mark.attack("S01")
@pytest.mark.rule("CC-05", "REG-10")
@pytest.mark.parametrize("which", HOSTILE)
@pytest.mark.parametrize("grant", [OAuth(**GIVEN, issuer=ISSUER), *UNATTENDED.values()])
@pytest.mark.parametrize("has_stored", [False, True])
def test_configured_credentials_go_to_their_issuer_only(which, grant, has_stored):
    identity = Identity(grant.client_id, "SENTINEL-secret", ISSUER)
    record = stored(identity=identity, tokens=None) if has_stored else None
    world = World(record, hostile(which))
    with pytest.raises(DiscoveryError) as caught:
        world.obtain(grant, refused_token="access-1", denial=denied())
    assert_no_secret_sent(world)
    assert world.posted == []
    assert not world.of(CallFunction) + world.of(AuthorizeUser)
    assert world.record == record
    assert "SENTINEL" not in f"{caught.value} {caught.value.tried}"


@pytest.mark.attack("S01")
@pytest.mark.parametrize("grant", UNATTENDED.values(), ids=UNATTENDED)
def test_unattended_grants_need_a_server_that_names_its_issuer(grant):
    world = World(None, hostile("names nobody and is none"))
    trusting = attrs.evolve(grant, issuer=DISCOVERED)
    with pytest.raises(DiscoveryError) as caught:
        world.obtain(trusting)
    assert "issuer=" in str(caught.value)
    assert_no_secret_sent(world)
    assert not world.of(CallFunction)


@pytest.mark.attack("S01")
def test_a_client_secret_needs_a_server_that_names_its_issuer():
    world = World(None, hostile("names nobody and is none"))
    with pytest.raises(RegistrationError):
        world.obtain(OAuth(**GIVEN, issuer=DISCOVERED))
    assert_no_secret_sent(world)


@pytest.mark.rule("AUTH-12")
def test_a_configured_issuer_needs_no_metadata():
    world = World(None, hostile("names nobody and is none"))
    grant = attrs.evolve(CREDENTIALS, issuer=ORIGIN)
    assert world.obtain(grant).record.issuer == ORIGIN
    assert len(world.token_forms(ORIGIN)) == 1


@pytest.mark.rule("REG-11")
@pytest.mark.attack("S01")
def test_a_client_id_is_not_used_with_another_issuer():
    record = stored(identity=Identity("given-1", issuer=ISSUER), tokens=None)
    world = World(record, hostile("names another"))
    with pytest.raises(RegistrationError) as caught:
        world.obtain(OAuth(client_id="given-1"))
    assert ISSUER in str(caught.value)
    assert EVIL in str(caught.value)
    assert world.record == record
    assert not world.of(AuthorizeUser)


@pytest.mark.rule("REG-11")
def test_a_client_id_is_used_with_a_configured_other_issuer():
    record = stored(identity=Identity("given-1", issuer=ISSUER), tokens=None)
    world = World(record, hostile("names another"))
    grant = OAuth(client_id="given-1", issuer=EVIL)
    assert world.obtain(grant).record.issuer == EVIL


@pytest.mark.rule("REG-11")
def test_a_failed_login_does_not_bind_a_client_to_an_issuer():
    world = World(None, hostile("names another"))
    world.back = ConsentDenied("no", error="access_denied")
    grant = OAuth(client_id="given-1")
    with pytest.raises(ConsentDenied):
        world.obtain(grant)
    assert world.record is None
    world.answers[PRM] = resource_document(ISSUER)
    world.back = {"code": "code-1"}
    assert world.obtain(grant).record.issuer == ISSUER


@pytest.mark.system("U49")
@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("kept", [GOOD, EXPIRED, None])
def test_a_changed_issuer_leads_to_a_new_registration(kept):
    record = stored(tokens=kept)
    world = World(record, hostile("names another"))
    before = []
    world.on[AuthorizeUser] = lambda step: before.append(world.record)
    fresh = world.obtain(OAUTH, **STEP_UP).record
    assert (fresh.issuer, fresh.identity.client_id) == (EVIL, "at-evil")
    assert fresh.asked_scopes == ("b",)  # the other scopes belong to the old issuer
    if kept is not None:
        assert before[0].tokens == kept
        assert attrs.evolve(before[0], registered=None) == record


@pytest.mark.attack("S01")
@pytest.mark.rule("REG-10")
def test_a_denied_login_at_another_issuer_keeps_the_tokens():
    world = World(stored(tokens=GOOD), hostile("names another"))
    world.back = ConsentDenied("no", error="access_denied")
    with pytest.raises(ConsentDenied):
        world.log_in(OAUTH)
    assert world.record.tokens == GOOD
    assert world.record.identity == registered()
    world.answers[PRM] = resource_document(ISSUER)
    world.back = {"code": "code-1"}
    world.log_in(OAUTH, denial=wants_more("b"))
    assert world.token_forms()[-1]["client_id"] == "client-1"
