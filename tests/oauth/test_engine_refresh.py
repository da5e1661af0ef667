"""Tokens are refreshed before they expire, and dropped only when the server says so."""

import attrs
import pytest
from authorization_server import SENTINEL, browse, oauth
from engine_calls import HOUR_S, connected, echo, whole

import mcpwire

pytestmark = pytest.mark.pain("P32")

# Across restarts...


@pytest.mark.case("G03")
async def test_a_restart_with_an_expired_token_only_refreshes(
    auth, server, clock, tmp_path
):
    def grant():
        storage = mcpwire.FileStorage(tmp_path / "private" / "store.sqlite")
        return oauth(storage=storage, ask=asked_urls.append)

    asked_urls = []
    first = attrs.evolve(grant(), ask=browse)
    async with mcpwire.Client(mcpwire.Http(server.url, auth=first)) as client:
        await echo(client)
    clock.pass_by(HOUR_S + 1)
    auth.expire_all()
    auth.requests.clear()
    before = server.challenges
    async with mcpwire.Client(mcpwire.Http(server.url, auth=grant())) as client:
        await echo(client)
    assert [request.key for request in auth.requests] == ["token"]
    assert auth.grants == ["refresh_token"]
    # The first client's GET may reach the server after its token has expired.
    refused = [one for one in server.refused[before:] if one.verb != "GET"]
    assert (asked_urls, refused) == ([], [])


# ... and ahead of expiry.


@pytest.mark.system("L-U8")
@pytest.mark.case("G03")
@pytest.mark.parametrize(
    ("lifetime", "at", "later"), [(HOUR_S, HOUR_S - 70, 20), (20, 0, 15)]
)
async def test_a_token_is_refreshed_once_shortly_before_it_expires(
    *, auth, server, clock, lifetime, at, later
):
    auth.expires_in = lifetime
    async with connected(server) as client:
        clock.pass_by(at)
        for _ in range(5):
            await echo(client)
        assert auth.grants == ["authorization_code"]
        clock.pass_by(later)
        for _ in range(5):
            await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert server.challenges == 1


# The server refuses the tokens that it issued.


@pytest.mark.system("U15")
@pytest.mark.case("G03")
async def test_a_request_triggers_one_refresh_and_one_login(auth, server):
    """A server that refuses each new token causes no endless loop."""
    async with connected(server, oauth(), server_stream="never") as client:
        auth.edit["token"] = expire_new_tokens(auth)
        auth.expire_all()
        with pytest.raises(mcpwire.HTTPError, match="401") as caught:
            await echo(client)
        assert SENTINEL not in whole(caught.value)
        del auth.edit["token"]
        await echo(client)
    grants = ["refresh_token", "authorization_code", "refresh_token"]
    assert auth.grants == ["authorization_code", *grants]


def expire_new_tokens(auth):
    def edit(says):
        auth.expire_all()
        return says

    return edit


@pytest.mark.attack("S29")
@pytest.mark.fault("F38")
async def test_repeated_401s_cause_at_most_three_logins(auth, server):
    target = mcpwire.Http(server.url, auth=oauth(), server_stream="never")
    async with mcpwire.Client(target) as client:
        auth.edit["token"] = expire_new_tokens(auth)
        auth.expire_all()
        for _ in range(20):
            with pytest.raises((mcpwire.AuthRequired, mcpwire.HTTPError)):
                await echo(client)
        assert len(auth.authorizations) == 1 + 3
        del auth.edit["token"]
    async with mcpwire.Client(target) as client:
        await echo(client)  # a new connection tries again


@pytest.mark.rule("FLOW-25")
async def test_a_token_without_refresh_token_is_used_until_expiry(auth, server, clock):
    auth.refresh = False
    async with connected(server) as client:
        clock.pass_by(HOUR_S - 30)
        await echo(client)
        assert server.challenges == 1
        clock.pass_by(60)
        await echo(client)
    assert auth.grants == ["authorization_code"] * 2
