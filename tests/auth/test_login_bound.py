"""Which tokens are bound to a key of ours, and which key that is (RFC 9449)."""

import pytest
from driving import (
    GOOD,
    ISSUER,
    PRM,
    World,
    denied,
    metadata,
    resource_document,
    server_document,
    stored,
    tokens,
    wanted,
    wants_more,
    well_known,
)

from mcpwire.auth.config import OAuth
from mcpwire.auth.errors import AuthRequired, TokenError
from mcpwire.auth.flow import finish, log_in, obtain
from mcpwire.auth.jwt import new_key
from mcpwire.auth.records import Tokens
from mcpwire.auth.steps import Fetch, NewKey

OAUTH = OAuth()
TOKEN = f"{ISSUER}/token"

BINDS = {"dpop_signing_alg_values_supported": ["ES256"]}
DEMANDED = {"dpop_bound_access_tokens_required": True}
ONLY_DPOP = denied(has_bearer=False, has_dpop=True)
EITHER = denied(has_dpop=True)
KEYS = {
    "not configured": ({}, {}, BINDS, denied(), False),
    "configured": ({"dpop": True}, {}, BINDS, denied(), True),
    "configured, not supported": ({"dpop": True}, {}, {}, denied(), False),
    "demanded by the resource": ({}, DEMANDED, {}, denied(), True),
    "demanded by the challenge": ({}, {}, {}, ONLY_DPOP, True),
    "one of two ways": ({}, {}, BINDS, EITHER, False),
    "no denial": ({}, {}, BINDS, None, False),
}


@pytest.mark.parametrize(
    ("options", "resource", "server", "denial", "is_bound"), KEYS.values(), ids=KEYS
)
def test_tokens_are_bound_where_that_is_wanted_and_possible(
    options, resource, server, denial, is_bound
):
    world = World()
    world.answers[PRM] = resource_document(**resource)
    world.answers[well_known(ISSUER)] = server_document(**server)
    world.answers[TOKEN] = tokens(token_type="DPoP" if is_bound else "Bearer")
    record = world.run(obtain(OAuth(**options), wanted(denial=denial))).record
    assert len(world.of(NewKey)) == is_bound
    assert (record.dpop_key is not None) == is_bound
    [request] = [step for step in world.of(Fetch) if step.form]
    assert ("dpop" in dict(request.headers)) == is_bound
    assert world.record == record


KEY = new_key()
BOUND = Tokens("access-1", "DPoP", GOOD.expires_at, "refresh-1", ("a",))
WITH_KEY = stored(
    tokens=BOUND,
    dpop_key=KEY,
    metadata=metadata(dpop_signing_alg_values_supported=("ES256",)),
)


def answers(server=BINDS, token_type="DPoP"):
    return {
        well_known(ISSUER): server_document(**server),
        TOKEN: tokens(token_type=token_type),
    }


def test_the_key_of_before_stays_as_long_as_the_server_takes_it():
    world = World(WITH_KEY, answers())
    record = world.run(log_in(OAUTH, wanted(denial=wants_more("b"))))
    assert record.dpop_key == KEY
    assert not world.of(NewKey)


def test_a_server_that_knows_no_keys_any_more_gives_plain_tokens():
    world = World(WITH_KEY, answers({}, "Bearer"))
    record = world.run(log_in(OAUTH, wanted(denial=wants_more("b"))))
    assert record.dpop_key is None
    assert record.tokens.token_type == "Bearer"


def test_the_key_goes_with_its_issuer():
    other = "https://other.example"
    world = World(WITH_KEY)
    world.answers |= {
        PRM: resource_document(other),
        well_known(other): server_document(other, **BINDS),
        f"{other}/register": world.answers[f"{ISSUER}/register"],
        f"{other}/token": tokens(token_type="DPoP"),
    }
    record = world.run(log_in(OAuth(dpop=True), wanted()))
    assert record.dpop_key is not None
    assert record.dpop_key != KEY
    assert len(world.of(NewKey)) == 1


def test_a_key_that_tokens_are_bound_to_is_kept_where_the_login_is_given_up():
    world = World(WITH_KEY, answers({}))
    with pytest.raises(AuthRequired):
        world.run(log_in(OAuth(interactive=False), wanted(denial=wants_more("b"))))
    assert (world.record.dpop_key, world.record.tokens) == (KEY, BOUND)


def test_a_refresh_proves_the_key_that_the_tokens_are_bound_to():
    world = World(WITH_KEY, {TOKEN: tokens(token_type="DPoP")})
    record = world.run(obtain(OAUTH, wanted(used="access-1"))).record
    assert record.dpop_key == KEY
    [request] = world.of(Fetch)
    assert dict(request.headers)["dpop"].count(".") == 2


def test_a_token_that_is_not_bound_although_it_should_be_is_not_used():
    world = World(None, answers(token_type="Bearer"))
    with pytest.raises(TokenError):
        world.run(log_in(OAuth(dpop=True), wanted()))
    assert world.record.tokens is None


def test_a_login_that_is_finished_elsewhere_has_its_key():
    grant = OAuth(dpop=True, interactive=False)
    world = World(None, answers())
    urls = []
    for _ in range(2):  # the key of the first is the one that counts
        with pytest.raises(AuthRequired) as caught:
            world.run(log_in(grant, wanted()))
        urls.append(caught.value.url)
    assert urls[0] == urls[1]
    state = urls[0].partition("state=")[2].partition("&")[0]
    record = world.run(finish(grant, wanted(), {"state": state, "code": "c"}))
    assert record.tokens.token_type == "DPoP"
    assert record.dpop_key is not None
