"""Tokens are renewed before they end, and lost only when the server says so."""

from __future__ import annotations

import attrs
import pytest
from authorization_server import SENTINEL, browse, oauth
from engine_calls import HOUR_S, connected, echo, whole

import mcpwire

pytestmark = pytest.mark.pain("P32")

# From one start to the next...


@pytest.mark.case("G03")
async def test_a_new_start_with_an_expired_token_asks_for_another_and_nobody_else(
    auth, server, clock, tmp_path
):
    def grant():
        storage = mcpwire.FileStorage(tmp_path / "private" / "store.sqlite")
        return oauth(storage=storage, ask=asked.append)

    asked = []
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
    assert (asked, refused) == ([], [])


# ... and ahead of the end.


@pytest.mark.system("L-U8")
@pytest.mark.case("G03")
async def test_a_token_is_renewed_a_minute_before_it_ends(auth, server, clock):
    async with connected(server) as client:
        clock.pass_by(HOUR_S - 70)
        await echo(client)
        assert auth.grants == ["authorization_code"]
        clock.pass_by(20)
        for _ in range(3):
            await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert server.challenges == 1


async def test_a_token_that_lives_short_is_not_renewed_for_each_request(
    auth, server, clock
):
    auth.expires_in = 20
    async with connected(server) as client:
        for _ in range(5):
            await echo(client)
        assert auth.grants == ["authorization_code"]
        clock.pass_by(15)
        for _ in range(5):
            await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token"]
    assert server.challenges == 1


# When the server says that there will be no other.


@pytest.mark.system("U15")
@pytest.mark.case("G03")
async def test_a_request_is_refreshed_once_and_logged_in_once(auth, server):
    """A server that refuses whatever it gave is not asked for ever."""
    async with connected(server, oauth(), server_stream="never") as client:
        auth.edit["token"] = given_and_gone(auth)
        auth.expire_all()
        with pytest.raises(mcpwire.HTTPError, match="401") as caught:
            await echo(client)
        assert SENTINEL not in whole(caught.value)
        del auth.edit["token"]
        await echo(client)
    grants = ["refresh_token", "authorization_code", "refresh_token"]
    assert auth.grants == ["authorization_code", *grants]


def given_and_gone(auth):
    def edit(says):
        auth.expire_all()
        return says

    return edit


@pytest.mark.attack("S29")
@pytest.mark.fault("F38")
async def test_a_storm_of_refusals_bothers_a_user_a_few_times_at_most(auth, server):
    target = mcpwire.Http(server.url, auth=oauth(), server_stream="never")
    async with mcpwire.Client(target) as client:
        auth.edit["token"] = given_and_gone(auth)
        auth.expire_all()
        for _ in range(20):
            with pytest.raises((mcpwire.AuthRequired, mcpwire.HTTPError)):
                await echo(client)
        assert len(auth.authorizations) == 1 + 3
        del auth.edit["token"]
    async with mcpwire.Client(target) as client:
        await echo(client)  # a new connection is a new try


@pytest.mark.rule("FLOW-25")
async def test_without_a_refresh_token_a_token_is_used_to_its_end(auth, server, clock):
    auth.refresh = False
    async with connected(server) as client:
        clock.pass_by(HOUR_S - 30)
        await echo(client)
        assert server.challenges == 1
        clock.pass_by(60)
        await echo(client)
    assert auth.grants == ["authorization_code"] * 2
