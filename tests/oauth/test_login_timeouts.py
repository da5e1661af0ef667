"""Waiting for a user: only the timeout of the login runs meanwhile."""

import asyncio
import socket
import time

import pytest
from authorization_server import browse, oauth, protected_legacy, protected_server
from engine_calls import come_back, connected, echo
from http_bytes import reply

import mcpwire

pytestmark = pytest.mark.fault("F39")

THINKS_S = 60.0
"""How long the user of these tests takes, on clocks that are moved forward."""

LIMIT_S = 30.0
"""The timeout of everything else."""

SHORT_S = 0.8
"""A timeout that is meant to expire."""

TEST_BOUND_S = 1_000.0  # its tests move the clock of the loop
"""The bound of these tests on the moved clocks; pytest's own uses another clock."""

FOREVER_S = 40.0
"""Longer than any of these tests takes."""

LIMITS = {"connect_timeout": LIMIT_S, "probe_timeout": LIMIT_S / 2}


@pytest.fixture
def thinking(hours):
    """Return an ask function that takes longer than all other timeouts."""

    async def ask(url):
        hours.pass_by(THINKS_S)  # longer than the limits that are tested
        return await asyncio.to_thread(browse, url)

    return ask


@pytest.mark.parametrize(
    ("era", "engine", "mode"),
    [
        *(("session", "direct", "auto"), ("stateless", "httpx", "auto")),
        *(("dual", "direct", "auto"), ("2024", "direct", "auto")),
        ("2024", "direct", "2024-11-05"),
    ],
)
async def test_connecting_waits_for_a_user(auth, thinking, era, engine, mode):
    serving = (
        protected_legacy(auth) if era == "2024" else protected_server(auth, era=era)
    )
    with serving as server:
        grant = oauth(ask=thinking)
        options = {"engine": engine, "connect_timeout": LIMIT_S}
        target = mcpwire.Http(server.url, auth=grant, **options)
        async with mcpwire.Client(target, mode=mode, **LIMITS) as client:
            await echo(client)
    assert len(auth.authorizations) == 1


async def test_a_login_pauses_the_timeout_of_a_call(auth, stateless, thinking, hours):
    server = stateless
    server.is_open = True
    target = mcpwire.Http(server.url, auth=oauth(ask=thinking))
    async with mcpwire.Client(target) as client:
        server.is_open = False
        result = await client.call_tool("echo", {"text": "hi"}, timeout=LIMIT_S)
        assert result.text == "hi"
        for seconds in (SHORT_S, 4.0, 12.0):  # the call must get as far as the user
            auth.forget_all()
            began = hours.now()
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("slow", timeout=seconds)
            took = hours.now() - began
            if took >= THINKS_S:
                break
        assert THINKS_S + seconds <= took < 2 * THINKS_S
        logins = len(auth.authorizations)
        await echo(client)
    assert logins == len(auth.authorizations) >= 2


async def test_a_login_pauses_the_timeout_of_a_2024_call(auth, thinking):
    with protected_legacy(auth) as server:
        server.is_open = True
        target = mcpwire.Http(server.url, auth=oauth(ask=thinking))
        async with mcpwire.Client(target) as client:
            server.is_open = False
            result = await client.call_tool("echo", {"text": "hi"}, timeout=LIMIT_S)
            assert result.text == "hi"
            server.on["tools/call"] = lambda request, conn: (
                conn.send(reply(202)) or True
            )
            with pytest.raises(mcpwire.RequestTimeout):
                await client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S)


async def test_an_unfinished_login_ends_a_call_to_a_2024_server(auth):
    with protected_legacy(auth) as server:
        server.is_open = True
        grant = oauth(timeout=SHORT_S, ask=never_finished)
        async with connected(server, grant) as client:
            server.is_open = False
            with pytest.raises(mcpwire.ConsentDenied, match="was not finished"):
                await client.call_tool("echo", {"text": "hi"}, timeout=FOREVER_S)


async def test_a_login_pauses_the_timeouts_of_all_waiting_calls(
    auth, stateless, thinking
):
    stateless.is_open = True
    target = mcpwire.Http(stateless.url, auth=oauth(ask=thinking))
    async with mcpwire.Client(target) as client:
        stateless.is_open = False
        calls = [
            client.call_tool("echo", {"text": "hi"}, timeout=LIMIT_S) for _ in range(5)
        ]
        assert [result.text for result in await asyncio.gather(*calls)] == ["hi"] * 5
    assert len(auth.authorizations) == 1


async def test_a_slow_metadata_response_does_not_pause_the_timeout(auth, stateless):
    """The timeout goes on while the client waits for the server, not for the user."""
    stateless.is_open = True
    target = mcpwire.Http(stateless.url, auth=oauth())
    async with mcpwire.Client(target) as client:
        stateless.is_open = False
        auth.on["metadata"] = lambda request: request.conn.wait(2 * SHORT_S)
        with pytest.raises(mcpwire.RequestTimeout):
            await client.call_tool("echo", {"text": "hi"}, timeout=SHORT_S)


async def never_finished(url):
    await asyncio.sleep(FOREVER_S)  # until it is cancelled
    return url


@pytest.mark.parametrize("how", ["a browser", "a function"])
async def test_a_login_that_is_never_finished_times_out(auth, stateless, how):
    usual = {"open_browser": lambda url: None, "ask": None}
    options = usual if how == "a browser" else {"ask": never_finished}
    target = mcpwire.Http(stateless.url, auth=oauth(timeout=SHORT_S, **options))
    began = time.monotonic()
    with pytest.raises(mcpwire.ConsentDenied) as caught:
        async with mcpwire.Client(target):
            pass
    assert caught.value.error == "timeout"
    assert time.monotonic() - began >= SHORT_S
    stateless.is_open = True
    async with mcpwire.Client(target) as client:
        stateless.is_open = False
        for _ in range(2):
            with pytest.raises(mcpwire.ConsentDenied, match="was not finished"):
                await client.call_tool("echo", {"text": "hi"}, timeout=FOREVER_S)
        stateless.free.add("tools/list")
        await client.list_tools()


@pytest.mark.system("L-U14")
@pytest.mark.parametrize("is_async", [False, True])
async def test_the_browser_callback_finishes_the_login(auth, stateless, is_async):
    shown = []

    async def show(url):
        shown.append(url)

    async def open_url(url):
        come_back(url)

    functions = (show, open_url) if is_async else (shown.append, come_back)
    grant = oauth(ask=None, on_url=functions[0], open_browser=functions[1])
    async with mcpwire.Client(mcpwire.Http(stateless.url, auth=grant)) as client:
        await echo(client)
    [authorized] = auth.authorizations
    assert shown[0].startswith(f"{auth.issuer}/authorize?")
    back = authorized.query["redirect_uri"]
    assert_refused(int(back.rpartition(":")[2].partition("/")[0]))


def assert_refused(port):
    with pytest.raises(OSError, match="refused"), socket.socket() as sock:
        sock.connect(("127.0.0.1", port))


async def test_logins_at_several_servers_use_one_callback_port_in_turn(auth):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]

    async def log_in(server):
        options = {"ask": None, "open_browser": come_back, "callback_port": port}
        target = mcpwire.Http(server.url, auth=oauth(**options))
        async with mcpwire.Client(target) as client:
            await echo(client)

    with (
        protected_server(auth, era="stateless") as first,
        protected_server(auth, era="stateless") as second,
    ):
        await asyncio.gather(log_in(first), log_in(second), log_in(first))
    uris = [request.query["redirect_uri"] for request in auth.authorizations]
    assert uris == [f"http://127.0.0.1:{port}/callback"] * 3


async def test_the_callback_port_is_reused_when_it_is_free(auth, stateless):
    """An authorization server may compare the whole redirect URI (RFC 8252 7.3)."""
    grant = oauth(ask=None, open_browser=come_back)
    target = mcpwire.Http(stateless.url, auth=grant)
    for _ in range(2):
        async with mcpwire.Client(target) as client:
            await echo(client)
        auth.forget_all()
    back, again = (request.query["redirect_uri"] for request in auth.authorizations)
    assert back == again
    assert len(auth.registrations) == 1
    port = int(back.rpartition(":")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port), backlog=1):
        async with mcpwire.Client(target) as client:
            await echo(client)
    assert auth.authorizations[-1].query["redirect_uri"] != back
