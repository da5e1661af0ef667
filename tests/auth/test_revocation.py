"""Which tokens a server is asked to forget, by whom, and when it is not asked."""

import attrs
import pytest
from driving import EVIL, GOOD, ISSUER, SERVER, World, metadata, registered, stored

from mcpwire.auth.errors import (
    RegistrationError,
    TokenError,
    UrlRefused,
)
from mcpwire.auth.records import Identity
from mcpwire.auth.steps import Answer, Fetch
from mcpwire.auth.tokens import revoke_tokens
from mcpwire.auth.url_policy import UrlPolicy

REVOKE = f"{ISSUER}/revoke"
RECORD = stored(tokens=GOOD)
POLICY = UrlPolicy(SERVER)


def revoke(world, record=RECORD, policy=POLICY):
    world.run(revoke_tokens(record, policy))


def test_both_tokens_are_named_with_what_they_are():
    world = World()
    revoke(world)
    shown = {"client_id": "client-1"}
    assert world.posted == [
        (REVOKE, {"token": "refresh-1", "token_type_hint": "refresh_token"} | shown),
        (REVOKE, {"token": "access-1", "token_type_hint": "access_token"} | shown),
    ]


@pytest.mark.parametrize("status", [200, 400, 401, 404, 503])
def test_whatever_the_server_answers_there_is_nothing_more_to_be_done(status):
    world = World(None, {REVOKE: Answer(status, {}, b"<p>")})
    revoke(world)
    assert len(world.posted) == 2


def test_where_http_basic_is_refused_the_secret_goes_into_the_form():
    known = metadata(
        token_endpoint_auth_methods_supported=(
            "client_secret_basic",
            "client_secret_post",
        )
    )
    identity = Identity("given", "s3cret", ISSUER)
    answers = [Answer(401, {}, b""), Answer(200, {}, b""), Answer(200, {}, b"")]
    world = World(None, {REVOKE: answers})
    revoke(world, stored(tokens=GOOD, metadata=known, identity=identity))
    assert [(form["token"], form.get("client_secret")) for _, form in world.posted] == [
        ("refresh-1", None),
        ("refresh-1", "s3cret"),
        ("access-1", "s3cret"),
    ]


@pytest.mark.parametrize(
    "record",
    [
        stored(tokens=None),
        attrs.evolve(RECORD, metadata=metadata(revocation_endpoint=None)),
    ],
)
def test_where_there_is_nothing_to_revoke_or_nobody_to_ask_nothing_is_sent(record):
    world = World()
    revoke(world, record)
    assert world.kinds == []


def test_a_client_with_a_secret_shows_it_in_the_header():
    world = World()
    revoke(world, stored(tokens=GOOD, identity=Identity("id", "SENTINEL", ISSUER)))
    assert all(step.headers[0][0] == "authorization" for step in world.of(Fetch))
    assert "SENTINEL" not in str(world.posted)
    assert "SENTINEL" not in str(world.ledger)


@pytest.mark.attack("S01")
@pytest.mark.parametrize("issuer", [EVIL, f"{ISSUER}/", None])
def test_a_client_of_another_issuer_shows_nothing(issuer):
    world = World()
    identity = registered(issuer=issuer, client_secret="SENTINEL")
    with pytest.raises(RegistrationError):
        revoke(world, stored(tokens=GOOD, identity=identity))
    assert world.kinds == []


@pytest.mark.attack("S05")
@pytest.mark.parametrize(
    "url", ["http://as.example/revoke", "https://10.0.0.1/", "file:///etc/passwd"]
)
def test_nothing_is_sent_where_nothing_may_go(url):
    world = World()
    record = attrs.evolve(RECORD, metadata=metadata(revocation_endpoint=url))
    with pytest.raises(UrlRefused):
        revoke(world, record)
    assert world.kinds == []


def test_who_cannot_say_who_it_is_sends_nothing():
    world = World()
    identity = registered(auth_method="client_secret_basic")
    with pytest.raises(TokenError):
        revoke(world, stored(tokens=GOOD, identity=identity))
    assert world.kinds == []
