"""Discovery, caching and renewal of the keys of an issuer."""

import asyncio
from unittest.mock import patch

import pytest
from issuing import EC, OTHER_EC, Website, claims, public, sign, token
from resources import ISSUER, NOW

from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError
from mcpwire.errors import AuthError
from mcpwire.server.auth import InvalidToken, JwtVerifier, verifiers
from mcpwire.server.auth.verifiers import FixedKeys, IssuerKeys

JWKS_URL = "https://keys.example/jwks"
OAUTH = ISSUER + "/.well-known/oauth-authorization-server"
OPENID = ISSUER + "/.well-known/openid-configuration"
DOWN = AuthTemporarilyUnavailable("down")


def jwks(**keys):
    return {"keys": [public(key, kid=kid) for kid, key in keys.items()]}


class JwtSetup:
    """A verifier whose keys come from a website, with a settable clock."""

    def __init__(self, pages, *, place=JWKS_URL):
        self.site = Website(pages)
        self.now = NOW
        self.fetch = self.site
        keys = IssuerKeys(ISSUER, place, fetch=lambda step: self.fetch(step))  # noqa: PLW0108
        with patch.object(verifiers, "IssuerKeys", return_value=keys):
            self.verifier = JwtVerifier(ISSUER, jwks_uri=place, clock=lambda: self.now)

    def verify(self, kid="a", key=EC, **members):
        made = sign({"alg": "ES256", "kid": kid}, claims(**members), key)
        return asyncio.run(self.verifier.verify(made))


@pytest.fixture
def setup():
    made = JwtSetup({JWKS_URL: jwks(a=EC)})
    made.verify()
    return made


@pytest.mark.parametrize(("seconds", "times"), [(3_599, 1), (3_600, 2)])
def test_keys_are_cached_until_they_expire(setup, seconds, times):
    setup.now += seconds
    setup.verify(exp=setup.now + 60)
    assert setup.site.urls == [JWKS_URL] * times
    assert not setup.site.requests[0].may_redirect


@pytest.mark.parametrize("kid", ["a", "b"], ids=["the same id", "another id"])
def test_unknown_or_replaced_key_refetches_the_keys(setup, kid):
    setup.site.pages[JWKS_URL] = jwks(**{kid: OTHER_EC})
    setup.now += 30
    assert setup.verify(kid, OTHER_EC).subject == "ann"
    assert len(setup.site.requests) == 2


def test_removed_key_invalidates_remembered_tokens(setup):
    setup.verify()
    setup.site.pages[JWKS_URL] = jwks(b=OTHER_EC)
    setup.now += 30
    setup.verify("b", OTHER_EC)
    with pytest.raises(InvalidToken):
        setup.verify()


@pytest.mark.attack("S08")
def test_unknown_key_ids_do_not_flood_the_issuer():
    setup = JwtSetup({JWKS_URL: jwks(a=EC)})
    for number in range(20):
        with pytest.raises(InvalidToken):
            setup.verify(f"unknown-{number}", OTHER_EC)
    assert len(setup.site.requests) == 1


def test_failed_key_fetch_is_not_retried_at_once():
    setup = JwtSetup({JWKS_URL: DOWN})
    for _ in range(3):
        with pytest.raises(AuthTemporarilyUnavailable):
            setup.verify()
    assert len(setup.site.requests) == 1
    setup.site.pages[JWKS_URL] = jwks(a=EC)
    setup.now += 30
    assert setup.verify().subject == "ann"


def test_keys_are_fetched_after_the_clock_is_set_back(setup):
    setup.now = NOW - 7_200
    setup.site.pages[JWKS_URL] = jwks(b=OTHER_EC)
    assert setup.verify("b", OTHER_EC).subject == "ann"
    setup.now -= 7_200
    setup.site.pages[JWKS_URL] = jwks(a=EC)
    with pytest.raises(InvalidToken):
        setup.verify("b", OTHER_EC)  # the key was withdrawn
    failed = JwtSetup({JWKS_URL: DOWN})
    with pytest.raises(AuthTemporarilyUnavailable):
        failed.verify()
    failed.now = NOW - 7_200
    failed.site.pages[JWKS_URL] = jwks(a=EC)
    assert failed.verify().subject == "ann"


@pytest.mark.parametrize("page", [DOWN, 404, 302, 503, {"keys": 5}, []])
def test_previous_keys_are_used_for_a_day_after_failures(setup, page):
    setup.site.pages[JWKS_URL] = page
    for hours in (1, 2, 23):
        setup.now = NOW + hours * 3_600
        assert setup.verify(exp=setup.now + 60).subject == "ann"
    setup.now = NOW + 24 * 3_600
    with pytest.raises(AuthError):
        setup.verify(exp=setup.now + 60)


def test_concurrent_requests_fetch_the_keys_once():
    setup = JwtSetup({JWKS_URL: jwks(a=EC)})
    arrived = asyncio.Event()

    async def slow(step):
        await arrived.wait()
        return await setup.site(step)

    setup.fetch = slow

    async def main():
        made = sign({"alg": "ES256", "kid": "a"}, claims(), EC)
        waiting = [asyncio.ensure_future(setup.verifier.verify(made)) for _ in range(5)]
        await asyncio.sleep(0)  # all of them start
        arrived.set()
        return await asyncio.gather(*waiting)

    assert len(asyncio.run(main())) == 5
    assert len(setup.site.requests) == 1


def test_only_one_request_waits_for_renewed_keys(setup):
    setup.now += 3_600
    release = asyncio.Event()

    async def blocked_fetch(step):
        await release.wait()
        return await setup.site(step)

    setup.fetch = blocked_fetch
    head, token_claims = {"alg": "ES256", "kid": "a"}, claims(exp=setup.now + 60)

    async def main():
        first = asyncio.ensure_future(
            setup.verifier.verify(sign(head, token_claims | {"jti": "1"}, EC))
        )
        await asyncio.sleep(0)  # it starts
        second = await setup.verifier.verify(
            sign(head, token_claims | {"jti": "2"}, EC)
        )
        assert not first.done()
        release.set()
        return second, await first

    assert len(asyncio.run(main())) == 2


def test_concurrent_unknown_keys_are_fetched_once(setup):
    setup.site.pages[JWKS_URL] = jwks(b=OTHER_EC)
    setup.now += 30

    async def main():
        made = sign({"alg": "ES256", "kid": "b"}, claims(), OTHER_EC)
        return await asyncio.gather(*(setup.verifier.verify(made) for _ in range(5)))

    assert len(asyncio.run(main())) == 5
    assert len(setup.site.requests) == 2


@pytest.mark.parametrize("page", [OAUTH, OPENID])
def test_key_url_comes_from_the_issuer_metadata(page):
    metadata = {"issuer": ISSUER, "jwks_uri": JWKS_URL}
    setup = JwtSetup({page: metadata, JWKS_URL: jwks(a=EC)}, place=None)
    assert setup.verify().subject == "ann"
    assert setup.site.urls[-2:] == [page, JWKS_URL]
    setup.now += 3_600
    setup.verify(exp=setup.now + 60)
    assert setup.site.urls[-2:] == [page, JWKS_URL]


@pytest.mark.parametrize("named", [{}, {"jwks_uri": None}])
def test_key_url_comes_from_the_document_that_names_one(named):
    metadata = {"issuer": ISSUER}
    openid = metadata | {"jwks_uri": JWKS_URL}
    pages = {OAUTH: metadata | named, OPENID: openid, JWKS_URL: jwks(a=EC)}
    assert JwtSetup(pages, place=None).verify().subject == "ann"


METADATA = {"issuer": ISSUER, "jwks_uri": JWKS_URL}
NEW_URL = "https://keys.example/new"
MOVED = {
    "the old one still works": (
        30,
        {
            OAUTH: METADATA | {"jwks_uri": NEW_URL},
            JWKS_URL: jwks(a=EC),
            NEW_URL: jwks(a=EC, b=OTHER_EC),
        },
    ),
    "the old one is gone": (
        3_600,
        {OAUTH: METADATA | {"jwks_uri": NEW_URL}, NEW_URL: jwks(b=OTHER_EC)},
    ),
    "the metadata is not available": (3_600, {JWKS_URL: jwks(b=OTHER_EC)}),
}


@pytest.mark.parametrize(("seconds", "pages"), MOVED.values(), ids=MOVED)
def test_key_url_is_the_one_that_the_metadata_named_last(seconds, pages):
    setup = JwtSetup({OAUTH: METADATA, JWKS_URL: jwks(a=EC)}, place=None)
    setup.verify()
    setup.site.pages = pages
    setup.now += seconds
    assert setup.verify("b", OTHER_EC, exp=setup.now + 60).subject == "ann"


@pytest.mark.parametrize(
    "metadata",
    [
        404,
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": 5},
        {"issuer": ISSUER + "/", "jwks_uri": JWKS_URL},
    ],
)
def test_metadata_of_another_issuer_or_without_keys_is_refused(metadata):
    setup = JwtSetup({OAUTH: metadata, JWKS_URL: jwks(a=EC)}, place=None)
    with pytest.raises(DiscoveryError):
        setup.verify()
    assert JWKS_URL not in setup.site.urls


def test_fixed_keys_are_never_renewed():
    keys = FixedKeys([])
    assert asyncio.run(keys.find(None, "ES256", NOW)) == []
    assert not asyncio.run(keys.renew(NOW))


def test_token_without_a_key_id_is_tried_with_matching_keys():
    setup = JwtSetup({JWKS_URL: jwks(a=OTHER_EC, b=EC)})
    assert asyncio.run(setup.verifier.verify(token())).subject == "ann"
