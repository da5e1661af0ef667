"""From a stored record to a token: used, refreshed, waited for, or dropped."""

import attrs
import pytest
from flow_driver import (
    EXPIRED,
    GOOD,
    ISSUER,
    NOW,
    RESOURCE,
    STEP_UP,
    Actor,
    World,
    denied,
    metadata,
    newly_registered,
    refused,
    registered,
    stored,
    tokens,
    wanted_token,
    wants_more,
)

from mcpwire.auth.config import DISCOVERED, OAuth
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    TokenError,
    UrlRefused,
)
from mcpwire.auth.flow import (
    LEASE_S,
    MAX_POLLS,
    MAX_SAVES,
    POLL_INTERVAL_S,
    TokenResult,
    obtain_token,
    refresh,
    revoke_login,
)
from mcpwire.auth.records import Identity, Tokens
from mcpwire.auth.steps import (
    AcquireLease,
    Answer,
    AuthorizeUser,
    Delete,
    Fetch,
    Load,
    ReleaseLease,
    Save,
    Sleep,
)

OAUTH = OAuth()
TOKEN = f"{ISSUER}/token"
AGAIN = {"refused_token": "access-1", "denial": denied()}
GIVEN = Identity("given-1", "stored-secret", ISSUER)


def world_with(*answers, record=None):
    world = World(stored() if record is None else record)
    world.answers[TOKEN] = list(answers)
    return world


UNLIMITED = attrs.evolve(EXPIRED, expires_at=None)


@pytest.mark.parametrize("kept", [GOOD, UNLIMITED])
@pytest.mark.parametrize("used", [None, "another"])
def test_a_valid_stored_token_is_used_without_requests(kept, used):
    world = World(stored(tokens=kept))
    obtained = world.obtain(OAUTH, refused_token=used)
    assert obtained == TokenResult(stored(tokens=kept), "stored")
    assert world.kinds == ["Load", "ReadClock"]


@pytest.mark.system("U53")
@pytest.mark.parametrize(
    ("kept", "used"),
    [
        (EXPIRED, None),
        (EXPIRED, "access-1"),
        (GOOD, "access-1"),
        (UNLIMITED, "access-1"),
        (attrs.evolve(EXPIRED, expires_at=NOW), None),
    ],
)
def test_an_expired_or_refused_token_is_refreshed(kept, used):
    world = world_with(tokens(), record=stored(tokens=kept))
    obtained = world.obtain(OAUTH, refused_token=used)
    fresh = Tokens("access-2", "Bearer", NOW + 3600, "refresh-2", ("a",))
    assert obtained == TokenResult(stored(tokens=fresh), "refreshed")
    assert world.record == obtained.record


@pytest.mark.pain("P32")
@pytest.mark.rule("FLOW-02")
def test_a_refresh_is_one_request_under_a_lease():
    world = world_with(tokens())
    world.obtain(OAUTH)
    assert world.token_forms() == [
        {
            "grant_type": "refresh_token",
            "refresh_token": "refresh-1",
            "resource": RESOURCE,
            "client_id": "client-1",
        }
    ]
    steps = [Load, AcquireLease, Load, Fetch, Save, ReleaseLease]
    assert [type(step) for step in world.ledger if type(step) in steps] == steps
    assert world.of(AcquireLease) == [AcquireLease(LEASE_S)]
    assert world.store.holder is None


@pytest.mark.system("U53")
@pytest.mark.pain("P32")
def test_members_missing_in_a_refresh_are_kept():
    world = world_with(tokens(refresh=None))
    record = world.obtain(OAUTH).record
    assert record.tokens.refresh_token == "refresh-1"
    assert record.tokens.scopes == ("a",)


NO_USE = {
    "nothing": (None, False),
    "no tokens": (stored(tokens=None), False),
    "no refresh token": (
        stored(tokens=attrs.evolve(EXPIRED, refresh_token=None)),
        False,
    ),
    "a refresh would not help": (stored(tokens=GOOD), True),
}


@pytest.mark.rule("FLOW-25")
@pytest.mark.parametrize(("record", "must_log_in"), NO_USE.values(), ids=NO_USE)
def test_a_login_follows_without_a_refresh_token(record, must_log_in):
    world = World(record)
    obtained = world.obtain(OAUTH, **AGAIN, must_log_in=must_log_in)
    assert obtained.source == "logged-in"
    assert world.record == obtained.record
    assert [form["grant_type"] for form in world.token_forms()] == [
        "authorization_code"
    ]


@pytest.mark.parametrize("kept", [GOOD, EXPIRED])
def test_a_token_of_another_client_is_not_used(kept):
    world = World(stored(tokens=kept))
    obtained = world.obtain(OAuth(client_id="given-1"))
    assert obtained.record.identity.client_id == "given-1"
    assert obtained.source == "logged-in"


def test_the_stored_client_is_used_without_client_id():
    record = stored(identity=GIVEN)
    world = world_with(tokens(), record=record)
    assert world.obtain(OAUTH).record.identity == GIVEN
    assert "stored-secret" not in str(world.token_forms())  # it is in the header
    assert world.of(Fetch)[0].headers


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("issuer", [ISSUER, DISCOVERED])
def test_a_changed_client_secret_is_sent(issuer):
    world = world_with(tokens(), record=stored(identity=GIVEN))
    grant = OAuth(client_id="given-1", client_secret="newer", issuer=issuer)
    assert world.obtain(grant).source == "refreshed"
    [(name, value)] = world.of(Fetch)[0].headers
    assert name == "authorization"
    assert value == "Basic Z2l2ZW4tMTpuZXdlcg=="


@pytest.mark.rule("REG-14")
def test_the_accepted_auth_method_is_stored_until_it_is_refused():
    methods = ("client_secret_basic", "client_secret_post")
    known = metadata(token_endpoint_auth_methods_supported=methods)
    not_so = refused("invalid_client", 401)
    short = tokens(expires_in=None)
    world = world_with(
        *(not_so, short, short, not_so, short, short),
        record=stored(identity=GIVEN, metadata=known),
    )
    used = None
    for refreshes in range(1, 5):
        reason = wanted_token(refused_token=used and "access-2")
        used = world.run(obtain_token(OAUTH, reason))
        assert used.source == "refreshed", refreshes
    in_form = ["client_secret" in form for form in world.token_forms()]
    assert in_form == [False, True, True, True, False, False]
    # Metadata without a list: RFC 8414 section 2 means HTTP Basic.
    posted = attrs.evolve(GIVEN, auth_method="client_secret_post")
    unlisted = metadata(token_endpoint_auth_methods_supported=None)
    world = world_with(not_so, short, record=stored(identity=posted, metadata=unlisted))
    assert world.obtain(OAUTH).source == "refreshed"
    assert world.record.identity.auth_method == "client_secret_basic"


@pytest.mark.system("U53")
@pytest.mark.pain("P32")
@pytest.mark.fault("F38")
def test_invalid_grant_deletes_the_tokens_before_a_login():
    world = world_with(refused("invalid_grant"), tokens("access-3"))
    obtained = world.obtain(OAUTH, **AGAIN)
    assert obtained.source == "logged-in"
    assert obtained.record.tokens.access_token == "access-3"
    assert obtained.record.identity == registered()
    gone = next(step.record for step in world.of(Save))
    assert gone == stored(tokens=None)
    kinds = world.kinds
    assert kinds.index("ReleaseLease") < kinds.index("AuthorizeUser"), (
        "a user thinks with no lease"
    )


KEPT = {
    "a server error": (Answer(500, {}, b""), AuthTemporarilyUnavailable),
    "no answer": (AuthTemporarilyUnavailable("gone"), AuthTemporarilyUnavailable),
    "a page": (Answer(200, {"content-type": "text/html"}, b"<p>"), TokenError),
    "another refusal": (refused("invalid_target"), TokenError),
    "a wall": (UrlRefused("no", url="https://as.example", rule="no"), UrlRefused),
}


@pytest.mark.pain("P32")
@pytest.mark.fault("F38")
@pytest.mark.parametrize(("answer", "error"), KEPT.values(), ids=KEPT)
def test_other_refresh_errors_keep_the_tokens(answer, error):
    world = world_with(answer)
    with pytest.raises(error) as caught:
        world.obtain(OAUTH, **AGAIN)
    assert world.record == stored()
    assert not world.of(Save)
    assert not world.of(AuthorizeUser)
    assert world.store.holder is None
    assert "refresh-1" not in f"{caught.value} {caught.value!r}"


FORGOTTEN = {
    "invalid_client": refused("invalid_client", 401),
    "unauthorized_client": refused("unauthorized_client"),
    "a bare 401": Answer(401, {}, b""),
}


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("answer", FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_forgotten_client_registers_again_before_a_login(answer):
    world = world_with(answer, tokens("access-3"))
    before = []
    world.on[AuthorizeUser] = lambda step: before.append(world.record)
    obtained = world.obtain(OAUTH, **AGAIN)
    assert obtained.source == "logged-in"
    assert obtained.record.identity == newly_registered("new-client-1")
    assert [form["client_id"] for form in world.token_forms()] == [
        "client-1",
        "new-client-1",
    ]
    # The old tokens are kept until there are new ones: the server may be wrong.
    assert before == [stored(registered=newly_registered("new-client-1"))]
    assert obtained.record.registered is None


@pytest.mark.rule("REG-10")
def test_an_aborted_login_keeps_its_new_registration():
    unknown = refused("invalid_client", 401)
    world = world_with(unknown, unknown, unknown, tokens("access-3"))
    world.back = ConsentDenied("no", error="access_denied")
    for _ in range(2):
        with pytest.raises(ConsentDenied):
            world.obtain(OAUTH, **AGAIN)
        assert world.record.tokens == EXPIRED
    world.back = {"code": "code-1"}
    obtained = world.obtain(OAUTH, **AGAIN)
    assert obtained.record.identity == newly_registered("new-client-1")
    assert world.urls.count(f"{ISSUER}/register") == 1


def test_old_tokens_stay_usable_after_a_wrong_invalid_client():
    world = world_with(refused("invalid_client", 401), tokens())
    world.back = ConsentDenied("no", error="access_denied")
    with pytest.raises(ConsentDenied):
        world.obtain(OAUTH, **AGAIN)
    obtained = world.obtain(OAUTH, **AGAIN)
    assert obtained.source == "refreshed"
    assert [form["client_id"] for form in world.token_forms()] == ["client-1"] * 2
    assert obtained.record.registered == newly_registered("new-client-1")


@pytest.mark.parametrize("status", [400, 401])
def test_a_refused_configured_client_raises(status):
    world = world_with(refused("invalid_client", status), record=stored(identity=GIVEN))
    with pytest.raises(TokenError) as caught:
        world.obtain(OAUTH, **AGAIN)
    assert caught.value.error == "invalid_client"
    assert world.record == stored(identity=GIVEN)


NEVER = {
    "no such grant": refused("unsupported_grant_type"),
    "not for this client": refused("unauthorized_client"),
    "nothing there": Answer(404, {}, b""),
    "gone": Answer(410, {}, b"<p>gone</p>"),
    "no method": Answer(405, {}, b""),
    "a code of GitHub": refused("bad_refresh_token", 200),
    "a wrong code": refused("invalid_request"),
    "no code": Answer(400, {}, b'{"status": "BAD_REFRESH_TOKEN"}'),
}


@pytest.mark.parametrize("answer", NEVER.values(), ids=NEVER)
def test_an_impossible_refresh_leads_to_a_login(answer):
    world = world_with(answer, tokens("access-3"), record=stored(identity=GIVEN))
    before = []
    world.on[AuthorizeUser] = lambda step: before.append(world.record)
    obtained = world.obtain(OAUTH, **AGAIN)
    assert obtained.source == "logged-in"
    assert before == [stored(identity=GIVEN)]
    assert obtained.record.identity == GIVEN


REASONS = {
    "nothing is stored": (None, {}),
    "it cannot be refreshed": (stored(tokens=None), AGAIN),
    "more scopes": (stored(tokens=GOOD), {"denial": wants_more("b")}),
}


@pytest.mark.parametrize(("record", "reasons"), REASONS.values(), ids=REASONS)
def test_an_unattended_request_raises_without_fetching(record, reasons):
    world = World(record)
    with pytest.raises(AuthRequired) as caught:
        world.obtain(OAUTH, **reasons, is_unattended=True)
    assert caught.value.url is None
    assert world.urls == []


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
def test_a_waiting_operation_uses_the_tokens_of_the_holder():
    world = world_with(tokens())
    first = Actor(world, obtain_token(OAUTH, wanted_token()), "first")
    second = Actor(world, obtain_token(OAUTH, wanted_token()), "second")
    while not world.of(Fetch):
        first.step()
    while not world.of(Sleep):
        second.step()
    while not first.is_over:
        first.step()
    while not second.is_over:
        second.step()
    assert first.result().record == second.result().record
    assert len(world.token_forms()) == 1


@pytest.mark.pain("P33")
def test_a_waiting_refresh_ends_when_the_tokens_are_deleted():
    world = world_with(refused("invalid_grant"), record=stored())
    world.store.holder, world.store.held_until = "somebody", NOW + LEASE_S
    world.on[Sleep] = lambda step: world.store.put(stored(tokens=None))
    assert world.run(refresh(OAUTH, wanted_token())) == (None, None)
    assert world.urls == []


@pytest.mark.pain("P33")
def test_a_dead_lease_holder_blocks_only_for_the_lease():
    world = world_with(tokens())
    dead = Actor(world, obtain_token(OAUTH, wanted_token()))
    while not world.of(Fetch):
        dead.step()
    dead.die()
    world.answers[TOKEN] = [tokens("access-3")]
    obtained = world.obtain(OAUTH)
    assert obtained.record.tokens.access_token == "access-3"
    assert LEASE_S <= world.now - NOW <= LEASE_S + 2 * POLL_INTERVAL_S


def test_waiting_for_a_lease_is_limited():
    world = world_with()
    world.on[AcquireLease] = lambda step: setattr(
        world.store, "held_until", world.now + 99
    )
    world.store.holder = "somebody"
    with pytest.raises(AuthTemporarilyUnavailable):
        world.obtain(OAUTH)
    assert world.now - NOW == pytest.approx(MAX_POLLS * POLL_INTERVAL_S)
    assert world.urls == []


LATER = stored(tokens=attrs.evolve(GOOD, access_token="later", refresh_token="later-r"))
OVER = stored(tokens=attrs.evolve(EXPIRED, access_token="over", refresh_token="over-r"))


def change_before(world, kind, *records):
    """Store the records in turn, one before each of the next steps of one kind."""
    waiting = list(records)

    def put(step):
        if waiting:
            world.store.put(waiting.pop(0))

    world.on[kind] = put


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
@pytest.mark.parametrize("answer", [tokens(), refused("invalid_grant")])
def test_a_lost_save_race_uses_the_stored_record(answer):
    world = world_with(answer)
    change_before(world, Save, LATER)
    obtained = world.obtain(OAUTH)
    assert (obtained.record, obtained.source) == (LATER, "refreshed")
    assert world.record == LATER


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
def test_a_store_conflict_does_not_repeat_the_refresh():
    noted = stored(registered=registered("new-client-1"))
    world = world_with(tokens(), refused("invalid_grant"))
    change_before(world, Save, noted)
    record = world.obtain(OAUTH).record
    assert record.tokens.refresh_token == "refresh-2"
    assert record.registered == registered("new-client-1")
    assert world.record == record
    assert len(world.token_forms()) == 1


def test_a_concurrently_stored_refresh_token_is_tried():
    world = world_with(refused("invalid_grant"), tokens("access-3"))
    change_before(world, Save, OVER)
    record = world.obtain(OAUTH).record
    assert record.tokens.access_token == "access-3"
    sent = [form["refresh_token"] for form in world.token_forms()]
    assert sent == ["refresh-1", "over-r"]


def test_invalid_grant_after_a_conflict_deletes_the_tokens():
    noted = stored(registered=registered("new-client-1"))
    world = world_with(refused("invalid_grant"))
    change_before(world, Save, noted)
    assert world.run(refresh(OAUTH, wanted_token())) == (None, None)
    assert world.record == attrs.evolve(noted, tokens=None)
    assert len(world.token_forms()) == 1


def test_a_concurrent_logout_is_not_undone_by_a_refresh():
    world = world_with(tokens())
    change_before(world, Save, None)
    assert world.run(refresh(OAUTH, wanted_token())) == (None, None)
    assert world.record is None


def test_endless_store_conflicts_end_a_refresh():
    world = world_with(tokens())
    change_before(world, Save, *[stored()] * MAX_SAVES)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(refresh(OAUTH, wanted_token()))
    assert len(world.token_forms()) == 1
    assert len(world.of(Save)) == MAX_SAVES


def test_valid_tokens_under_the_lease_need_no_refresh():
    world = world_with(record=LATER)
    assert world.run(refresh(OAUTH, wanted_token())) == (LATER, None)
    assert world.urls == []


def test_the_later_login_replaces_the_stored_record():
    world = World()
    change_before(world, Save, LATER, LATER)
    obtained = world.obtain(OAUTH)
    assert obtained.source == "logged-in"
    assert world.record == obtained.record


def test_new_tokens_that_cannot_be_stored_raise():
    world = World()
    change_before(world, Save, *[LATER] * 20)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.obtain(OAUTH)
    assert world.record == LATER


def test_logout_deletes_before_it_revokes():
    world = World(stored())
    assert world.run(revoke_login(wanted_token()))
    assert world.record is None
    kinds = world.kinds
    assert kinds.index("Delete") < kinds.index("Fetch")
    assert set(world.urls) == {f"{ISSUER}/revoke"}


def test_logout_revokes_concurrently_stored_tokens():
    world = World(stored())
    change_before(world, Delete, LATER)
    assert world.run(revoke_login(wanted_token()))
    assert world.record is None
    assert {form["token"] for _, form in world.posted} <= {"later", "later-r"}


def test_endless_store_conflicts_fail_a_logout():
    world = World(stored())
    change_before(world, Delete, *[LATER] * MAX_SAVES)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(revoke_login(wanted_token()))
    assert world.urls == []


def test_a_running_refresh_does_not_undo_a_logout():
    world = world_with(tokens())
    refreshing = Actor(world, refresh(OAUTH, wanted_token()))
    while not world.of(Fetch):
        refreshing.step()
    world.run(revoke_login(wanted_token()))
    while not refreshing.is_over:
        refreshing.step()
    assert refreshing.result() == (None, None)
    assert world.record is None


ALIKE = [
    ({}, {}, True),
    ({"refused_token": "a"}, {"refused_token": "a"}, True),
    ({"refused_token": "a"}, {"refused_token": "b"}, False),
    ({"refused_token": "a"}, {"refused_token": "a", "denial": denied()}, True),
    ({"refused_token": "a"}, {"refused_token": "a", "must_log_in": True}, False),
    ({"refused_token": "a"}, {"refused_token": "a", "is_unattended": True}, False),
    (STEP_UP, STEP_UP, True),
    (STEP_UP, STEP_UP | {"refused_token": "another"}, True),
    (STEP_UP, STEP_UP | {"denial": wants_more("c")}, False),
    (STEP_UP, STEP_UP | {"is_unattended": True}, False),
    (STEP_UP, {"refused_token": "access-1"}, False),
    (STEP_UP, {"refused_token": "access-1", "denial": denied(scopes=("b",))}, False),
    (STEP_UP, {"denial": denied(403)}, False),
]


@pytest.mark.pain("P31")
@pytest.mark.parametrize(("one", "other", "is_alike"), ALIKE)
def test_equal_token_requests_share_one_result(one, other, is_alike):
    assert (
        wanted_token(**one).sharing_key == wanted_token(**other).sharing_key
    ) is is_alike
