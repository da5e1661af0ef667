"""Secrets of one authorization server, and a server that names another one.

Every byte that reached the other is searched, also for encoded secrets.
"""

from __future__ import annotations

import re

import pytest
from authorization_server import json_answer, oauth
from evil_issuer import (
    GOOD,
    SECRETS,
    good_and_evil,
    household,
    knows_client,
    protected_server,
    stolen,
    use,
)

import mcpwire

pytestmark = pytest.mark.attack("S01")

WELL_KNOWN = "/.well-known/oauth-authorization-server"
TENANT = "/tenant"


# How a server that was good, or seemed to be, names another issuer. Each returns the
# issuers that it names from now on.


def names_it(good, evil):
    return [evil.issuer]


def names_several(good, evil):
    return [good.issuer + "/gone", evil.issuer]


def calls_it_good(good, evil):
    evil.edit["metadata"] = lambda document: document | {"issuer": good.issuer}
    return [evil.issuer]


def forges_the_good(good, evil):
    """The issuer name is right, and its document is the other issuer's."""
    good.edit["metadata"] = lambda document: evil.metadata()
    return [good.issuer]


def has_no_metadata(good, evil):
    for key in ("metadata", "openid"):
        evil.on[key] = lambda request: (404, {}, b"")
    return [evil.issuer]


def spelled(change):
    """Name a URL similar to the good issuer, with the endpoints of the other."""

    def name(good, evil):
        named = change(good.issuer)
        evil.iss = False  # it would contain its own issuer
        answer = json_answer(evil.metadata() | {"issuer": named})
        path = re.sub("(?i)^http://[^/]+", "", named).rstrip("/")
        key = "metadata" if path == TENANT else WELL_KNOWN + path
        good.on[key] = lambda request: answer
        return [named]

    return name


# tests/auth/test_servers.py has each way to spell another issuer.
NAMED = {
    "it": names_it,
    "several": names_several,
    "it, which says it is the good one": calls_it_good,
    "the good one, whose document is forged": forges_the_good,
    "it, which has no metadata": has_no_metadata,
    "a slash more": spelled(lambda issuer: issuer + "/"),
    "no path": spelled(lambda issuer: issuer.removesuffix(TENANT)),
    "an encoded letter": spelled(lambda issuer: issuer.replace("/t", "/%74")),
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


@pytest.mark.grounds(1, "era")
@pytest.mark.parametrize("era", ["session", "stateless"])
@pytest.mark.parametrize(
    "missing", [(), ("metadata", "openid")], ids=["404", "all 404"]
)
@pytest.mark.parametrize("kind", SECRETS)
async def test_server_without_issuer_gets_no_configured_secret(kind, missing, era):
    with good_and_evil() as (good, _), household(good, era) as server:
        for key in missing:
            server.own.on[key] = lambda request: (404, {}, b"")
        server.turn()
        grant = SECRETS[kind](good, issuer=good.issuer)
        outcome = await use(server.url, grant)
        assert stolen(good, server.bodies) == []
        assert isinstance(outcome, mcpwire.DiscoveryError), outcome
        assert {request.verb for request in server.own.requests} <= {"GET"}
        assert server.own.authorizations == []
        assert good.token_requests == []


@pytest.mark.grounds(1, "era")
@pytest.mark.parametrize("era", ["session", "stateless"])
@pytest.mark.parametrize(
    "missing", [(), ("metadata", "openid")], ids=["404", "all 404"]
)
async def test_server_without_issuer_gets_no_stored_secret(missing, era):
    options = {"auth_methods": ["client_secret_post"]}
    with good_and_evil(**options) as (good, _), household(good, era) as server:
        grant = await log_in(server, good)
        for key in missing:
            server.own.on[key] = lambda request: (404, {}, b"")
        server.turn()
        result = await use(server.url, grant)
        assert result.text == "hi"
        # The access token is for this server.
        sent = re.sub(rb"SENTINEL-GOOD-access-\d+", b"", server.bodies)
        assert stolen(good, sent) == []
        assert server.own.grants == ["authorization_code"]


@pytest.mark.parametrize("kind", ["refresh", *SECRETS])
async def test_unavailable_issuer_raises_and_leaks_no_secret(kind):
    """The named issuer is right: no other issuer is tried, and no secret leaks."""
    options = {"path": TENANT, "auth_methods": ["client_secret_basic"]}
    with good_and_evil(**options) as (good, _), household(good, "session") as server:
        if kind == "refresh":
            grant = await log_in(server, good)
            good.forget_all()
        else:
            knows_client(good, kind)
            grant = SECRETS[kind](good, issuer=good.issuer)
        for key in ("metadata", "openid"):
            good.on[key] = lambda request: (404, {}, b"")
        good.on["token"] = good.on["metadata"]
        outcome = await use(server.url, grant)
        assert isinstance(outcome, mcpwire.DiscoveryError), outcome
        sent = re.sub(rb"SENTINEL-GOOD-access-\d+", b"", server.bodies)
        assert stolen(good, sent) == []
        assert GOOD.encode() not in sent
        targets = {request.target for request in server.requests}
        assert not targets & {"/register", "/token", "/authorize"}
