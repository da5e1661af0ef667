"""Logging in without a call, and finishing a login in another instance."""

import asyncio
from types import MappingProxyType
from urllib.parse import parse_qsl, urlsplit

import attrs
import pytest
from authorization_server import SENTINEL, browse, oauth, protected_server
from engine_calls import connected, echo

import mcpwire


@pytest.fixture(params=["stateless"])
def server(request, auth):
    """Yield a server of one era: most of these tests do not depend on it."""
    with protected_server(auth, era=request.param) as made:
        yield made


BOTH = pytest.mark.parametrize("server", ["session", "stateless"], indirect=True)


@BOTH
async def test_clients_use_the_tokens_of_an_explicit_login(auth, server):
    grant = oauth()
    target = mcpwire.Http(server.url, auth=grant)
    status = await mcpwire.login(target)
    assert (status.server, status.issuer) == (server.url, auth.issuer)
    assert (status.profile, status.can_refresh) == ("default", True)
    assert mcpwire.login_status(target) == status
    unattended = attrs.evolve(grant, interactive=False)
    async with mcpwire.Client(mcpwire.Http(server.url, auth=unattended)) as client:
        await echo(client)
    assert len(auth.authorizations) == 1
    assert SENTINEL not in repr(status)


@BOTH
async def test_an_open_server_gets_no_login(auth, server):
    server.is_open = True
    target = mcpwire.Http(server.url, auth=oauth())
    assert await mcpwire.login(target) is None
    assert await mcpwire.begin_login(target) is None
    assert mcpwire.login_status(target) is None
    assert auth.requests == []


@BOTH
async def test_login_works_when_only_the_handshake_is_open(auth, server):
    server.free = {"initialize", "notifications/initialized", "server/discover"}
    target = mcpwire.Http(server.url, auth=oauth())
    begun = await mcpwire.begin_login(target)
    assert begun.url.startswith(f"{auth.issuer}/authorize?")
    status = await mcpwire.login(target)
    assert status.issuer == auth.issuer
    assert await mcpwire.begin_login(target) is None


@pytest.mark.parametrize("is_url", [True, False])
async def test_another_instance_can_finish_a_begun_login(
    auth, server, tmp_path, is_url
):
    def target(**options):
        store = mcpwire.FileStorage(tmp_path / "private" / "store.sqlite")
        grant = mcpwire.OAuth(storage=store, redirect_uri=BACK, **options)
        return mcpwire.Http(server.url, auth=grant)

    begun = await mcpwire.begin_login(target())
    assert begun.url.startswith(f"{auth.issuer}/authorize?")
    assert begun.url not in repr(begun)
    came_back = await asyncio.to_thread(browse, begun.url)
    assert came_back.startswith(f"{BACK}?")
    parameters = MappingProxyType(dict(parse_qsl(urlsplit(came_back).query)))
    with pytest.raises(mcpwire.ResponseRefused):  # of another login
        await mcpwire.finish_login(target(), MappingProxyType({"state": "x"}))
    returned = came_back if is_url else parameters
    status = await mcpwire.finish_login(target(), returned)
    assert status.issuer == auth.issuer
    async with mcpwire.Client(target(interactive=False)) as client:
        await echo(client)
    assert len(auth.registrations) == 1


BACK = "https://app.example/oauth/callback"


class Unsure(Exception):
    """Raised by the ask function of a user."""


def unsure(url):
    raise Unsure


async def test_an_error_of_the_ask_function_reaches_the_caller(auth, server):
    with pytest.raises(Unsure):
        async with mcpwire.Client(mcpwire.Http(server.url, auth=oauth(ask=unsure))):
            pass
    async with mcpwire.Client(mcpwire.Http(server.url, auth=oauth())) as client:
        await echo(client)
    assert auth.grants == ["authorization_code"]


@pytest.mark.parametrize("timeout", [None, 300.0])
async def test_a_timeout_of_the_ask_function_ends_the_login(auth, server, timeout):
    def impatient(url):
        raise TimeoutError

    with pytest.raises(mcpwire.ConsentDenied, match=r"not finished in time$") as caught:
        async with connected(server, oauth(ask=impatient, timeout=timeout)):
            pass
    assert caught.value.error == "timeout"


@pytest.mark.parametrize("answer", [None, 7, b"bytes", ["a", "list"]])
async def test_the_ask_function_must_return_a_url(auth, server, answer):
    grant = oauth(ask=lambda url: answer)
    with pytest.raises(mcpwire.ConsentDenied, match="must return the URL of"):
        async with connected(server, grant):
            pass
    assert auth.token_requests == []
