"""What goes wrong when tokens are asked for has a type, and costs no login."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from authorization_server import SENTINEL, json_answer, oauth, protected_server
from eager import eager
from engine_calls import BOUND_S, HOUR_S, echo, refreshes, whole

import mcpwire
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.transports.oauth import authorizer
from mcpwire.transports.oauth.fetch import Fetcher

pytestmark = [pytest.mark.pain("P32"), pytest.mark.fault("F38")]

SHORT_S = 0.6
"""For who does not answer: less than the second that a call waits for a new token."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch, auth):
    """Wait for a token only so long where none comes; all else has its time."""
    monkeypatch.setattr(Fetcher, "fetch", impatiently(Fetcher.fetch, auth))


def impatiently(fetch, auth):
    def fetched(self, step):
        if step.url.endswith("/token") and auth.on.get("token") is PASSING["no answer"]:
            self._limits = attrs.evolve(self._limits, oauth_timeout=SHORT_S)
        return fetch(self, step)

    return fetched


# When the server cannot answer...


def hang_up(request):
    raise ConnectionAbortedError


def never(request):
    request.conn.wait_closed(BOUND_S)
    raise ConnectionAbortedError


PASSING = {
    "500": lambda _: (500, {}, SENTINEL.encode()),
    "503 and when to come back": lambda _: (503, {"retry-after": "7"}, b""),
    "429": lambda _: (429, {"retry-after": "7"}, b"{}"),
    "the connection ends": hang_up,
    "no answer": never,
}


@pytest.mark.case("G03")
@pytest.mark.parametrize("fault", PASSING)
async def test_what_passes_by_costs_no_login(auth, fault):
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target) as client:
            auth.expire_all()
            auth.on["token"] = PASSING[fault]
            with pytest.raises(mcpwire.AuthTemporarilyUnavailable) as caught:
                await echo(client)
            assert SENTINEL not in whole(caught.value)
            if "come back" in fault or fault == "429":
                assert caught.value.retry_after == 7
            assert mcpwire.login_status(target).can_refresh
            del auth.on["token"]
            await echo(client)
    assert len(auth.authorizations) == 1
    assert len({request.form["refresh_token"] for request in refreshes(auth)}) == 1


@pytest.mark.parametrize("fault", PASSING)
async def test_a_token_that_is_good_so_far_is_used_meanwhile(auth, clock, fault):
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        async with mcpwire.Client(target) as client:
            auth.on["token"] = PASSING[fault]
            clock.pass_by(HOUR_S - 50)
            for _ in range(4):
                await echo(client)
            assert len(refreshes(auth)) == 1  # and it is left alone for a while
            del auth.on["token"]
            clock.pass_by(15)
            await echo(client)
    assert (len(refreshes(auth)), server.challenges) == (2, 1)


async def test_a_token_that_is_good_so_far_waits_for_nothing_long(
    auth, clock, monkeypatch
):
    """A call has less time than a request for tokens may take."""
    monkeypatch.setattr(authorizer, "EARLY_RENEWAL_TIMEOUT_S", SHORT_S)

    def unanswered(request):
        never(request)

    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        limits = mcpwire.Limits(oauth_timeout=60.0)
        async with mcpwire.Client(target, limits=limits) as client:
            auth.on["token"] = unanswered
            clock.pass_by(HOUR_S - 50)
            for _ in range(3):
                call = client.call_tool("echo", {"text": "x"}, timeout=20.0)
                result = await call
                assert result.text == "x"
    assert len(refreshes(auth)) <= 1  # a slow machine gets to none


# ... and when it answers what is no token.


WRONG = {
    "HTML": lambda _: (200, {"content-type": "text/html"}, b"<html>" + TOLD),
    "no JSON": lambda _: (200, {"content-type": "application/json"}, b"{" + TOLD),
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
TOLD = f"{SENTINEL}-told".encode()


@pytest.mark.parametrize("fault", [*PASSING, *WRONG])
async def test_a_login_that_fails_has_a_type_and_can_be_tried_again(auth, fault):
    with protected_server(auth) as server:
        target = mcpwire.Http(server.url, auth=oauth())
        auth.on["token"] = (PASSING | WRONG)[fault]
        with pytest.raises(mcpwire.AuthError) as caught:
            async with mcpwire.Client(target):
                pass
        kind = mcpwire.AuthTemporarilyUnavailable
        assert isinstance(caught.value, kind) == (fault in PASSING)
        assert SENTINEL not in whole(caught.value)
        assert mcpwire.login_status(target) is None
        del auth.on["token"]
        async with mcpwire.Client(target) as client:
            await echo(client)
    assert len(auth.registrations) == 1  # that was done, and is not done twice


async def test_an_operation_may_begin_before_its_first_request_waits(monkeypatch):
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
