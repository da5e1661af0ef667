"""Introspection is shared among clients: bad tokens do not block good ones."""

import asyncio
import json

import httpx
import pytest
from resources import ISSUER, NOW, RESOURCE, Fields, resource

from mcpwire import Server
from mcpwire.auth.steps import Answer
from mcpwire.errors import AuthError
from mcpwire.server.auth import (
    AuthenticationRefused,
    IntrospectionVerifier,
    InvalidToken,
)
from mcpwire.server.auth.resource_server import client_address
from mcpwire.server.auth.verifiers import MAX_CACHED_TOKENS, MAX_OPEN_REQUESTS
from mcpwire.testing import AsgiTransport

pytestmark = pytest.mark.attack("X07")

GREEDY, HONEST = "192.0.2.1", "198.51.100.1"


class SlowIssuer:
    """Accepts tokens ``good...`` at once; for ``slow...`` it waits for `gate`."""

    def __init__(self, failure=None):
        self.tokens = []
        self.open = 0
        self.is_full = asyncio.Event()
        self.gate = asyncio.Event()
        self.failure = failure
        self.verifier = IntrospectionVerifier(
            "https://login.example/introspect",
            issuer=ISSUER,
            bearer="b",
            clock=lambda: NOW,
            fetch=self,
        )
        self.server = resource(self.verifier)

    async def __call__(self, step):
        token = dict(step.form)["token"]
        self.tokens.append(token)
        self.open += 1
        if self.open == MAX_OPEN_REQUESTS:
            self.is_full.set()
        try:
            if token.startswith("slow"):
                await self.gate.wait()
            if self.failure is not None:
                raise self.failure
        finally:
            self.open -= 1
        claims = {"active": token.startswith("good"), "sub": token, "aud": RESOURCE}
        return Answer(200, {}, json.dumps(claims).encode())

    def authenticate(self, token, address):
        async def answer():
            client_address.set(address)
            fields = Fields({"authorization": f"Bearer {token}"})
            try:
                principal = await self.server.authenticate(fields, "POST", RESOURCE)
            except AuthenticationRefused as error:
                return error.http_status
            return principal.subject

        return asyncio.create_task(answer())


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_slow_tokens_of_one_address_do_not_block_another():
    issuer = SlowIssuer()
    bad = [issuer.authenticate(f"slow{number}", GREEDY) for number in range(200)]
    await settle()
    assert issuer.open == MAX_OPEN_REQUESTS
    # The greedy client itself is told to retry.
    assert [task.result() for task in bad if task.done()] == [503] * (
        200 - MAX_OPEN_REQUESTS
    )
    found = await asyncio.gather(
        *(issuer.authenticate(f"good{number}", HONEST) for number in range(3))
    )
    assert found == ["good0", "good1", "good2"]
    # The oldest request was evicted, and its client told to retry.
    assert await bad[0] == 503
    assert [task.done() for task in bad[1:MAX_OPEN_REQUESTS]] == [False] * (
        MAX_OPEN_REQUESTS - 1
    )
    assert issuer.open == MAX_OPEN_REQUESTS - 1
    for task in bad:
        task.cancel()
    await asyncio.gather(*bad, return_exceptions=True)
    assert issuer.open == 0


async def test_introspections_count_for_the_client_address():
    issuer = SlowIssuer()
    app = Server("x", auth=issuer.server).asgi()
    greedy, honest = [
        httpx.AsyncClient(transport=AsgiTransport(app, client=(address, 50_000)))
        for address in (GREEDY, HONEST)
    ]
    async with greedy, honest:
        bad = [
            asyncio.create_task(
                greedy.get(RESOURCE, headers={"authorization": f"Bearer slow{number}"})
            )
            for number in range(MAX_OPEN_REQUESTS)
        ]
        await issuer.is_full.wait()
        # Authenticated, then refused because a GET names no session.
        fields = {"authorization": "Bearer good"}
        assert (await honest.get(RESOURCE, headers=fields)).status_code == 400
        assert (await bad[0]).status_code == 503
        for task in bad:
            task.cancel()
        await asyncio.gather(*bad, return_exceptions=True)
    await app.aclose()


async def test_introspection_is_not_evicted_for_an_equal_client():
    issuer = SlowIssuer()
    half = MAX_OPEN_REQUESTS // 2
    tasks = [
        issuer.authenticate(f"slow-g{n}", GREEDY) for n in range(MAX_OPEN_REQUESTS)
    ]
    await settle()
    tasks += [issuer.authenticate(f"slow-h{n}", HONEST) for n in range(half)]
    await settle()
    assert [
        await issuer.authenticate("good", address) for address in (GREEDY, HONEST)
    ] == [503, 503]
    assert sum(task.done() for task in tasks) == half
    # Addresses of one IPv6 network are one client.
    assert await issuer.authenticate("good", "2001:db8::1") == "good"
    tasks.append(issuer.authenticate("slow", "2001:db8::1"))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_bad_tokens_do_not_evict_good_ones_from_the_cache():
    issuer = SlowIssuer()
    assert await issuer.authenticate("good", HONEST) == "good"
    for number in range(MAX_CACHED_TOKENS + 1):
        with pytest.raises(InvalidToken):
            await issuer.verifier.verify(f"bad{number}")
    assert await issuer.authenticate("good", HONEST) == "good"
    assert issuer.tokens.count("good") == 1


@pytest.mark.parametrize(("failure", "status"), [(None, 401), (AuthError("no"), 503)])
async def test_requests_with_one_token_share_one_introspection(failure, status):
    issuer = SlowIssuer(failure)
    tasks = [issuer.authenticate("slow", HONEST) for _ in range(2 * MAX_OPEN_REQUESTS)]
    await settle()
    assert issuer.tokens == ["slow"]
    tasks.pop(0).cancel()  # another one takes its place
    await settle()
    assert issuer.tokens == ["slow", "slow"]
    issuer.gate.set()
    assert {*(await asyncio.gather(*tasks))} == {status}
    assert issuer.tokens == ["slow", "slow"]


async def test_fetch_timeout_and_error_are_raised_unchanged():
    issuer = SlowIssuer(failure=TimeoutError("of its own"))
    with pytest.raises(TimeoutError, match="of its own"):
        await issuer.verifier.verify("t")
    issuer.failure = AuthError("no")
    with pytest.raises(AuthError, match="no"):
        await issuer.verifier.verify("t")
