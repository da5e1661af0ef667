"""Stores of credentials that fail, and stores that several users share."""

import asyncio
import os
import signal
import warnings

import pytest
from authorization_server import browse, oauth
from engine_calls import connected, echo

import mcpwire


@pytest.mark.parametrize("source", ["oauth", "machine"])
def test_using_a_grant_does_not_change_its_hash(source, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    grant = mcpwire.OAuth()
    if source == "machine":
        grant = mcpwire.ClientCredentials(
            client_id="us", client_secret="secret", issuer="https://auth.example.com"
        )
    target = mcpwire.Http("https://mcp.example.com/mcp", auth=grant)
    clients = {target: "client"}
    assert mcpwire.login_status(target) is None
    assert clients[target] == "client"


class Watched(mcpwire.MemoryStorage):
    """Records the duration of each lease."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def lease(self, key, owner, seconds):
        self.seconds.append(seconds)
        return super().lease(key, owner, seconds)


@pytest.mark.pain("P33")
@pytest.mark.attack("S24")
async def test_lease_outlasts_the_requests_it_protects(auth, session):
    """Another process would send the same refresh token, as a thief would."""
    storage = Watched()
    limits = mcpwire.Limits(oauth_timeout=60.0)
    target = mcpwire.Http(session.url, auth=oauth(storage=storage))
    async with mcpwire.Client(target, limits=limits) as client:
        auth.expire_all()
        await client.list_tools()
    assert auth.grants == ["authorization_code", "refresh_token"]
    # One more request, for a nonce.
    assert min(storage.seconds) > 2 * limits.oauth_timeout


@pytest.mark.fault("F40")
async def test_login_works_when_no_file_can_be_stored(
    auth, session, monkeypatch, tmp_path
):
    """Tokens that no file can store live as long as the grant object."""
    (tmp_path / "state").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    grant = mcpwire.OAuth(redirect_uri="https://app.example.com/back")
    target = mcpwire.Http(session.url, auth=grant)
    begun = await mcpwire.begin_login(target)
    returned = await asyncio.to_thread(browse, begun.url)
    status = await mcpwire.finish_login(target, returned)
    assert status.issuer == auth.issuer


class FailingRelease(mcpwire.MemoryStorage):
    """A remote store that is unreachable when the lease is released."""

    def release(self, key, owner):
        super().release(key, owner)
        raise ConnectionResetError("the store is gone")


@pytest.mark.fault("F40")
async def test_lease_that_cannot_be_released_fails_no_call(auth, session):
    """The lease expires by itself; the tokens are stored."""
    async with connected(session, oauth(storage=FailingRelease())) as client:
        auth.expire_all()
        await echo(client)
    assert auth.grants == ["authorization_code", "refresh_token"]


def fork_and_wait(work):
    """Run a function in a forked child; return its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the process has threads
        child = os.fork()
    if not child:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.fault("F40")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_memory_store_is_usable_in_a_child_forked_under_its_lock():
    storage = mcpwire.MemoryStorage()
    storage.save("key", b"value", 0)

    def use():
        signal.alarm(5)  # otherwise it would wait for a thread that does not exist
        return 0 if storage.load("key") == (b"value", 1) else 2

    with storage._mutex:
        assert fork_and_wait(use) == 0
    assert storage.load("key") == (b"value", 1)
