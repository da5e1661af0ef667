"""How the keys of an issuer are found, kept and renewed."""

import asyncio

import pytest
from issuing import EC, OTHER_EC, Website, claims, public, sign, token
from resources import ISSUER, NOW

from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError
from mcpwire.errors import AuthError
from mcpwire.server.auth import InvalidToken, JwtVerifier
from mcpwire.server.auth.verifiers import FixedKeys, IssuerKeys, check_endpoint

PLACE = "https://keys.example/jwks"
OAUTH = ISSUER + "/.well-known/oauth-authorization-server"
OPENID = ISSUER + "/.well-known/openid-configuration"
DOWN = AuthTemporarilyUnavailable("down")


def jwks(**keys):
    return {"keys": [public(key, kid=kid) for kid, key in keys.items()]}


class Believing:
    """A verifier whose keys come from a website, at a time that a test tells."""

    def __init__(self, pages, *, place=PLACE):
        self.site = Website(pages)
        self.now = NOW
        self.verifier = JwtVerifier(ISSUER, jwks_uri=PLACE, clock=lambda: self.now)
        where = None if place is None else check_endpoint(place, "the keys")
        self.keys = IssuerKeys(ISSUER, where, fetch=self.site)
        self.verifier._keys = self.keys

    def verify(self, kid="a", key=EC, **members):
        made = sign({"alg": "ES256", "kid": kid}, claims(**members), key)
        return asyncio.run(self.verifier.verify(made))


@pytest.fixture
def believing():
    """Give a verifier that has fetched its keys."""
    made = Believing({PLACE: jwks(a=EC)})
    made.verify()
    return made


@pytest.mark.parametrize(("seconds", "times"), [(3_599, 1), (3_600, 2)])
def test_keys_are_fetched_once_and_kept_until_they_are_old(believing, seconds, times):
    believing.now += seconds
    believing.verify(exp=believing.now + 60)
    assert believing.site.urls == [PLACE] * times
    assert not believing.site.asked[0].may_redirect


def test_a_key_that_is_not_known_is_looked_for(believing):
    believing.site.pages[PLACE] = jwks(b=OTHER_EC)
    believing.now += 30
    assert believing.verify("b", OTHER_EC).subject == "ann"
    assert len(believing.site.asked) == 2


def test_a_key_that_took_the_name_of_another_is_looked_for(believing):
    believing.site.pages[PLACE] = jwks(a=OTHER_EC)
    believing.now += 30
    assert believing.verify("a", OTHER_EC).subject == "ann"


def test_keys_that_are_taken_back_take_back_what_is_remembered(believing):
    believing.verify()
    believing.site.pages[PLACE] = jwks(b=OTHER_EC)
    believing.now += 30
    believing.verify("b", OTHER_EC)
    with pytest.raises(InvalidToken):
        believing.verify()


@pytest.mark.attack("S08")
def test_names_of_keys_that_nobody_knows_do_not_flood_the_issuer():
    believing = Believing({PLACE: jwks(a=EC)})
    for number in range(20):
        with pytest.raises(InvalidToken):
            believing.verify(f"unknown-{number}", OTHER_EC)
    assert len(believing.site.asked) == 1


def test_an_issuer_that_is_down_is_left_alone_for_a_while():
    believing = Believing({PLACE: DOWN})
    for _ in range(3):
        with pytest.raises(AuthTemporarilyUnavailable):
            believing.verify()
    assert len(believing.site.asked) == 1
    believing.site.pages[PLACE] = jwks(a=EC)
    believing.now += 30
    assert believing.verify().subject == "ann"


@pytest.mark.parametrize("page", [DOWN, 404, 302, 503, {"keys": 5}, []])
def test_the_keys_of_before_are_good_for_a_day_where_there_are_no_others(
    believing, page
):
    believing.site.pages[PLACE] = page
    for hours in (1, 2, 23):
        believing.now = NOW + hours * 3_600
        assert believing.verify(exp=believing.now + 60).subject == "ann"
    believing.now = NOW + 24 * 3_600
    with pytest.raises(AuthError):
        believing.verify(exp=believing.now + 60)


def test_requests_at_once_ask_once():
    believing = Believing({PLACE: jwks(a=EC)})
    arrived = asyncio.Event()
    fetch = believing.keys._fetch

    async def slow(step):
        await arrived.wait()
        return await fetch(step)

    believing.keys._fetch = slow

    async def main():
        made = sign({"alg": "ES256", "kid": "a"}, claims(), EC)
        waiting = [
            asyncio.ensure_future(believing.verifier.verify(made)) for _ in range(5)
        ]
        await asyncio.sleep(0)  # all of them begin
        arrived.set()
        return await asyncio.gather(*waiting)

    assert len(asyncio.run(main())) == 5
    assert len(believing.site.asked) == 1


def test_one_request_waits_for_newer_keys_and_no_other(believing):
    believing.now += 3_600
    goes_on = asyncio.Event()

    async def never(step):
        await goes_on.wait()
        return await believing.site(step)

    believing.keys._fetch = never
    head, said = {"alg": "ES256", "kid": "a"}, claims(exp=believing.now + 60)

    async def main():
        first = asyncio.ensure_future(
            believing.verifier.verify(sign(head, said | {"jti": "1"}, EC))
        )
        await asyncio.sleep(0)  # it begins
        second = await believing.verifier.verify(sign(head, said | {"jti": "2"}, EC))
        assert not first.done()
        goes_on.set()
        return second, await first

    assert len(asyncio.run(main())) == 2


def test_requests_with_unknown_keys_at_once_ask_once(believing):
    believing.site.pages[PLACE] = jwks(b=OTHER_EC)
    believing.now += 30

    async def main():
        made = sign({"alg": "ES256", "kid": "b"}, claims(), OTHER_EC)
        return await asyncio.gather(
            *(believing.verifier.verify(made) for _ in range(5))
        )

    assert len(asyncio.run(main())) == 5
    assert len(believing.site.asked) == 2


# Where the issuer's metadata says...


@pytest.mark.parametrize("page", [OAUTH, OPENID])
def test_the_metadata_of_the_issuer_says_where_its_keys_are(page):
    metadata = {"issuer": ISSUER, "jwks_uri": PLACE}
    believing = Believing({page: metadata, PLACE: jwks(a=EC)}, place=None)
    assert believing.verify().subject == "ann"
    assert believing.site.urls[-2:] == [page, PLACE]
    believing.now += 3_600
    believing.verify(exp=believing.now + 60)
    assert believing.site.urls[-2:] == [PLACE, PLACE]


def test_an_issuer_may_move_its_keys():
    metadata = {"issuer": ISSUER, "jwks_uri": PLACE}
    believing = Believing({OAUTH: metadata, PLACE: jwks(a=EC)}, place=None)
    believing.verify()
    there = "https://keys.example/new"
    believing.site.pages = {
        OAUTH: metadata | {"jwks_uri": there},
        there: jwks(b=OTHER_EC),
    }
    believing.now += 3_600
    believing.verify(exp=believing.now + 60)  # by the keys of before
    believing.now += 30
    assert believing.verify("b", OTHER_EC, exp=believing.now + 60).subject == "ann"


@pytest.mark.parametrize(
    "metadata",
    [
        404,
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": 5},
        {"issuer": ISSUER + "/", "jwks_uri": PLACE},
    ],
)
def test_metadata_of_another_issuer_or_without_keys_leads_nowhere(metadata):
    believing = Believing({OAUTH: metadata, PLACE: jwks(a=EC)}, place=None)
    with pytest.raises(DiscoveryError):
        believing.verify()
    assert PLACE not in believing.site.urls


def test_given_keys_never_change():
    keys = FixedKeys([])
    assert asyncio.run(keys.find(None, "ES256", NOW)) == []
    assert not asyncio.run(keys.renew(NOW))


def test_a_token_without_a_named_key_is_tried_with_those_of_its_kind():
    believing = Believing({PLACE: jwks(a=OTHER_EC, b=EC)})
    assert asyncio.run(believing.verifier.verify(token())).subject == "ann"
