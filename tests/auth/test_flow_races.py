"""Others store something while a refresh or a logout is under way."""

import attrs
import pytest
from driving import (
    EXPIRED,
    GOOD,
    ISSUER,
    Actor,
    World,
    denied,
    refused,
    registered,
    stored,
    tokens,
    wanted,
    wants_more,
)

from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.flow import SAVES, obtain, renew, revoke
from mcpwire.auth.steps import Fetch, Forget, Save

OAUTH = OAuth()
TOKEN = f"{ISSUER}/token"
LATER = stored(tokens=attrs.evolve(GOOD, access_token="later", refresh_token="later-r"))
OVER = stored(tokens=attrs.evolve(EXPIRED, access_token="over", refresh_token="over-r"))


def meanwhile(world, kind, *records):
    """Store something before each of the next steps of one kind."""
    waiting = list(records)

    def put(step):
        if waiting:
            world.store.put(waiting.pop(0))

    world.on[kind] = put


def world_with(*answers, record=None):
    world = World(record or stored())
    world.answers[TOKEN] = list(answers)
    return world


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
@pytest.mark.parametrize("answer", [tokens(), refused("invalid_grant")])
def test_who_lost_the_race_reads_again_and_deletes_nothing(answer):
    world = world_with(answer)
    meanwhile(world, Save, LATER)
    obtained = world.run(obtain(OAUTH, wanted()))
    assert (obtained.record, obtained.how) == (LATER, "refreshed")
    assert world.record == LATER


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
def test_a_refresh_token_is_sent_once_even_if_the_store_was_changed_meanwhile():
    noted = stored(registered=registered("new-client-1"))
    world = world_with(tokens(), refused("invalid_grant"))
    meanwhile(world, Save, noted)
    record = world.run(obtain(OAUTH, wanted())).record
    assert record.tokens.refresh_token == "refresh-2"
    assert record.registered == registered("new-client-1")
    assert world.record == record
    assert len(world.token_forms()) == 1


def test_a_refresh_token_that_came_meanwhile_is_tried_where_the_first_was_no_good():
    world = world_with(refused("invalid_grant"), tokens("access-3"))
    meanwhile(world, Save, OVER)
    record = world.run(obtain(OAUTH, wanted())).record
    assert record.tokens.access_token == "access-3"
    sent = [form["refresh_token"] for form in world.token_forms()]
    assert sent == ["refresh-1", "over-r"]


def test_tokens_that_are_gone_by_two_accounts_are_forgotten_once():
    noted = stored(registered=registered("new-client-1"))
    world = world_with(refused("invalid_grant"))
    meanwhile(world, Save, noted)
    assert world.run(renew(OAUTH, wanted())) == (None, None)
    assert world.record == attrs.evolve(noted, tokens=None)
    assert len(world.token_forms()) == 1


def test_what_somebody_else_logged_out_of_is_not_stored_again():
    world = world_with(tokens())
    meanwhile(world, Save, None)
    assert world.run(renew(OAUTH, wanted())) == (None, None)
    assert world.record is None


def test_a_store_that_changes_all_the_time_ends_a_refresh_with_one_request():
    world = world_with(tokens())
    meanwhile(world, Save, *[stored()] * SAVES)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(renew(OAUTH, wanted()))
    assert len(world.token_forms()) == 1
    assert len(world.of(Save)) == SAVES


def test_who_finds_good_tokens_when_the_lease_is_had_asks_for_none():
    world = world_with(record=LATER)
    assert world.run(renew(OAUTH, wanted())) == (LATER, None)
    assert world.asked == []


def test_a_login_that_ends_later_is_what_is_stored():
    world = World()
    meanwhile(world, Save, LATER, LATER)
    obtained = world.run(obtain(OAUTH, wanted()))
    assert obtained.how == "logged-in"
    assert world.record == obtained.record


def test_new_tokens_that_can_never_be_stored_are_an_error():
    world = World()
    meanwhile(world, Save, *[LATER] * 20)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(obtain(OAUTH, wanted()))
    assert world.record == LATER


# --- logging out ------------------------------------------------------------------


def test_logging_out_forgets_first_and_then_has_the_server_forget():
    world = World(stored())
    assert world.run(revoke(wanted()))
    assert world.record is None
    kinds = world.kinds
    assert kinds.index("Forget") < kinds.index("Fetch")
    assert set(world.asked) == {f"{ISSUER}/revoke"}


def test_what_is_stored_while_logging_out_is_what_is_logged_out_of():
    world = World(stored())
    meanwhile(world, Forget, LATER)
    assert world.run(revoke(wanted()))
    assert world.record is None
    assert {form["token"] for _, form in world.posted} <= {"later", "later-r"}


def test_logging_out_of_a_store_that_changes_all_the_time_is_an_error():
    world = World(stored())
    meanwhile(world, Forget, *[LATER] * SAVES)
    with pytest.raises(AuthTemporarilyUnavailable):
        world.run(revoke(wanted()))
    assert world.asked == []


# --- what answers what ------------------------------------------------------------


def test_a_refresh_that_is_under_way_while_somebody_logs_out_brings_nothing_back():
    world = world_with(tokens())
    refreshing = Actor(world, renew(OAUTH, wanted()))
    while not world.of(Fetch):
        refreshing.step()
    world.run(revoke(wanted()))
    while not refreshing.is_over:
        refreshing.step()
    assert refreshing.result() == (None, None)
    assert world.record is None


MORE = {"denial": wants_more("b"), "used": "access-1"}
ALIKE = [
    ({}, {}, True),
    ({"used": "a"}, {"used": "a"}, True),
    ({"used": "a"}, {"used": "b"}, False),
    ({"used": "a"}, {"used": "a", "denial": denied()}, True),
    ({"used": "a"}, {"used": "a", "must_log_in": True}, False),
    ({"used": "a"}, {"used": "a", "is_unattended": True}, False),
    (MORE, MORE, True),
    (MORE, MORE | {"used": "another"}, True),
    (MORE, MORE | {"denial": wants_more("c")}, False),
    (MORE, {"used": "access-1"}, False),
    (MORE, {"used": "access-1", "denial": denied(scopes=("b",))}, False),
    (MORE, {"denial": denied(403)}, False),
]


@pytest.mark.pain("P31")
@pytest.mark.parametrize(("one", "other", "is_alike"), ALIKE)
def test_one_answer_is_for_all_who_ask_the_same(one, other, is_alike):
    assert (wanted(**one).question == wanted(**other).question) is is_alike
