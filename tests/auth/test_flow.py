"""From what is stored to a token: used, refreshed, waited for, given up."""

import attrs
import pytest
from driving import (
    EXPIRED,
    GOOD,
    ISSUER,
    NOW,
    RESOURCE,
    Actor,
    World,
    denied,
    newly_registered,
    refused,
    registered,
    stored,
    tokens,
    wanted,
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


# --- what is stored ---------------------------------------------------------------

UNLIMITED = attrs.evolve(EXPIRED, expires_at=None)


@pytest.mark.parametrize("kept", [GOOD, UNLIMITED])
@pytest.mark.parametrize("used", [None, "another"])
def test_a_stored_token_that_is_good_is_used_and_nothing_is_asked(kept, used):
    world = World(stored(tokens=kept))
    obtained = world.run(obtain_token(OAUTH, wanted(refused_token=used)))
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
def test_one_that_is_over_or_was_refused_is_refreshed(kept, used):
    world = world_with(tokens(), record=stored(tokens=kept))
    obtained = world.run(obtain_token(OAUTH, wanted(refused_token=used)))
    fresh = Tokens("access-2", "Bearer", NOW + 3600, "refresh-2", ("a",))
    assert obtained == TokenResult(stored(tokens=fresh), "refreshed")
    assert world.record == obtained.record


@pytest.mark.pain("P32")
@pytest.mark.rule("FLOW-02")
def test_a_refresh_is_one_request_under_a_lease_and_is_unattended():
    world = world_with(tokens())
    world.run(obtain_token(OAUTH, wanted()))
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
def test_what_a_refresh_leaves_out_is_carried_forward():
    world = world_with(tokens(refresh=None))
    record = world.run(obtain_token(OAUTH, wanted())).record
    assert record.tokens.refresh_token == "refresh-1"
    assert record.tokens.scopes == ("a",)


NO_USE = {
    "nothing": None,
    "no tokens": stored(tokens=None),
    "no refresh token": stored(tokens=attrs.evolve(EXPIRED, refresh_token=None)),
}


@pytest.mark.rule("FLOW-25")
@pytest.mark.parametrize("record", NO_USE.values(), ids=NO_USE)
def test_where_nothing_can_be_refreshed_the_user_logs_in(record):
    world = World(record)
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    assert obtained.source == "logged-in"
    assert world.record == obtained.record
    assert [form["grant_type"] for form in world.token_forms()] == [
        "authorization_code"
    ]


@pytest.mark.parametrize("kept", [GOOD, EXPIRED])
def test_a_token_of_another_client_is_neither_used_nor_refreshed(kept):
    world = World(stored(tokens=kept))
    obtained = world.run(obtain_token(OAuth(client_id="given-1"), wanted()))
    assert obtained.record.identity.client_id == "given-1"
    assert obtained.source == "logged-in"


def test_who_names_no_client_goes_on_with_the_one_that_is_stored():
    record = stored(identity=GIVEN)
    world = world_with(tokens(), record=record)
    assert world.run(obtain_token(OAUTH, wanted())).record.identity == GIVEN
    assert "stored-secret" not in str(world.token_forms())  # it is in the header
    assert world.of(Fetch)[0].headers


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("issuer", [ISSUER, DISCOVERED])
def test_a_secret_that_was_changed_is_the_one_that_is_sent(issuer):
    world = world_with(tokens(), record=stored(identity=GIVEN))
    grant = OAuth(client_id="given-1", client_secret="newer", issuer=issuer)
    assert world.run(obtain_token(grant, wanted())).source == "refreshed"
    [(name, value)] = world.of(Fetch)[0].headers
    assert name == "authorization"
    assert value == "Basic Z2l2ZW4tMTpuZXdlcg=="


# --- refusals ---------------------------------------------------------------------


@pytest.mark.system("U53")
@pytest.mark.pain("P32")
@pytest.mark.fault("F38")
def test_only_invalid_grant_takes_tokens_away_and_then_the_user_logs_in():
    world = world_with(refused("invalid_grant"), tokens("access-3"))
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN)))
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
def test_whatever_else_goes_wrong_everything_is_kept(answer, error):
    world = world_with(answer)
    with pytest.raises(error) as caught:
        world.run(obtain_token(OAUTH, wanted(**AGAIN)))
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
def test_who_is_not_known_any_more_registers_anew_and_the_user_logs_in(answer):
    world = world_with(answer, tokens("access-3"))
    before = []
    world.on[AuthorizeUser] = lambda step: before.append(world.record)
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    assert obtained.source == "logged-in"
    assert obtained.record.identity == newly_registered("new-client-1")
    assert [form["client_id"] for form in world.token_forms()] == [
        "client-1",
        "new-client-1",
    ]
    # Until there are new ones: the server may have been wrong.
    assert before == [stored(registered=newly_registered("new-client-1"))]
    assert obtained.record.registered is None


@pytest.mark.rule("REG-10")
def test_a_registration_is_made_once_however_often_the_login_is_given_up():
    unknown = refused("invalid_client", 401)
    world = world_with(unknown, unknown, unknown, tokens("access-3"))
    world.back = ConsentDenied("no", error="access_denied")
    for _ in range(2):
        with pytest.raises(ConsentDenied):
            world.run(obtain_token(OAUTH, wanted(**AGAIN)))
        assert world.record.tokens == EXPIRED
    world.back = {"code": "code-1"}
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    assert obtained.record.identity == newly_registered("new-client-1")
    assert world.asked.count(f"{ISSUER}/register") == 1


def test_where_the_server_was_wrong_the_tokens_of_before_are_good_again():
    world = world_with(refused("invalid_client", 401), tokens())
    world.back = ConsentDenied("no", error="access_denied")
    with pytest.raises(ConsentDenied):
        world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    assert obtained.source == "refreshed"
    assert [form["client_id"] for form in world.token_forms()] == ["client-1"] * 2
    assert obtained.record.registered == newly_registered("new-client-1")


@pytest.mark.parametrize("status", [400, 401])
def test_a_client_that_was_given_and_is_refused_is_the_users_to_mend(status):
    world = world_with(refused("invalid_client", status), record=stored(identity=GIVEN))
    with pytest.raises(TokenError) as caught:
        world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    assert caught.value.error == "invalid_client"
    assert world.record == stored(identity=GIVEN)


NEVER = {
    "no such grant": refused("unsupported_grant_type"),
    "not for this client": refused("unauthorized_client"),
    "nothing there": Answer(404, {}, b""),
    "gone": Answer(410, {}, b"<p>gone</p>"),
    "no method": Answer(405, {}, b""),
}


@pytest.mark.parametrize("answer", NEVER.values(), ids=NEVER)
def test_where_a_refresh_will_never_do_the_user_logs_in_and_tokens_are_kept(answer):
    world = world_with(answer, tokens("access-3"), record=stored(identity=GIVEN))
    before = []
    world.on[AuthorizeUser] = lambda step: before.append(world.record)
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN)))
    assert obtained.source == "logged-in"
    assert before == [stored(identity=GIVEN)]
    assert obtained.record.identity == GIVEN


def test_once_a_refreshed_token_was_refused_it_is_not_refreshed_again():
    world = world_with(tokens("access-3"), record=stored(tokens=GOOD))
    obtained = world.run(obtain_token(OAUTH, wanted(**AGAIN, must_log_in=True)))
    assert obtained.source == "logged-in"
    assert [form["grant_type"] for form in world.token_forms()] == [
        "authorization_code"
    ]


REASONS = {
    "nothing is stored": (None, {}),
    "it cannot be refreshed": (stored(tokens=None), AGAIN),
    "more scopes": (stored(tokens=GOOD), {"denial": wants_more("b")}),
}


@pytest.mark.parametrize(("record", "reasons"), REASONS.values(), ids=REASONS)
def test_where_nobody_is_to_be_asked_nothing_is_sent(record, reasons):
    world = World(record)
    with pytest.raises(AuthRequired) as caught:
        world.run(obtain_token(OAUTH, wanted(**reasons, is_unattended=True)))
    assert caught.value.url is None
    assert world.asked == []


# --- several at once --------------------------------------------------------------


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
def test_who_waits_for_the_lease_uses_what_its_holder_stores():
    world = world_with(tokens())
    first = Actor(world, obtain_token(OAUTH, wanted()), "first")
    second = Actor(world, obtain_token(OAUTH, wanted()), "second")
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
def test_who_waits_logs_in_where_the_holder_has_found_the_tokens_gone():
    world = world_with(refused("invalid_grant"), record=stored())
    world.store.holder, world.store.held_until = "somebody", NOW + LEASE_S
    world.on[Sleep] = lambda step: world.store.put(stored(tokens=None))
    assert world.run(refresh(OAUTH, wanted())) == (None, None)
    assert world.asked == []


@pytest.mark.pain("P33")
def test_a_holder_that_died_blocks_nobody_for_longer_than_the_lease():
    world = world_with(tokens())
    dead = Actor(world, obtain_token(OAUTH, wanted()))
    while not world.of(Fetch):
        dead.step()
    dead.die()
    world.answers[TOKEN] = [tokens("access-3")]
    obtained = world.run(obtain_token(OAUTH, wanted()))
    assert obtained.record.tokens.access_token == "access-3"
    assert LEASE_S <= world.now - NOW <= LEASE_S + 2 * POLL_INTERVAL_S


def test_nobody_waits_for_ever():
    world = world_with()
    world.on[AcquireLease] = lambda step: setattr(
        world.store, "held_until", world.now + 99
    )
    world.store.holder = "somebody"
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(obtain_token(OAUTH, wanted()))
    assert world.now - NOW == pytest.approx(MAX_POLLS * POLL_INTERVAL_S)
    assert world.asked == []


# --- others store something meanwhile ---------------------------------------------

LATER = stored(tokens=attrs.evolve(GOOD, access_token="later", refresh_token="later-r"))
OVER = stored(tokens=attrs.evolve(EXPIRED, access_token="over", refresh_token="over-r"))


def meanwhile(world, kind, *records):
    """Store something before each of the next steps of one kind."""
    waiting = list(records)

    def put(step):
        if waiting:
            world.store.put(waiting.pop(0))

    world.on[kind] = put


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
@pytest.mark.parametrize("answer", [tokens(), refused("invalid_grant")])
def test_who_lost_the_race_reads_again_and_deletes_nothing(answer):
    world = world_with(answer)
    meanwhile(world, Save, LATER)
    obtained = world.run(obtain_token(OAUTH, wanted()))
    assert (obtained.record, obtained.source) == (LATER, "refreshed")
    assert world.record == LATER


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
def test_a_refresh_token_is_sent_once_even_if_the_store_was_changed_meanwhile():
    noted = stored(registered=registered("new-client-1"))
    world = world_with(tokens(), refused("invalid_grant"))
    meanwhile(world, Save, noted)
    record = world.run(obtain_token(OAUTH, wanted())).record
    assert record.tokens.refresh_token == "refresh-2"
    assert record.registered == registered("new-client-1")
    assert world.record == record
    assert len(world.token_forms()) == 1


def test_a_refresh_token_that_came_meanwhile_is_tried_where_the_first_was_no_good():
    world = world_with(refused("invalid_grant"), tokens("access-3"))
    meanwhile(world, Save, OVER)
    record = world.run(obtain_token(OAUTH, wanted())).record
    assert record.tokens.access_token == "access-3"
    sent = [form["refresh_token"] for form in world.token_forms()]
    assert sent == ["refresh-1", "over-r"]


def test_tokens_that_are_gone_by_two_accounts_are_forgotten_once():
    noted = stored(registered=registered("new-client-1"))
    world = world_with(refused("invalid_grant"))
    meanwhile(world, Save, noted)
    assert world.run(refresh(OAUTH, wanted())) == (None, None)
    assert world.record == attrs.evolve(noted, tokens=None)
    assert len(world.token_forms()) == 1


def test_what_somebody_else_logged_out_of_is_not_stored_again():
    world = world_with(tokens())
    meanwhile(world, Save, None)
    assert world.run(refresh(OAUTH, wanted())) == (None, None)
    assert world.record is None


def test_a_store_that_changes_all_the_time_ends_a_refresh_with_one_request():
    world = world_with(tokens())
    meanwhile(world, Save, *[stored()] * MAX_SAVES)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(refresh(OAUTH, wanted()))
    assert len(world.token_forms()) == 1
    assert len(world.of(Save)) == MAX_SAVES


def test_who_finds_good_tokens_when_the_lease_is_had_asks_for_none():
    world = world_with(record=LATER)
    assert world.run(refresh(OAUTH, wanted())) == (LATER, None)
    assert world.asked == []


def test_a_login_that_ends_later_is_what_is_stored():
    world = World()
    meanwhile(world, Save, LATER, LATER)
    obtained = world.run(obtain_token(OAUTH, wanted()))
    assert obtained.source == "logged-in"
    assert world.record == obtained.record


def test_new_tokens_that_can_never_be_stored_are_an_error():
    world = World()
    meanwhile(world, Save, *[LATER] * 20)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(obtain_token(OAUTH, wanted()))
    assert world.record == LATER


# --- logging out ------------------------------------------------------------------


def test_logging_out_forgets_first_and_then_has_the_server_forget():
    world = World(stored())
    assert world.run(revoke_login(wanted()))
    assert world.record is None
    kinds = world.kinds
    assert kinds.index("Delete") < kinds.index("Fetch")
    assert set(world.asked) == {f"{ISSUER}/revoke"}


def test_what_is_stored_while_logging_out_is_what_is_logged_out_of():
    world = World(stored())
    meanwhile(world, Delete, LATER)
    assert world.run(revoke_login(wanted()))
    assert world.record is None
    assert {form["token"] for _, form in world.posted} <= {"later", "later-r"}


def test_logging_out_of_a_store_that_changes_all_the_time_is_an_error():
    world = World(stored())
    meanwhile(world, Delete, *[LATER] * MAX_SAVES)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(revoke_login(wanted()))
    assert world.asked == []


# --- what answers what ------------------------------------------------------------


def test_a_refresh_that_is_under_way_while_somebody_logs_out_brings_nothing_back():
    world = world_with(tokens())
    refreshing = Actor(world, refresh(OAUTH, wanted()))
    while not world.of(Fetch):
        refreshing.step()
    world.run(revoke_login(wanted()))
    while not refreshing.is_over:
        refreshing.step()
    assert refreshing.result() == (None, None)
    assert world.record is None


MORE = {"denial": wants_more("b"), "refused_token": "access-1"}
ALIKE = [
    ({}, {}, True),
    ({"refused_token": "a"}, {"refused_token": "a"}, True),
    ({"refused_token": "a"}, {"refused_token": "b"}, False),
    ({"refused_token": "a"}, {"refused_token": "a", "denial": denied()}, True),
    ({"refused_token": "a"}, {"refused_token": "a", "must_log_in": True}, False),
    ({"refused_token": "a"}, {"refused_token": "a", "is_unattended": True}, False),
    (MORE, MORE, True),
    (MORE, MORE | {"refused_token": "another"}, True),
    (MORE, MORE | {"denial": wants_more("c")}, False),
    (MORE, {"refused_token": "access-1"}, False),
    (MORE, {"refused_token": "access-1", "denial": denied(scopes=("b",))}, False),
    (MORE, {"denial": denied(403)}, False),
]


@pytest.mark.pain("P31")
@pytest.mark.parametrize(("one", "other", "is_alike"), ALIKE)
def test_one_answer_is_for_all_who_ask_the_same(one, other, is_alike):
    assert (wanted(**one).sharing_key == wanted(**other).sharing_key) is is_alike
