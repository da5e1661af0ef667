"""Step-up to more scopes: requested once, with the present ones, never in a loop."""

import asyncio
import itertools
import json

import attrs
import pytest
from authorization_server import (
    SENTINEL,
    browse,
    oauth,
    protected_legacy,
    protected_server,
)
from engine_calls import HOUR_S, connected, echo, whole
from http_bytes import reply

import mcpwire
from mcpwire.transports.oauth import authorizer

pytestmark = pytest.mark.pain("P35")

EARLY_S = 2.0
"""Even a busy machine sends a token request within that time."""

READ, WRITE, ADMIN = "mcp:read", "mcp:write", "mcp:admin"


@pytest.fixture(params=["session", "stateless"])
def server(request, auth):
    """Yield a server whose calls require a scope that its metadata does not name."""
    with protected_server(auth, (READ,), era=request.param) as made:
        made.needs["tools/call"] = (WRITE,)
        yield made


def requested_scopes(auth):
    return [request.query.get("scope") for request in auth.authorizations]


def denies(scopes):
    """Return a handler that demands the scopes in turn, whichever the token has."""
    names = iter(scopes)

    def deny(request, conn):
        challenge = f'Bearer error="insufficient_scope", scope="{next(names)}"'
        conn.send(reply(403, www_authenticate=challenge))
        return True

    return deny


@pytest.mark.system("U54")
@pytest.mark.case("G12")
@pytest.mark.rule("FLOW-17", "FLOW-18")
async def test_a_call_is_retried_after_a_step_up(auth, server):
    async with connected(server) as client:
        await client.list_tools()
        assert requested_scopes(auth) == [READ]
        for _ in range(3):
            await echo(client)
        await client.list_tools()
    assert requested_scopes(auth) == [READ, f"{READ} {WRITE}"]
    assert auth.grants == ["authorization_code"] * 2  # a refresh would not help
    assert len(server.executed) == 3


async def test_concurrent_calls_share_one_step_up(auth, server):
    async with connected(server) as client:
        await asyncio.gather(*(echo(client) for _ in range(20)))
    assert requested_scopes(auth) == [READ, f"{READ} {WRITE}"]
    assert len(server.executed) == 20


@pytest.mark.rule("FLOW-19")
@pytest.mark.attack("S29")
@pytest.mark.parametrize("limit", [0, 1, 2, 5])
async def test_endless_scope_demands_stop_at_the_step_up_limit(auth, server, limit):
    names = (f"scope{number}" for number in itertools.count())
    async with connected(server, oauth(max_step_ups=limit)) as client:
        server.on["tools/call"] = denies(names)
        server.needs.clear()
        with pytest.raises(mcpwire.InsufficientScope) as caught:
            await echo(client)
        assert len(auth.authorizations) - 1 == limit
        assert len(caught.value.required) == 1
        assert SENTINEL not in whole(caught.value)
        for _ in range(30):
            with pytest.raises(mcpwire.InsufficientScope):
                await echo(client)
        assert len(auth.authorizations) - 1 <= 10
        await client.list_tools()  # other requests still work


@pytest.mark.case("G12")
@pytest.mark.rule("FLOW-19")
@pytest.mark.attack("S29")
@pytest.mark.parametrize("says", [True, False])
async def test_an_insufficient_consent_is_not_requested_again(auth, server, says):
    """The server grants fewer scopes than requested, and may or may not report it."""
    async with connected(server) as client:
        auth.edit["token"] = less(auth, says)
        for _ in range(5):
            with pytest.raises(mcpwire.InsufficientScope) as caught:
                await echo(client)
            assert caught.value.required == (WRITE,)
        await client.list_tools()
        assert requested_scopes(auth) == [READ, f"{READ} {WRITE}"]
        # Another missing scope is another login.
        del auth.edit["token"]
        server.needs["tools/list"] = (ADMIN,)
        await client.list_tools()
        await echo(client)
    assert requested_scopes(auth)[2:] == [f"{READ} {WRITE} {ADMIN}"]


def less(auth, says):
    """Return a function that has the server grant one scope alone."""

    def edit(answer):
        auth.live[answer["access_token"]] = (READ,)
        del answer["scope"]
        return answer | {"scope": READ} if says else answer

    return edit


@pytest.mark.attack("S29")
async def test_the_step_up_error_has_scopes_and_login_url(auth, server):
    grant = oauth()
    alone = mcpwire.Http(server.url, auth=attrs.evolve(grant, interactive=False))
    async with mcpwire.Client(mcpwire.Http(server.url, auth=grant)) as client:
        await client.list_tools()
    async with mcpwire.Client(alone) as client:
        with pytest.raises(mcpwire.InsufficientScope) as caught:
            await echo(client)
        assert caught.value.required == (WRITE,)
        assert caught.value.scopes == (READ, WRITE)
        assert len(auth.authorizations) == 1
        await client.list_tools()  # the token still works
        came_back = await asyncio.to_thread(browse, caught.value.url)
        status = await mcpwire.finish_login(alone, came_back)
        assert {*status.scopes} == {READ, WRITE}
        await echo(client)
    assert requested_scopes(auth) == [READ, f"{READ} {WRITE}"]


@pytest.mark.rule("FLOW-17")
async def test_client_credentials_do_not_step_up(auth, server):
    auth.add_client("robot", secret=f"{SENTINEL}-robot", method="client_secret_basic")
    grant = mcpwire.ClientCredentials(
        client_id="robot",
        client_secret=f"{SENTINEL}-robot",
        issuer=auth.issuer,
        storage=mcpwire.MemoryStorage(),
    )
    async with connected(server, grant) as client:
        with pytest.raises(mcpwire.InsufficientScope) as caught:
            await echo(client)
    assert (caught.value.required, caught.value.url) == ((WRITE,), None)
    assert SENTINEL not in whole(caught.value)
    assert auth.grants == ["client_credentials"]


@pytest.mark.system("U54")
@pytest.mark.parametrize(
    "challenge",
    ["", "Bearer", 'Bearer error="invalid_token"', 'Basic realm="x"', "garbage,=,"],
)
async def test_another_403_starts_no_login(auth, server, challenge):
    def deny(request, conn):
        fields = {"www_authenticate": challenge} if challenge else {}
        conn.send(reply(403, **fields))
        return True

    async with connected(server) as client:
        server.needs.clear()
        server.on["tools/call"] = deny
        with pytest.raises(mcpwire.HTTPError, match="403"):
            await echo(client)
    assert len(auth.authorizations) == 1


async def test_a_challenge_without_scope_causes_one_login_at_most(auth, server):
    async with connected(server) as client:
        server.needs.clear()
        server.on["tools/call"] = lambda request, conn: (
            conn.send(reply(403, www_authenticate='Bearer error="insufficient_scope"'))
            or True
        )
        for _ in range(5):
            with pytest.raises(mcpwire.InsufficientScope):
                await echo(client)
    assert len(auth.authorizations) <= 2


async def test_a_step_up_waits_for_a_running_refresh(auth, clock, monkeypatch):
    """A refresh that is in progress does not bring the scope, and is not disturbed."""
    monkeypatch.setattr(authorizer, "EARLY_RENEWAL_TIMEOUT_S", EARLY_S)
    with protected_server(auth, (READ,)) as server:
        server.needs["tools/call"] = (WRITE,)
        before = 1

        def hold(request):
            if request.form["grant_type"] == "refresh_token":
                server.wait_until(lambda: server.challenges > before)

        async with connected(server) as client:
            auth.on["token"] = hold
            clock.pass_by(HOUR_S - 50)
            await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token", "authorization_code"]
    assert requested_scopes(auth) == [READ, f"{READ} {WRITE}"]


# A token given by the user...


def given(auth, *scopes):
    """Return options of `Http` with a token that is good for those scopes."""
    token = auth.give(scopes)["access_token"]
    return [{"auth": token}, {"headers": {"Authorization": f"Bearer {token}"}}]


async def test_a_given_token_without_a_scope_raises_insufficient_scope(auth, server):
    for options in given(auth, READ):
        target = mcpwire.Http(server.url, **options)
        async with mcpwire.Client(target) as client:
            await client.list_tools()
            with pytest.raises(mcpwire.InsufficientScope, match=WRITE) as caught:
                await echo(client)
            assert caught.value.required == (WRITE,)
            assert (caught.value.url, caught.value.scopes) == (None, ())
            assert isinstance(caught.value.__cause__, mcpwire.HTTPError)
            assert SENTINEL not in whole(caught.value)
            await client.list_tools()  # other requests still work
    assert auth.authorizations == []


async def test_a_2024_server_reports_the_missing_scope(auth):
    [options, _] = given(auth, READ)
    with protected_legacy(auth) as server:
        server.needs["tools/call"] = (WRITE,)
        target = mcpwire.Http(server.url, **options)
        async with mcpwire.Client(target) as client:
            with pytest.raises(mcpwire.InsufficientScope) as caught:
                await echo(client)
            assert caught.value.required == (WRITE,)


@pytest.mark.parametrize(
    "case",
    [
        (403, 'Bearer error="insufficient_scope", scope="a b"', True, "granted: a b"),
        (403, 'Bearer error="insufficient_scope"', True, "Required scope: b"),
        (403, 'Bearer error="invalid_token", scope="b"', False, "403"),
        (401, 'Bearer error="insufficient_scope", scope="b"', False, "401"),
        (403, "", False, "403"),
    ],
)
@pytest.mark.parametrize("is_rpc", [True, False])
async def test_only_an_insufficient_scope_challenge_is_one(auth, server, case, is_rpc):
    status, challenge, kind, message = case
    data = {"error_description": "Required scope: b"}
    if is_rpc:
        data = {"jsonrpc": "2.0", "error": {"code": -1, "message": f"{status} {data}"}}

    def deny(request, conn):
        body = json.dumps({**data, "id": 1}).encode()
        conn.send(
            reply(
                status,
                body,
                content_type="application/json",
                www_authenticate=challenge,
            )
        )
        return True

    server.needs.clear()
    [options, _] = given(auth, READ)
    async with mcpwire.Client(mcpwire.Http(server.url, **options)) as client:
        server.on["tools/call"] = deny
        with pytest.raises(mcpwire.MCPError, match=message) as caught:
            await echo(client)
        assert isinstance(caught.value, mcpwire.InsufficientScope) is kind


async def test_the_error_names_the_missing_scopes(auth, server):
    async with connected(server, oauth(max_step_ups=0)) as client:
        await client.list_tools()
        server.on["tools/call"] = denies([f"{READ} {ADMIN}"])
        server.needs.clear()
        with pytest.raises(mcpwire.InsufficientScope) as caught:
            await echo(client)
        assert caught.value.required == (READ, ADMIN)
        assert str(caught.value).endswith(f"not granted: {ADMIN}")
