"""A login that is begun here and finished elsewhere, or never."""

import attrs
import pytest
from driving import (
    EVIL,
    EXPIRED,
    GOOD,
    ISSUER,
    NOW,
    World,
    denied,
    query_of,
    refused,
    registered,
    stored,
    tokens,
    wanted,
    wants_more,
)

from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    InsufficientScope,
    ResponseRefused,
    TokenError,
)
from mcpwire.auth.flow import PENDING_S, finish, obtain
from mcpwire.auth.records import Identity
from mcpwire.auth.steps import Answer, Ask, LoadPending, SavePending

ALONE = OAuth(interactive=False)
TOKEN = f"{ISSUER}/token"
ANYWHERE = registered(redirect_uri=None)
LIVE = stored(tokens=GOOD, identity=ANYWHERE)


def begin(world, grant=ALONE, **reasons):
    """Begin a login; return the error that says where to go."""
    with pytest.raises(AuthRequired) as caught:
        world.run(obtain(grant, wanted(**reasons)))
    return caught.value


def back(error, /, **params):
    """Return what the user comes back with from there."""
    return {"state": query_of(error.url)["state"], "code": "code-1"} | params


@pytest.mark.rule("FLOW-04")
def test_who_may_ask_nobody_says_where_to_log_in_and_keeps_what_that_takes():
    world = World()
    error = begin(world, denial=denied(scopes=("a",)))
    assert type(error) is AuthRequired
    assert error.scopes == ("a",)
    assert error.url.startswith(f"{ISSUER}/authorize?")
    assert error.url not in str(error)
    assert query_of(error.url)["state"] not in f"{error} {error!r} {error.args}"
    [keep] = world.of(SavePending)
    assert keep.pending.record.issuer == ISSUER
    assert keep.pending.begun_at == NOW
    assert not world.of(Ask)
    assert world.token_forms() == []


@pytest.mark.pain("P35")
@pytest.mark.parametrize(
    ("required", "scopes", "said"),
    [(("b", "c"), ("a", "b", "c"), "b c"), ((), ("a",), "unnamed")],
)
def test_too_few_scopes_are_an_error_of_their_own(required, scopes, said):
    world = World(LIVE)
    error = begin(world, denial=wants_more(*required), used="access-1")
    assert isinstance(error, InsufficientScope)
    assert (error.required, error.scopes) == (required, scopes)
    assert str(error).endswith(f"wants more scopes: {said}")
    assert query_of(error.url)["scope"] == " ".join(scopes)
    assert world.record == LIVE


def test_a_login_can_be_finished_by_somebody_else():
    world = World()
    error = begin(world)
    record = world.run(finish(OAuth(), wanted(), back(error)))
    assert record.tokens.access_token == "access-2"
    assert world.record == record
    assert world.store.pending is None
    assert world.run(obtain(ALONE, wanted())).how == "stored"


def test_a_user_who_comes_back_to_another_place_is_not_waited_for():
    grant = OAuth(redirect_uri="https://app.example/callback")
    world = World()
    error = begin(world, grant)
    assert not world.of(Ask)
    record = world.run(finish(grant, wanted(), back(error)))
    assert world.record == record


def test_tokens_of_before_are_replaced_when_it_is_finished_and_not_before():
    world = World(LIVE)
    error = begin(world, denial=wants_more("b"), used="access-1")
    assert world.record == LIVE
    record = world.run(finish(ALONE, wanted(), back(error)))
    assert record.tokens.scopes == ("a", "b")
    assert world.record == record


@pytest.mark.parametrize(
    ("passed", "is_in_time"),
    [(0, True), (PENDING_S - 1, True), (PENDING_S, False), (-1, False), (1e9, False)],
)
def test_it_can_be_finished_within_an_hour(passed, is_in_time):
    world = World()
    error = begin(world)
    world.now += passed
    if is_in_time:
        assert world.run(finish(ALONE, wanted(), back(error)))
        return
    with pytest.raises(AuthRequired) as caught:
        world.run(finish(ALONE, wanted(), back(error)))
    assert caught.value.url is None
    assert world.token_forms() == []


@pytest.mark.attack("S22")
def test_what_was_finished_is_not_finished_again():
    world = World()
    error = begin(world)
    world.run(finish(ALONE, wanted(), back(error)))
    with pytest.raises(AuthRequired):
        world.run(finish(ALONE, wanted(), back(error)))
    assert len(world.token_forms()) == 1


@pytest.mark.attack("S22")
@pytest.mark.rule("FLOW-09")
@pytest.mark.parametrize("params", [{"state": "other"}, {"state": ""}, {}])
def test_a_browser_with_another_state_is_not_the_users(params):
    world = World()
    error = begin(world)
    for _ in range(3):
        with pytest.raises(ResponseRefused) as caught:
            world.run(finish(ALONE, wanted(), {"code": "evil"} | params))
        assert caught.value.parameter == "state"
    assert world.token_forms() == []
    assert world.run(finish(ALONE, wanted(), back(error)))
    assert [form["code"] for form in world.token_forms()] == ["code-1"]


NO_GOOD = {
    "another issuer": ({"iss": EVIL}, ResponseRefused),
    "an error": ({"error": "access_denied"}, ConsentDenied),
    "an error of another issuer": ({"error": "x", "iss": EVIL}, ResponseRefused),
    "no code": ({"code": ""}, ResponseRefused),
}


@pytest.mark.attack("S06")
@pytest.mark.parametrize(("params", "error"), NO_GOOD.values(), ids=NO_GOOD)
def test_an_answer_to_that_login_is_the_only_one_whatever_it_says(params, error):
    world = World()
    begun = begin(world)
    with pytest.raises(error):
        world.run(finish(ALONE, wanted(), back(begun, **params)))
    with pytest.raises(AuthRequired):
        world.run(finish(ALONE, wanted(), back(begun)))
    assert world.token_forms() == []


@pytest.mark.rule("REG-10")
@pytest.mark.attack("S01")
@pytest.mark.parametrize(
    "grant",
    [OAuth(issuer=EVIL), OAuth(client_id="another", issuer=ISSUER)],
)
def test_a_login_with_another_server_or_client_is_not_gone_on_with(grant):
    world = World()
    begun = begin(world)
    with pytest.raises(ConsentDenied):
        world.run(finish(grant, wanted(), back(begun)))
    assert world.token_forms() == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(503, {}, b""), AuthTemporarilyUnavailable),
        (refused("invalid_grant"), TokenError),
    ],
)
def test_a_code_that_gives_no_tokens_stores_none(answer, error):
    world = World(LIVE)
    begun = begin(world, denial=wants_more("b"), used="access-1")
    world.answers[TOKEN] = answer
    with pytest.raises(error):
        world.run(finish(ALONE, wanted(), back(begun)))
    assert world.record == LIVE


# --- begun twice ------------------------------------------------------------------


def test_who_was_told_where_to_log_in_finds_the_way_back_whoever_asks_again():
    world = World()
    first = begin(world)
    world.now += 60
    second = begin(world)
    assert first.url == second.url
    assert [step.pending.begun_at for step in world.of(SavePending)] == [NOW, NOW]
    assert world.run(finish(ALONE, wanted(), back(first)))


OTHERS = {
    "it would end soon": {},
    "other scopes": {"denial": denied(scopes=("b",))},
}


@pytest.mark.parametrize("reasons", OTHERS.values(), ids=OTHERS)
def test_another_login_takes_the_place_of_the_one_that_was_begun(reasons):
    world = World()
    first = begin(world)
    world.now += 60 if reasons else PENDING_S / 2
    second = begin(world, **reasons)
    assert query_of(first.url)["state"] != query_of(second.url)["state"]
    with pytest.raises(ResponseRefused):
        world.run(finish(ALONE, wanted(), back(first)))
    assert world.run(finish(ALONE, wanted(), back(second)))


def test_a_user_who_can_be_asked_is_asked_anew():
    world = World()
    first = begin(world)
    world.run(obtain(OAuth(), wanted()))
    [asked] = world.of(Ask)
    assert asked.state != query_of(first.url)["state"]
    assert len(world.of(LoadPending)) == 1


def test_a_registration_of_a_login_that_was_begun_is_stored():
    world = World()
    begin(world)
    [keep] = world.of(SavePending)
    assert world.record == attrs.evolve(keep.pending.record, tokens=None)
    begin(world)
    assert world.asked.count(f"{ISSUER}/register") == 1


def test_a_server_that_forgot_the_client_of_a_login_is_asked_to_register_another():
    expired = stored(tokens=EXPIRED, identity=ANYWHERE)
    world = World(expired)
    world.answers[TOKEN] = [
        refused("invalid_client", 401),
        refused("invalid_client", 401),
        refused("invalid_client", 401),
        tokens(),
    ]
    first = begin(world)
    assert world.record.registered.client_id == "new-client-1"
    with pytest.raises(TokenError):
        world.run(finish(ALONE, wanted(), back(first)))
    assert world.record == expired
    second = begin(world)
    record = world.run(finish(ALONE, wanted(), back(second)))
    assert record.identity.client_id == "new-client-2"


def test_a_client_that_was_given_is_not_forgotten_by_anything():
    given = Identity("given-1", issuer=ISSUER)
    world = World(stored(tokens=None, identity=given))
    world.answers[TOKEN] = refused("invalid_client", 401)
    grant = OAuth(client_id="given-1", interactive=False)
    begun = begin(world, grant)
    with pytest.raises(TokenError):
        world.run(finish(grant, wanted(), back(begun)))
    assert world.record == stored(tokens=None, identity=given)
