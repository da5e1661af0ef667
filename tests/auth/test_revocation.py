"""Revocation: which tokens, with which client, and when no request is sent."""

import attrs
import pytest
from flow_driver import EVIL, GOOD, ISSUER, SERVER, World, metadata, registered, stored

from mcpwire.auth.errors import RegistrationError
from mcpwire.auth.records import Identity
from mcpwire.auth.steps import Answer
from mcpwire.auth.tokens import revoke_tokens
from mcpwire.auth.url_policy import UrlPolicy

REVOKE = f"{ISSUER}/revoke"
RECORD = stored(tokens=GOOD)
POLICY = UrlPolicy(SERVER)


def revoke(world, record=RECORD, policy=POLICY):
    world.run(revoke_tokens(record, policy))


@pytest.mark.parametrize("status", [200, 401, 503])
def test_revocation_ignores_the_response_status(status):
    world = World(None, {REVOKE: Answer(status, {}, b"<p>")})
    revoke(world)
    assert len(world.posted) == 2


def test_revocation_falls_back_to_the_secret_in_the_form():
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
def test_revocation_needs_tokens_and_an_endpoint(record):
    world = World()
    revoke(world, record)
    assert world.kinds == []


@pytest.mark.attack("S01")
@pytest.mark.parametrize("issuer", [EVIL, f"{ISSUER}/", None])
def test_revocation_with_another_issuer_is_refused(issuer):
    world = World()
    identity = registered(issuer=issuer, client_secret="SENTINEL")
    with pytest.raises(RegistrationError):
        revoke(world, stored(tokens=GOOD, identity=identity))
    assert world.kinds == []
