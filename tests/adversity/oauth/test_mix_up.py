"""Logins that another issuer is mixed into, tokens for another resource.

tests/auth/test_authorization.py has each response of another issuer.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from authorization_server import browse, json_answer, oauth
from evil_issuer import GOOD, good_and_evil, protected_server, stolen, use

import mcpwire
import mcpwire.sync
from mcpwire.auth.errors import ResponseRefused


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
