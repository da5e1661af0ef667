"""Requests with credentials, and responses that redirect them."""

import asyncio

import pytest
from authorization_server import oauth
from engine_calls import echo
from evil_issuer import GOOD, good_and_evil, protected_server, stolen, use
from http_bytes import reply

import mcpwire
import mcpwire.sync

pytestmark = pytest.mark.attack("S02")

STATUSES = (301, 302, 303, 307, 308)
PLACES = {
    "another path": "/elsewhere",
    "another port": "http://127.0.0.1:{other}/mcp",
    "another host": "http://localhost:{other}/mcp",
    "another scheme": "https://127.0.0.1:{other}/mcp",
    "a user before the host": "http://127.0.0.1:{port}@127.0.0.1:{other}/mcp",
    "relative to the scheme": "//127.0.0.1:{other}/mcp",
}
HEADERS = {"x-api-key": f"{GOOD}-api-key"}


def place(name, server, other):
    return PLACES[name].format(port=server.raw.port, other=other.raw.port)


def redirecting(status, location):
    def handler(request, conn):
        conn.send(reply(status, location=location))
        return True

    return handler


@pytest.fixture
def stage():
    """Two protected servers, and the authorization server of the first."""
    with (
        good_and_evil() as (good, evil),
        protected_server(good, resumable=True) as server,
        protected_server(evil) as other,
    ):
        yield good, server, other


def target(server, grant, *, follows):
    return mcpwire.Http(
        server.url, auth=grant, follow_redirects=follows, headers=HEADERS
    )


async def logged_in(server):
    grant = oauth()
    assert (await use(server.url, grant)).text == "hi"
    return grant


@pytest.mark.system("U03")
@pytest.mark.case("G06")
@pytest.mark.parametrize("follows", [False, True])
async def test_call_never_follows_a_redirect_with_credentials(stage, follows):
    good, server, other = stage
    grant = await logged_in(server)
    count_before = len(server.messages)
    async with mcpwire.Client(target(server, grant, follows=follows)) as client:
        for name in PLACES:
            for status in STATUSES:
                location = place(name, server, other)
                server.on["tools/call"] = redirecting(status, location)
                with pytest.raises(mcpwire.MCPError) as caught:
                    await client.call_tool("echo", {"text": "hi"})
                named = location.rpartition("@")[2]
                assert named in str(caught.value)
                assert GOOD not in str(caught.value)
        del server.on["tools/call"]
        await echo(client)
    assert (other.connections, other.requests) == (0, [])
    paths = {request.target for request in server.messages[count_before:]}
    assert paths == {"/mcp"}
    assert stolen(good, other.bodies) == []


@pytest.mark.case("G06")
@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_get_and_delete_never_follow_a_redirect(stage, verb, follows):
    good, server, other = stage
    grant = await logged_in(server)
    options = {"sampling": lambda _: None}
    for number, name in enumerate(PLACES):
        before = server.verbs().count(verb)
        status = STATUSES[number % len(STATUSES)]
        server.on[verb] = redirecting(status, place(name, server, other))
        redirecting_target = target(server, grant, follows=follows)
        async with mcpwire.Client(redirecting_target, **options) as client:
            await echo(client)
            if verb == "GET":
                await asyncio.to_thread(
                    server.wait_until,
                    lambda before=before: server.verbs().count("GET") > before,
                )
        assert server.verbs().count(verb) > before
    assert (other.connections, other.requests) == (0, [])
    assert not any(request.target == "/elsewhere" for request in server.requests)
    assert stolen(good, other.bodies) == []
