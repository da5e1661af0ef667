"""Logout, login status, and several accounts with one server."""

import attrs
import pytest
from authorization_server import SENTINEL, browse, oauth, protected_server

import mcpwire
from mcpwire.auth.records import credential_key, dump, load, pending_key


@pytest.fixture
def server(auth):
    with protected_server(auth, ("mcp:read",)) as made:
        yield made


@pytest.fixture
def storage(tmp_path):
    return mcpwire.FileStorage(tmp_path / "credentials.sqlite")


def revoked(auth):
    return [
        (request.form["token_type_hint"], request.form["token"])
        for request in auth.of("revoke")
    ]


@pytest.mark.attack("S23")
async def test_logout_removes_and_revokes_the_tokens(auth, server, storage):
    target = mcpwire.Http(server.url, auth=oauth(storage=storage))
    assert await mcpwire.logout(target) is False  # there is no login
    assert auth.requests == []
    await mcpwire.login(target)
    [access], [refresh] = auth.live, auth.families
    assert await mcpwire.logout(target) is True
    assert revoked(auth) == [("refresh_token", refresh), ("access_token", access)]
    assert (auth.live, auth.families) == ({}, {})
    assert (storage.keys(), mcpwire.login_status(target)) == ([], None)
    assert SENTINEL.encode() not in storage.path.read_bytes()
    assert await mcpwire.logout(target) is False
    async with mcpwire.Client(target) as client:
        assert await client.list_tools()
    assert auth.grants == ["authorization_code"] * 2


@pytest.mark.attack("S01")
@pytest.mark.parametrize(
    "url",
    ["http://evil.example/revoke", "https://10.0.0.1/", "file:///etc/passwd", "x"],
)
async def test_an_unsafe_revocation_url_is_not_used_on_logout(
    auth, server, storage, url
):
    target = mcpwire.Http(server.url, auth=oauth(storage=storage))
    await mcpwire.login(target)
    key = credential_key(server.url, "default", "OAuth")
    data, version = storage.load(key)
    record = load(data)
    metadata = attrs.evolve(record.metadata, revocation_endpoint=url)
    storage.save(key, dump(attrs.evolve(record, metadata=metadata)), version)
    assert await mcpwire.logout(target) is True
    assert (storage.keys(), auth.of("revoke")) == ([], [])


async def test_logout_removes_a_begun_login_too(auth, server, storage):
    target = mcpwire.Http(server.url, auth=oauth(storage=storage))
    await mcpwire.login(target)
    auth.forget_all()
    begun = await mcpwire.begin_login(target)
    assert pending_key(server.url, "default", "OAuth") in storage.keys()  # noqa: SIM118 - no dict
    await mcpwire.logout(target)
    assert storage.keys() == []
    assert SENTINEL.encode() not in storage.path.read_bytes()
    with pytest.raises(mcpwire.AuthRequired, match="no login was begun"):
        await mcpwire.finish_login(target, browse(begun.url))


@pytest.mark.fault("F40")
async def test_logout_raises_when_the_storage_cannot_be_used(auth, server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    storage = mcpwire.FileStorage(tmp_path / "file" / "credentials.sqlite")
    target = mcpwire.Http(server.url, auth=oauth(storage=storage))
    with pytest.raises(mcpwire.StorageError, match="cannot use"):
        await mcpwire.logout(target)


@pytest.mark.fault("F40")
async def test_logout_removes_an_unreadable_record(auth, server, storage):
    key = credential_key(server.url, "default", "OAuth")
    storage.save(key, b'{"format": 2, "token": "SENTINEL"}', 0)
    target = mcpwire.Http(server.url, auth=oauth(storage=storage))
    assert mcpwire.login_status(target) is None
    assert await mcpwire.logout(target) is False
    assert storage.keys() == []
    assert SENTINEL.encode() not in storage.path.read_bytes()


@pytest.mark.attack("S23")
async def test_login_status_has_scopes_and_expiry_but_no_secret(auth, server):
    url = f"{server.url}?key=SENTINEL-key"
    server.resource = server.url
    target = mcpwire.Http(url, auth=oauth())
    assert mcpwire.login_status(target) is None
    status = await mcpwire.login(target)
    assert status == mcpwire.login_status(target)
    assert (status.issuer, status.client_id) == (auth.issuer, "client-1")
    assert (status.profile, status.scopes) == ("default", ("mcp:read",))
    assert status.can_refresh
    assert status.expires_at is not None
    assert SENTINEL not in repr(status)


async def test_login_status_reports_a_missing_refresh_token(auth, server):
    auth.refresh, auth.expires_in = False, None
    target = mcpwire.Http(server.url, auth=oauth())
    status = await mcpwire.login(target)
    assert (status.can_refresh, status.expires_at) == (False, None)
    [access] = auth.live
    assert await mcpwire.logout(target) is True
    assert revoked(auth) == [("access_token", access)]


async def test_login_without_an_interactive_grant_is_refused():
    grant = mcpwire.ClientCredentials(
        client_id="me", client_secret="x", issuer="discovered"
    )
    with pytest.raises(ValueError, match="ClientCredentials: it needs no user"):
        await mcpwire.begin_login(mcpwire.Http("https://mcp.example/mcp", auth=grant))
    for function in (mcpwire.login, mcpwire.logout, mcpwire.begin_login):
        with pytest.raises(ValueError, match="there is nothing to log in for"):
            await function(mcpwire.Http("https://mcp.example/mcp", auth="a-token"))


@pytest.mark.parametrize("target", ["npx server", 5, None])
async def test_login_status_needs_a_url(target):
    with pytest.raises(ValueError, match=r"URL|scheme"):
        mcpwire.login_status(target)


@pytest.mark.rule("REG-10")
async def test_profiles_keep_accounts_separate(auth, server, storage):
    targets = {
        profile: mcpwire.Http(server.url, auth=oauth(storage=storage, profile=profile))
        for profile in ("default", "work", "work:pending", "a b")
    }
    used = set()
    for target in targets.values():
        await mcpwire.login(target)
        async with mcpwire.Client(target) as client:
            assert await client.list_tools()
        used.add(server.messages[-1].headers["authorization"])
    assert len(used) == len(auth.live) == len(storage.keys()) == 4
    assert await mcpwire.logout(targets.pop("work")) is True
    statuses = [mcpwire.login_status(target) for target in targets.values()]
    assert [status.profile for status in statuses] == [*targets]


async def test_kinds_of_grants_do_not_share_tokens(auth, server, storage):
    auth.add_client("me", secret="SENTINEL-secret")
    program = mcpwire.ClientCredentials(
        client_id="me",
        client_secret="SENTINEL-secret",
        issuer=auth.issuer,
        storage=storage,
    )
    user = oauth(storage=storage)
    for grant in (program, user, program, user):
        await mcpwire.login(mcpwire.Http(server.url, auth=grant))
    assert auth.grants == ["client_credentials", "authorization_code"]
    assert len(storage.keys()) == 2
