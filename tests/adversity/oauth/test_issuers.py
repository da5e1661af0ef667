"""Secrets of one authorization server, and a server that names another one.

Every byte that reached the other is searched, also for encoded secrets.
"""

from urllib.parse import urlsplit

import pytest
from authorization_server import browse, json_answer, oauth
from evil_issuer import (
    GOOD,
    SECRETS,
    good_and_evil,
    knows_client,
    protected_server,
    stolen,
    use,
)

import mcpwire
import mcpwire.sync
from mcpwire.auth.errors import ResponseRefused

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
async def test_discovered_issuer_is_trusted_only_on_request(kind):
    """It also proves that `stolen` finds a secret."""
    with good_and_evil(path=TENANT) as (good, evil), protected_server(good) as server:
        knows_client(evil, kind)
        knows_client(good, kind)
        grant = SECRETS[kind](good, issuer="discovered")
        name(server, good, evil, "it")
        await use(server.url, grant)
        assert stolen(good, evil.bodies)


# Logins that another issuer is mixed into; tests/auth/test_authorization.py has each
# response of another issuer.


@pytest.mark.attack("S01", "S06")
@pytest.mark.parametrize("promises", [True, False])
async def test_code_never_reaches_the_evil_server_behind_the_login(promises):
    """The evil server sends its users to the good one's authorization endpoint."""
    with good_and_evil() as (good, evil), protected_server(evil) as server:
        good.add_client("client-1")
        evil.iss = promises
        redirected_metadata = {"authorization_endpoint": good.issuer + "/authorize"}
        evil.edit["metadata"] = lambda document: document | redirected_metadata
        outcome = await use(server.url, oauth())
        assert isinstance(outcome, ResponseRefused), outcome
        assert len(good.authorizations) == 1
        assert evil.token_requests == []
        assert stolen(good, evil.bodies, server.bodies) == []


@pytest.mark.attack("S01", "S06")
async def test_login_is_finished_with_the_issuer_that_began_it():
    """A login begun with one issuer is not finished with another."""
    with good_and_evil() as (good, evil), protected_server(good) as server:
        begun = []
        grant = oauth(ask=begun.append, interactive=False)
        outcome = await use(server.url, grant)
        assert isinstance(outcome, mcpwire.AuthRequired)
        back = browse(outcome.url)
        metadata = {"resource": server.url, "authorization_servers": [evil.issuer]}
        server.on_metadata = lambda request: json_answer(metadata)
        target = mcpwire.Http(server.url, auth=grant)
        await mcpwire.finish_login(target, back)
        assert good.grants == ["authorization_code"]
        assert (evil.requests, stolen(good, evil.bodies)) == ([], [])


# tests/auth/test_resources.py has each URL that is another resource.


@pytest.mark.attack("S07")
@pytest.mark.rule("AUTH-09")
async def test_token_of_one_server_never_reaches_another():
    """Two servers share one authorization server and one store."""
    with good_and_evil() as (good, _), protected_server(good) as server:
        grant = oauth()
        assert (await use(server.url, grant)).text == "hi"
        with protected_server(good) as neighbour:
            metadata = {"resource": server.url, "authorization_servers": [good.issuer]}
            neighbour.on_metadata = lambda request: json_answer(metadata)
            outcome = await use(neighbour.url, grant)
            assert isinstance(outcome, mcpwire.DiscoveryError)
            assert good.grants == ["authorization_code"]
            assert GOOD.encode() not in neighbour.bodies
            assert urlsplit(server.url).path == urlsplit(neighbour.url).path
