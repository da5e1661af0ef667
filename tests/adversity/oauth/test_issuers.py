"""Secrets of one authorization server, and a server that names another one.

Every byte that reached the other is searched, also for encoded secrets.
"""

from __future__ import annotations

import pytest
from authorization_server import json_answer, oauth
from evil_issuer import (
    SECRETS,
    good_and_evil,
    knows_client,
    protected_server,
    stolen,
    use,
)

import mcpwire

pytestmark = pytest.mark.attack("S01")

TENANT = "/tenant"


# How a server that was good, or seemed to be, names another issuer. Each returns the
# issuers that it names from now on.


def names_it(good, evil):
    return [evil.issuer]


def calls_it_good(good, evil):
    evil.edit["metadata"] = lambda document: document | {"issuer": good.issuer}
    return [evil.issuer]


def forges_the_good(good, evil):
    """The issuer name is right, and its document is the other issuer's."""
    good.edit["metadata"] = lambda document: evil.metadata()
    return [good.issuer]


# tests/auth/test_issuers.py has more ways, test_servers.py each spelling of an issuer.
NAMED = {
    "it": names_it,
    "it, which says it is the good one": calls_it_good,
    "the good one, whose document is forged": forges_the_good,
}


def name(server, good, evil, how):
    """Let the server name the other issuer and require its tokens from now on."""
    says = {"resource": server.url, "authorization_servers": NAMED[how](good, evil)}
    server.on_metadata = lambda request: json_answer(says)
    server.auth = evil


async def log_in(server, good):
    """Return a grant whose storage holds tokens, and a secret, of the good server."""
    grant = oauth()
    result = await use(server.url, grant)
    assert result.text == "hi"
    [client] = good.clients.values()
    assert client.secret is not None
    return grant


@pytest.mark.rule("REG-10", "REG-11")
@pytest.mark.parametrize("how", NAMED)
async def test_stored_secrets_never_reach_another_issuer(how):
    options = {"path": TENANT, "auth_methods": ["client_secret_basic"]}
    with good_and_evil(**options) as (good, evil), protected_server(good) as server:
        grant = await log_in(server, good)
        name(server, good, evil, how)
        outcome = await use(server.url, grant)
        assert stolen(good, evil.bodies) == []
        if isinstance(outcome, mcpwire.MCPError):
            assert isinstance(outcome, mcpwire.AuthError), outcome
            assert {request.verb for request in evil.requests} <= {"GET"}
        else:  # the user has agreed to a separate login
            assert len(evil.registrations) == len(evil.authorizations) == 1
            assert evil.grants == ["authorization_code"]


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("how", NAMED)
@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.grounds(2, "how")
async def test_configured_secrets_never_reach_another_issuer(kind, how):
    with good_and_evil(path=TENANT) as (good, evil), protected_server(good) as server:
        knows_client(good, kind)
        grant = SECRETS[kind](good, issuer=good.issuer)
        name(server, good, evil, how)
        outcome = await use(server.url, grant)
        assert stolen(good, evil.bodies, server.bodies) == []
        assert isinstance(outcome, (mcpwire.DiscoveryError, mcpwire.UrlRefused))
        assert {request.verb for request in evil.requests} <= {"GET"}
        assert evil.authorizations == []
        assert good.token_requests == []


@pytest.mark.parametrize("kind", SECRETS)
async def test_configured_secrets_reach_their_own_issuer(kind):
    with good_and_evil(path=TENANT) as (good, _), protected_server(good) as server:
        knows_client(good, kind)
        grant = SECRETS[kind](good, issuer=good.issuer)
        result = await use(server.url, grant)
        assert result.text == "hi"
        assert stolen(good, good.bodies)


@pytest.mark.parametrize("kind", SECRETS)
async def test_discovered_issuer_is_trusted_only_on_request(kind):
    """It also proves that `stolen` finds a secret."""
    with good_and_evil(path=TENANT) as (good, evil), protected_server(good) as server:
        knows_client(evil, kind)
        knows_client(good, kind)
        grant = SECRETS[kind](good, issuer="discovered")
        name(server, good, evil, "it")
        await use(server.url, grant)
        assert stolen(good, evil.bodies)
