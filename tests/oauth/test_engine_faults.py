"""Faults of token requests are typed errors, and cost no login."""

import asyncio

import attrs
import pytest
from authorization_server import SENTINEL, json_answer, oauth
from eager import eager
from engine_calls import BOUND_S, HOUR_S, connected, echo, refreshes, whole

import mcpwire
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.transports.oauth import authorizer
from mcpwire.transports.oauth.fetch import Fetcher

pytestmark = [pytest.mark.pain("P32"), pytest.mark.fault("F38")]

SHORT_S = 0.6
"""For a server that does not answer: less than the 1 s a call waits for a new token."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch, auth):
    """Shorten the timeout of token requests that get no answer, and of no other."""
    monkeypatch.setattr(Fetcher, "fetch", impatiently(Fetcher.fetch, auth))


def impatiently(fetch, auth):
    def fetched(self, step):
        if step.url.endswith("/token") and auth.on.get("token") is OUTAGES["no answer"]:
            self._limits = attrs.evolve(self._limits, oauth_timeout=SHORT_S)
        return fetch(self, step)

    return fetched


# The server cannot answer...


def hang_up(request):
    raise ConnectionAbortedError


def never(request):
    request.conn.wait_closed(BOUND_S)
    raise ConnectionAbortedError


OUTAGES = {
    "500": lambda _: (500, {}, SENTINEL.encode()),
    "503 and when to come back": lambda _: (503, {"retry-after": "700"}, b""),
    "429": lambda _: (429, {"retry-after": "700"}, b"{}"),
    "the connection ends": hang_up,
    "no answer": never,
}


@pytest.mark.case("G03")
@pytest.mark.parametrize("fault", OUTAGES)
async def test_a_temporary_fault_keeps_the_refresh_token(auth, session, fault):
    target = mcpwire.Http(session.url, auth=oauth())
    async with mcpwire.Client(target) as client:
        auth.expire_all()
        auth.on["token"] = OUTAGES[fault]
        with pytest.raises(mcpwire.AuthTemporarilyUnavailable) as caught:
            await echo(client)
        assert SENTINEL not in whole(caught.value)
        if "come back" in fault or fault == "429":
            assert caught.value.retry_after == 700
        assert mcpwire.login_status(target).can_refresh
        del auth.on["token"]
        await echo(client)
    assert len(auth.authorizations) == 1
    assert len({request.form["refresh_token"] for request in refreshes(auth)}) == 1


async def test_a_call_waits_for_the_retry_after_of_the_token_endpoint(auth, session):
    async with connected(session) as client:

        def decline_once(request):
            del auth.on["token"]
            return 429, {"retry-after": "0"}, b"{}"

        auth.expire_all()
        auth.on["token"] = decline_once
        await echo(client)
    assert (len(refreshes(auth)), len(auth.authorizations)) == (2, 1)


async def test_a_repeated_call_raises_the_error_of_its_login(auth, session):
    async with connected(session, server_stream="never") as client:

        def cut_off(request, conn):
            auth.expire_all()
            auth.on["token"] = OUTAGES["429"]
            raise ConnectionAbortedError

        session.on["tools/list"] = cut_off
        with pytest.raises(mcpwire.AuthTemporarilyUnavailable):
            await client.list_tools()
    assert len(refreshes(auth)) == 1


@pytest.mark.parametrize("fault", OUTAGES)
async def test_a_valid_token_is_used_while_its_refresh_fails(
    auth, session, clock, fault
):
    async with connected(session) as client:
        auth.on["token"] = OUTAGES[fault]
        clock.pass_by(HOUR_S - 50)
        for _ in range(4):
            await echo(client)
        assert len(refreshes(auth)) == 1  # and not tried again for a while
        del auth.on["token"]
        clock.pass_by(15)
        await echo(client)
    assert (len(refreshes(auth)), session.challenges) == (2, 1)


async def test_a_valid_token_does_not_wait_for_a_slow_refresh(
    auth, session, clock, monkeypatch
):
    """A call has less time than a token request may take."""
    monkeypatch.setattr(authorizer, "EARLY_RENEWAL_TIMEOUT_S", SHORT_S)

    def unanswered(request):
        never(request)

    target = mcpwire.Http(session.url, auth=oauth())
    limits = mcpwire.Limits(oauth_timeout=60.0)
    async with mcpwire.Client(target, limits=limits) as client:
        auth.on["token"] = unanswered
        clock.pass_by(HOUR_S - 50)
        for _ in range(3):
            result = await client.call_tool("echo", {"text": "x"}, timeout=20.0)
            assert result.text == "x"
    assert len(refreshes(auth)) <= 1  # none on a slow machine


# ... or it answers without a valid token.


WRONG = {
    "HTML": lambda _: (200, {"content-type": "text/html"}, b"<html>" + LEAKED),
    "no JSON": lambda _: (200, {"content-type": "application/json"}, b"{" + LEAKED),
    "no access token": lambda _: json_answer({"token_type": "Bearer"}),
    "a newline in it": lambda _: json_answer(
        {"access_token": f"{SENTINEL}\r\nx: y", "token_type": "Bearer"}
    ),
    "another type": lambda _: json_answer(
        {"access_token": SENTINEL, "token_type": "mac"}
    ),
    "invalid_request": lambda _: json_answer({"error": "invalid_request"}, 400),
    "a redirect": lambda _: (307, {"location": "/elsewhere"}, b""),
}
LEAKED = f"{SENTINEL}-told".encode()


@pytest.mark.parametrize("fault", [*OUTAGES, *WRONG])
async def test_a_failed_login_is_typed_and_can_be_retried(auth, session, fault):
    target = mcpwire.Http(session.url, auth=oauth())
    auth.on["token"] = (OUTAGES | WRONG)[fault]
    with pytest.raises(mcpwire.AuthError) as caught:
        async with mcpwire.Client(target):
            pass
    kind = mcpwire.AuthTemporarilyUnavailable
    assert isinstance(caught.value, kind) == (fault in OUTAGES)
    assert SENTINEL not in whole(caught.value)
    assert mcpwire.login_status(target) is None
    del auth.on["token"]
    async with mcpwire.Client(target) as client:
        await echo(client)
    assert len(auth.registrations) == 1  # the registration is not repeated


async def test_an_eager_task_raises_the_error_of_its_first_fetch(monkeypatch):
    async def fetch(self, step):
        raise mcpwire.AuthTemporarilyUnavailable("not now")

    monkeypatch.setattr(Fetcher, "fetch", fetch)
    grant = mcpwire.ClientCredentials(
        client_id="robot", client_secret=SENTINEL, issuer="https://login.example"
    )
    target = mcpwire.Http("https://host.example/mcp", auth=grant)
    made = authorizer.Authorizer(grant, target, DEFAULT_LIMITS)
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", eager))
    try:
        with pytest.raises(mcpwire.AuthTemporarilyUnavailable, match="not now"):
            await made.obtain(made.session.token_request())
    finally:
        loop.set_task_factory(None)
