"""A login, and the token of each later request; end to end."""

import asyncio
import contextlib
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from authorization_server import (
    SENTINEL,
    authorization_server,
    browse,
    oauth,
    protected_legacy,
    protected_server,
)
from engine_calls import connected, echo
from http_bytes import reply
from loop_polling import until

import mcpwire
from mcpwire.gateway import Gateway


def tokens_of(messages):
    return [message.headers.get("authorization") for message in messages]


def urls_of(*servers):
    targets = [request.target for each in servers for request in each.raw.requests]
    return "\n".join(targets)


@pytest.mark.rule("AUTH-08", "FLOW-20")
@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("era", ["session", "stateless", "dual"])
async def test_one_login_authorizes_every_request(auth, era, engine):
    with protected_server(auth, era=era) as server:
        async with connected(server, oauth(), engine=engine) as client:
            await echo(client)
            assert await client.list_tools()
        [token] = auth.live
        first, *others = tokens_of(server.messages)
        assert first is None
        assert set(others) == {f"Bearer {token}"}
        assert (auth.grants, server.challenges) == (["authorization_code"], 1)
        assert token not in urls_of(server, auth)
        assert token not in server.messages[-1].body.decode()


@pytest.mark.rule("FLOW-20")
async def test_streams_notifications_and_delete_carry_the_token(auth):
    with protected_server(auth, resumable=True) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        options = {"sampling": lambda _: None}
        async with mcpwire.Client(target, **options) as client:
            await asyncio.to_thread(server.wait_until, lambda: server.streams)
            await client.call_tool("notify", {"steps": 2})
        [token] = auth.live
        carried = {
            message.method or message.verb
            for message in server.messages
            if message.headers.get("authorization") == f"Bearer {token}"
        }
        expected = {"notifications/initialized", "GET", "tools/call", "DELETE"}
        assert carried >= expected
        assert tokens_of(server.messages).count(None) == 1


@pytest.mark.rule("FLOW-20")
@pytest.mark.parametrize("engine", ["direct", "httpx"])
async def test_a_2024_server_gets_the_token_at_both_endpoints(auth, engine):
    with protected_legacy(auth) as server:
        async with connected(server, engine=engine) as client:
            await echo(client)
        assert auth.grants == ["authorization_code"]
        [token] = auth.live
        first, *others = server.messages
        assert first.headers.get("authorization") is None
        assert {message.target.partition("?")[0] for message in others} >= {
            "/sse",
            "/messages",
        }
        assert set(tokens_of(others)) == {f"Bearer {token}"}
        assert token not in urls_of(server, auth)


@pytest.mark.pain("P32", "P35")
async def test_a_2024_server_triggers_refresh_and_step_up(auth):
    with protected_legacy(auth, ("mcp:read",)) as server:
        async with connected(server) as client:
            auth.expire_all()
            calls = (client.call_tool("echo", {"text": "hi"}) for _ in range(10))
            assert {each.text for each in await asyncio.gather(*calls)} == {"hi"}
            assert auth.grants == ["authorization_code", "refresh_token"]
            server.needs["tools/call"] = ("mcp:write",)
            await echo(client, "on")
        assert auth.authorizations[-1].query["scope"] == "mcp:read mcp:write"
        assert len(server.executed) == 11


@contextlib.asynccontextmanager
async def stream_that_reopens(auth, era, **options):
    """Yield server and client; the stream, closed in the block, must open again."""
    with protected_server(auth, era=era, resumable=True) as server:
        received = asyncio.Event()
        loop = asyncio.get_running_loop()
        watch = {"on_notification": lambda _: loop.call_soon_threadsafe(received.set)}
        target = mcpwire.Http(server.url, auth=oauth(), **options)
        async with mcpwire.Client(target, **watch) as client:
            await asyncio.to_thread(server.wait_until, lambda: server.streams)
            yield server, client
            await asyncio.to_thread(server.wait_until, lambda: server.streams, 10.0)
            server.push({"method": "notifications/tools/list_changed"})
            await received.wait()


@pytest.mark.pain("P31", "P32")
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_stream_reopens_after_a_failed_refresh(auth, era):
    async with stream_that_reopens(auth, era) as (server, client):
        auth.on["token"] = lambda request: (503, {}, b"")
        auth.expire_all()
        before = server.challenges
        server.close_streams()
        await asyncio.to_thread(server.wait_until, lambda: server.challenges > before)
        del auth.on["token"]
        await echo(client)
    assert len(auth.authorizations) == 1


def _refuse_grant(request):
    return 400, {"content-type": "application/json"}, b'{"error": "invalid_grant"}'


@pytest.mark.parametrize("engine", ["direct", "httpx"])
@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_stream_waits_for_the_login_of_a_call(auth, era, engine, caplog):
    async with stream_that_reopens(auth, era, engine=engine) as (server, client):
        auth.on["token"] = _refuse_grant
        auth.expire_all()
        server.close_streams()
        await until(lambda: "stays closed until a login" in caplog.text)
        assert len(auth.authorizations) == 1
        del auth.on["token"]
        await echo(client)
        assert len(auth.authorizations) == 2


async def test_a_gateway_that_renews_a_subscription_starts_no_login(auth, stateless):
    gateway = Gateway({"up": mcpwire.Http(stateless.url, auth=oauth())})
    async with gateway, mcpwire.Client(gateway) as client:
        await client.list_tools()
        await asyncio.to_thread(stateless.wait_until, lambda: stateless.streams)
        auth.on["token"] = _refuse_grant
        auth.expire_all()
        before = stateless.challenges
        [listen] = [r for r in stateless.messages if r.method == "subscriptions/listen"]
        stateless.push({"id": listen.json["id"], "result": {}})
        await until(
            lambda: stateless.challenges > before + 1 or len(auth.authorizations) > 1
        )
        assert len(auth.authorizations) == 1
        del auth.on["token"]
        await client.call_tool("up_echo", {"text": "x"})
        assert len(auth.authorizations) == 2
        await asyncio.to_thread(stateless.wait_until, lambda: stateless.streams, 10.0)


@pytest.mark.parametrize(
    ("era", "call"),
    [("session", "echo"), ("stateless", "echo"), ("stateless", "listen")],
)
async def test_a_stream_that_no_call_needs_starts_no_login(auth, era, call, caplog):
    with protected_server(auth, era=era, resumable=True) as server:
        opening = {"server/discover", "initialize", "notifications/initialized"}
        server.free = {*opening, "tools/list"}
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target, on_notification=print) as client:
            await until(lambda: "stays closed until a login" in caplog.text)
            assert await client.list_tools()
            assert auth.authorizations == []
            if call == "listen":
                async with client.listen(tools=True):
                    pass
            else:
                await echo(client)
            await asyncio.to_thread(server.wait_until, lambda: server.streams, 10.0)
        assert len(auth.authorizations) == 1


async def test_a_stream_that_waits_for_scopes_does_not_use_up_the_login_of_a_call(
    auth, caplog
):
    with protected_server(auth, ("mcp:read",), resumable=True) as server:
        server.needs["GET"] = ("mcp:write",)
        async with connected(server) as client:
            await until(lambda: "stays closed until a login" in caplog.text)
            auth.expire_all()
            await echo(client)
            assert auth.grants == ["authorization_code", "refresh_token"]
            server.needs["tools/call"] = ("mcp:write",)
            await echo(client)
            await asyncio.to_thread(server.wait_until, lambda: server.streams, 10.0)
    assert auth.grants[2:] == ["authorization_code"]


class SlowStorage(mcpwire.FileStorage):
    def load(self, key):
        time.sleep(0.2)
        return super().load(key)


async def test_a_call_does_not_share_the_failure_of_a_stream(auth, tmp_path):
    with protected_server(auth, ("mcp:read",), resumable=True) as server:
        async with connected(server, oauth(storage=SlowStorage(tmp_path))) as client:
            await asyncio.to_thread(server.wait_until, lambda: server.streams)
            server.needs["GET"] = server.needs["tools/call"] = ("mcp:write",)
            before = server.challenges
            server.close_streams()
            await asyncio.to_thread(
                server.wait_until, lambda: server.challenges > before
            )
            await echo(client)


@pytest.mark.system("U02", "L-A5")
@pytest.mark.rule("FLOW-02", "FLOW-13")
async def test_token_requests_name_the_server_as_resource(auth):
    with protected_server(auth, ("mcp:read",)) as server:
        async with connected(server) as client:
            auth.expire_all()
            assert await client.list_tools()
        [authorized] = auth.authorizations
        redeemed, refreshed = auth.token_requests
        for parameters in (authorized.query, redeemed.form, refreshed.form):
            assert parameters["resource"] == server.url
        assert authorized.query["scope"] == "mcp:read"
        assert auth.grants == ["authorization_code", "refresh_token"]


@pytest.mark.system("A14")
async def test_a_given_token_is_sent_unchanged(auth, session):
    token = auth.give()["access_token"]
    async with connected(session, token) as client:
        assert await client.list_tools()
    assert set(tokens_of(session.messages)) == {f"Bearer {token}"}
    assert auth.requests == []


# Redirects and separate logins.


@pytest.mark.system("U03")
@pytest.mark.case("G04")
@pytest.mark.parametrize("path", ["/elsewhere", "/mcp/", "/mcp?x=1", "/mcp/../mcp2"])
async def test_no_token_follows_a_redirect_to_another_path(auth, session, path):
    async with connected(session, follow_redirects=True) as client:
        session.on["tools/call"] = lambda request, conn: (
            conn.send(reply(307, location=path)) or True
        )
        with pytest.raises(mcpwire.UrlRefused, match="no token") as caught:
            await client.call_tool("echo", {"text": "hi"})
        assert SENTINEL not in f"{caught.value!s}{caught.value!r}"
    targets = {urlsplit(message.target).path for message in session.messages}
    assert targets == {"/mcp"}
    assert not any(message.target == path for message in session.messages)


@pytest.mark.rule("FLOW-01")
async def test_two_logins_share_no_state_challenge_or_verifier(auth, session):
    for _ in range(2):
        async with connected(session) as client:
            assert await client.list_tools()
    one, other = (request.query for request in auth.authorizations)
    for name in ("state", "code_challenge"):
        assert one[name] != other[name]
    verifiers = {request.form["code_verifier"] for request in auth.token_requests}
    assert len(verifiers) == 2
    assert not verifiers & {*one.values(), *other.values()}


@pytest.mark.parametrize("in_path", ["", "/tenant"])
async def test_an_async_ask_function_may_return_a_mapping(in_path):
    seen = []

    async def wait_for_user(url):
        seen.append(url)
        back = await asyncio.to_thread(browse, url)
        return {name: text for name, [text] in parse_qs(urlsplit(back).query).items()}

    with authorization_server(path=in_path) as auth, protected_server(auth) as server:
        grant = oauth(ask=wait_for_user)
        async with connected(server, grant) as client:
            assert await client.list_tools()
        assert len(seen) == 1
        assert seen[0].startswith(f"{auth.issuer}/authorize?")
