"""Authorization responses of another issuer, tokens for another resource."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from authorization_server import browse, json_answer, oauth
from evil_issuer import GOOD, good_and_evil, protected_server, stolen, use

import mcpwire
import mcpwire.sync
from mcpwire.auth.errors import ResponseRefused

# tests/auth/test_authorization.py has each way to spell another issuer.
ISS_VALUES = {
    "another": lambda issuer: "https://evil.example",
    "a slash more": lambda issuer: issuer + "/",
    "blank": lambda issuer: "",
    "twice": lambda issuer: [issuer, "https://evil.example"],
    "twice the same": lambda issuer: [issuer, issuer],
    "missing": lambda issuer: [],
}


def browse_with_iss(change, seen, *, failed):
    """Return an `ask` function whose callback has another `iss`, several or none."""

    def ask(url):
        where, _, query = browse(url).partition("?")
        pairs = parse_qsl(query)
        issuer = dict(pairs)["iss"]
        params = [(name, text) for name, text in pairs if name != "iss"]
        if failed:
            params = [pair for pair in params if pair[0] != "code"]
            params += [("error", "access_denied"), ("error_description", "go away")]
        iss = change(issuer)
        iss = [iss] if isinstance(iss, str) else iss
        seen.append(url)
        return f"{where}?{urlencode([*params, *(('iss', each) for each in iss)])}"

    return ask


@pytest.mark.attack("S06")
@pytest.mark.rule("FLOW-05", "FLOW-06", "FLOW-07")
@pytest.mark.parametrize("failed", [False, True], ids=["code", "error"])
@pytest.mark.parametrize("iss", ISS_VALUES)
async def test_code_with_a_foreign_iss_is_never_redeemed(iss, failed):
    with good_and_evil(path="/tenant") as (good, _), protected_server(good) as server:
        seen = []
        grant = oauth(ask=browse_with_iss(ISS_VALUES[iss], seen, failed=failed))
        outcome = await use(server.url, grant)
        assert isinstance(outcome, ResponseRefused), outcome
        assert (outcome.parameter, len(seen)) == ("iss", 1)
        assert good.token_requests == []
        assert "go away" not in str(outcome)


@pytest.mark.attack("S06")
async def test_code_of_the_right_issuer_is_redeemed():
    with good_and_evil(path="/tenant") as (good, _), protected_server(good) as server:
        grant = oauth(ask=browse_with_iss(lambda issuer: issuer, [], failed=False))
        assert (await use(server.url, grant)).text == "hi"
        denied = oauth(ask=browse_with_iss(lambda issuer: issuer, [], failed=True))
        outcome = await use(server.url, denied)
        assert isinstance(outcome, mcpwire.ConsentDenied)
        assert outcome.error == "access_denied"
        assert good.grants == ["authorization_code"]


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
