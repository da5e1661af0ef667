"""Answers that are another server's, tokens for another resource."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from authorization_server import browse, json_answer, oauth
from stealing import (
    GOOD,
    good_and_evil,
    protected_server,
    stolen,
    use,
)

import mcpwire
import mcpwire.sync
from mcpwire.auth.errors import ResponseRefused

# Whose answer it is...

# tests/auth/test_authorization.py has each way to spell another issuer.
SAID = {
    "another": lambda issuer: "https://evil.example",
    "a slash more": lambda issuer: issuer + "/",
    "blank": lambda issuer: "",
    "twice": lambda issuer: [issuer, "https://evil.example"],
    "twice the same": lambda issuer: [issuer, issuer],
    "missing": lambda issuer: [],
}


def saying(change, seen, *, failed):
    """Browse, and come back with another `iss`, or with several, or with none."""

    def ask(url):
        where, _, query = browse(url).partition("?")
        pairs = parse_qsl(query)
        issuer = dict(pairs)["iss"]
        left = [(name, text) for name, text in pairs if name != "iss"]
        if failed:
            left = [pair for pair in left if pair[0] != "code"]
            left += [("error", "access_denied"), ("error_description", "go away")]
        said = change(issuer)
        said = [said] if isinstance(said, str) else said
        seen.append(url)
        return f"{where}?{urlencode([*left, *(('iss', each) for each in said)])}"

    return ask


@pytest.mark.attack("S06")
@pytest.mark.rule("FLOW-05", "FLOW-06", "FLOW-07")
@pytest.mark.parametrize("failed", [False, True], ids=["code", "error"])
@pytest.mark.parametrize("said", SAID)
async def test_a_code_of_another_issuer_is_never_redeemed(said, failed):
    with good_and_evil(path="/tenant") as (good, _), protected_server(good) as server:
        seen = []
        grant = oauth(ask=saying(SAID[said], seen, failed=failed))
        outcome = await use(server.url, grant)
        assert isinstance(outcome, ResponseRefused), outcome
        assert (outcome.parameter, len(seen)) == ("iss", 1)
        assert good.token_requests == []
        assert "go away" not in str(outcome)


@pytest.mark.attack("S06")
async def test_a_code_of_the_issuer_is_redeemed():
    with good_and_evil(path="/tenant") as (good, _), protected_server(good) as server:
        grant = oauth(ask=saying(lambda issuer: issuer, [], failed=False))
        assert (await use(server.url, grant)).text == "hi"
        denied = oauth(ask=saying(lambda issuer: issuer, [], failed=True))
        outcome = await use(server.url, denied)
        assert isinstance(outcome, mcpwire.ConsentDenied)
        assert outcome.error == "access_denied"
        assert good.grants == ["authorization_code"]


@pytest.mark.attack("S01", "S06")
@pytest.mark.parametrize("promises", [True, False])
async def test_a_code_of_the_good_one_never_reaches_who_sent_the_user_there(promises):
    """The other server knows a client of the good one, and sends its users there."""
    with good_and_evil() as (good, evil), protected_server(evil) as server:
        good.add_client("client-1")
        evil.iss = promises
        there = {"authorization_endpoint": good.issuer + "/authorize"}
        evil.edit["metadata"] = lambda document: document | there
        outcome = await use(server.url, oauth())
        assert isinstance(outcome, ResponseRefused), outcome
        assert len(good.authorizations) == 1
        assert evil.token_requests == []
        assert stolen(good, evil.bodies, server.bodies) == []


@pytest.mark.attack("S01", "S06")
async def test_who_is_logged_in_elsewhere_is_not_asked_with_what_was_begun_here():
    """A login that was begun with one issuer is finished with no other."""
    with good_and_evil() as (good, evil), protected_server(good) as server:
        begun = []
        grant = oauth(ask=begun.append, interactive=False)
        outcome = await use(server.url, grant)
        assert isinstance(outcome, mcpwire.AuthRequired)
        back = browse(outcome.url)
        says = {"resource": server.url, "authorization_servers": [evil.issuer]}
        server.on_metadata = lambda request: json_answer(says)
        target = mcpwire.Http(server.url, auth=grant)
        await mcpwire.finish_login(target, back)
        assert good.grants == ["authorization_code"]
        assert (evil.requests, stolen(good, evil.bodies)) == ([], [])


# ... and which resource a token is for.

# tests/auth/test_resources.py has each URL that is another resource.
CONFUSED = {
    "another path": "{origin}/ab",
    "another host": "http://other.example/mcp",
    "another port": "http://127.0.0.1:1/mcp",
    "a user before the host": "http://x@127.0.0.1:{port}/mcp",
    "nothing": None,
    "a list": ["{origin}/mcp"],
}


def filled(value, server):
    parts = {"origin": server.raw.origin, "port": server.raw.port}
    if isinstance(value, list):
        return [each.format(**parts) for each in value]
    return value.format(**parts) if value else value


@pytest.mark.attack("S07")
@pytest.mark.rule("AUTH-09")
@pytest.mark.parametrize("confused", CONFUSED)
async def test_metadata_of_another_resource_leads_to_no_login(confused):
    with good_and_evil() as (good, evil), protected_server(evil) as server:
        asked = []
        says = {
            "resource": filled(CONFUSED[confused], server),
            "authorization_servers": [good.issuer],
        }
        server.on_metadata = lambda request: json_answer(says)
        outcome = await use(server.url, oauth(ask=asked.append))
        assert isinstance(outcome, mcpwire.DiscoveryError), outcome
        assert asked == good.requests == evil.requests == []


@pytest.mark.attack("S07")
async def test_a_token_of_one_server_never_reaches_its_neighbour():
    """Two servers of one authorization server, and one store."""
    with good_and_evil() as (good, _), protected_server(good) as server:
        grant = oauth()
        assert (await use(server.url, grant)).text == "hi"
        with protected_server(good) as neighbour:
            says = {"resource": server.url, "authorization_servers": [good.issuer]}
            neighbour.on_metadata = lambda request: json_answer(says)
            outcome = await use(neighbour.url, grant)
            assert isinstance(outcome, mcpwire.DiscoveryError)
            assert GOOD.encode() not in neighbour.bodies
            assert urlsplit(server.url).path == urlsplit(neighbour.url).path
