"""Custom HTTP clients that send a request elsewhere than to the server's URL."""

import contextlib

import httpx
import pytest
from authorization_server import oauth
from evil_issuer import GOOD, good_and_evil, protected_server
from http_bytes import reply
from mcp_server import scripted_mcp
from raw_server import raw_server

import mcpwire

pytestmark = pytest.mark.attack("S02")

TOKEN = f"{GOOD}-given"
CREDENTIALS = {
    "token": {"auth": TOKEN},
    "header": {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    "function": {"headers": lambda: {"X-Api-Key": TOKEN}},
}


def to(**parts):
    def rewrite(request, other):
        named = {name: part or other for name, part in parts.items()}
        request.url = request.url.copy_with(**named)

    return rewrite


def other_tenant(request, other):
    request.headers["host"] = "other-tenant.example"


def other_target(request, other):
    request.extensions = {**request.extensions, "target": b"/elsewhere"}


def without_trace(request, other):
    request.extensions = {}
    request.url = request.url.copy_with(port=other)


def other_name(request, other):
    for name in ("Authorization", "X-Api-Key"):
        if name in request.headers:
            request.headers["X-Forwarded-As"] = request.headers.pop(name)
    request.url = request.url.copy_with(path="/elsewhere")


LAST = reply(204, connection="close")
"""It ends the connection: httpx sends no other request on it."""

REWRITES = {
    "name": other_name,
    "path": to(path="/elsewhere"),
    "query": to(query=b"tenant=b"),
    "host": to(host="localhost"),
    "port": to(port=None),
    "tenant": other_tenant,
    "target": other_target,
    "without trace": without_trace,
}


class Rewriting:
    """Rewrites requests of a custom HTTP client, once `how` is set."""

    def __init__(self, other):
        self.other = other.raw.port
        self.how = None

    def rewrite(self, request):
        if self.how is not None:
            self.how(request, self.other)

    async def hook(self, request):
        self.rewrite(request)

    def transport(self):
        """Return a transport that rewrites requests after all hooks."""
        rewrite = self.rewrite

        class Async(httpx.AsyncHTTPTransport):
            async def handle_async_request(self, request):
                rewrite(request)
                return await super().handle_async_request(request)

        return Async(retries=1)

    def client(self, place):
        if place == "hook":
            return httpx.AsyncClient(event_hooks={"request": [self.hook]})
        if place == "mount":
            return httpx.AsyncClient(mounts={"all://": self.transport()})
        return httpx.AsyncClient(transport=self.transport())


@contextlib.contextmanager
def servers(kind):
    """Serve the right server and another; yield them with options for `Http`."""
    if kind == "oauth":
        with (
            good_and_evil() as (good, evil),
            protected_server(good) as server,
            protected_server(evil) as other,
        ):
            yield server, other, {"auth": oauth()}
    else:
        with scripted_mcp() as server, scripted_mcp() as other:
            yield server, other, CREDENTIALS[kind]


async def call_echo(client):
    return (await client.call_tool("echo", {"text": "hi"})).text


@pytest.mark.system("U03")
@pytest.mark.case("G06")
@pytest.mark.parametrize("place", ["hook", "transport", "mount"])
@pytest.mark.parametrize("kind", ["oauth", *CREDENTIALS])
async def test_request_rewritten_by_an_http_client_is_refused(kind, place):
    with servers(kind) as (server, other, options):
        rewriting = Rewriting(other)
        http_client = rewriting.client(place)
        target = mcpwire.Http(
            server.url, http_client=http_client, server_stream="never", **options
        )
        async with mcpwire.Client(target) as client:
            assert await call_echo(client) == "hi"
            count_before = len(server.requests)
            for name, rewriting.how in REWRITES.items():
                if name == "without trace" and place != "hook":
                    continue  # a transport can hide the trace
                with pytest.raises(mcpwire.UrlRefused, match="no token") as caught:
                    await call_echo(client)
                assert GOOD not in f"{caught.value!s}{caught.value!r}{caught.value.url}"
                assert caught.value.url != server.url, name
            rewriting.how = None
            assert len(server.requests) == count_before
            assert await call_echo(client) == "hi"
        await http_client.aclose()
        assert other.requests == []
        assert place != "hook" or other.connections == 0


@pytest.mark.parametrize("kind", ["oauth", *CREDENTIALS])
async def test_request_rewritten_by_a_later_hook_is_refused(kind):
    with servers(kind) as (server, other, options):
        rewriting = Rewriting(other)
        http_client = httpx.AsyncClient()
        target = mcpwire.Http(server.url, http_client=http_client, **options)
        async with mcpwire.Client(target) as client:
            assert await call_echo(client) == "hi"
            rewriting.how = without_trace
            http_client.event_hooks["request"].append(rewriting.hook)
            with pytest.raises(mcpwire.UrlRefused):
                await call_echo(client)
            http_client.event_hooks = {"request": [rewriting.hook]}
            with pytest.raises(mcpwire.UrlRefused):
                await call_echo(client)
            rewriting.how = None
        await http_client.aclose()
        assert (other.connections, other.requests) == (0, [])


@pytest.mark.parametrize("place", ["/elsewhere", "/mcp?tenant=b", "{other}"])
async def test_redirect_followed_by_an_http_client_is_refused(place):
    with servers("function") as (server, other, options):

        class Following(httpx.AsyncClient):
            def send(self, request, **options):
                return super().send(request, **{**options, "follow_redirects": True})

        http_client = Following()
        target = mcpwire.Http(server.url, http_client=http_client, **options)
        location = place.format(other=other.url)
        async with mcpwire.Client(target) as client:
            server.on["tools/call"] = lambda _, conn: (
                conn.send(reply(307, location=location)) or True
            )
            with pytest.raises(mcpwire.UrlRefused):
                await call_echo(client)
        await http_client.aclose()
        assert {request.target for request in server.requests} == {"/mcp"}
        assert (other.connections, other.requests) == (0, [])


async def test_request_without_our_credential_may_be_rewritten():
    """Such as the token request that the client's own auth sends."""
    with (
        servers("function") as (server, other, options),
        raw_server(lambda conn: conn.receive() and conn.send(LAST)) as issuer,
    ):
        rewriting = Rewriting(other)

        class TokenRequestingAuth(httpx.Auth):
            def auth_flow(self, request):
                yield httpx.Request("POST", issuer.url, content=b"{}")
                yield request

        http_client = httpx.AsyncClient(auth=TokenRequestingAuth())
        target = mcpwire.Http(server.url, http_client=http_client, **options)
        async with mcpwire.Client(target) as client:
            assert await call_echo(client) == "hi"
        assert issuer.requests
        http_client.auth = None
        http_client.event_hooks = {"request": [rewriting.hook]}
        rewriting.how = to(port=None)
        count_before = len(server.requests)
        plain = mcpwire.Http(server.url, http_client=http_client)
        async with mcpwire.Client(plain) as client:
            assert await call_echo(client) == "hi"
        assert len(server.requests) == count_before
        await http_client.aclose()


@pytest.mark.grounds(1, "engine", "status")
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("kind", CREDENTIALS)
@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("path", ["/elsewhere", "/mcp/", "/mcp?tenant=b"])
async def test_given_credential_does_not_follow_a_redirect(kind, status, path, engine):
    with servers(kind) as (server, _, options):
        target = mcpwire.Http(
            server.url, follow_redirects=True, engine=engine, **options
        )
        async with mcpwire.Client(target) as client:
            server.on["tools/call"] = lambda _, conn: (
                conn.send(reply(status, location=path)) or True
            )
            with pytest.raises(mcpwire.UrlRefused, match="no token") as caught:
                await call_echo(client)
            assert "tenant" not in str(caught.value)
        assert {request.target for request in server.requests} == {"/mcp"}


# One way to authenticate.


@pytest.mark.attack("S23")
@pytest.mark.parametrize("kind", [httpx.AsyncClient, httpx.Client])
async def test_http_client_with_its_own_auth_is_refused(kind):
    """It would overwrite the token."""
    client = kind(auth=("user", "SENTINEL-of-the-user"))
    for grant in ("oauth", oauth(), "given"):
        with pytest.raises(ValueError, match="exclude each other") as caught:
            mcpwire.Http("https://mcp.example.com", auth=grant, http_client=client)
        assert "SENTINEL" not in str(caught.value)
    mcpwire.Http("https://mcp.example.com", http_client=client)
    if kind is httpx.AsyncClient:
        await client.aclose()
    else:
        client.close()


@pytest.mark.attack("S23")
@pytest.mark.parametrize("source", ["function", "call"])
async def test_no_request_carries_two_authorization_fields(auth, session, source):
    """A server and a proxy before it could each use a different one."""
    own = {"Authorization": "Bearer of-the-users-own"}
    options = {"headers": lambda: own} if source == "function" else {}
    target = mcpwire.Http(session.url, auth=oauth(), **options)
    with pytest.raises(mcpwire.LocalProtocolError, match="exclude each other"):
        async with mcpwire.Client(target) as client:
            await client.call_tool("echo", {"text": "hi"}, headers=own)
    for request in session.requests:
        assert request.raw.lower().count(b"\r\nauthorization:") <= 1
        assert b"of-the-users-own" not in request.raw
