"""Asking an issuer about a token, and what its answers mean."""

import asyncio

import pytest
from issuing import Website
from resources import ISSUER, NOW, RESOURCE, ask, resource

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.errors import AuthError
from mcpwire.server.auth import (
    AuthenticationRefused,
    IntrospectionVerifier,
    InvalidToken,
    Principal,
)
from mcpwire.transports.http.target import Http

ENDPOINT = "https://login.example/introspect"
SECRET = "hush-hush"
ACTIVE = {"active": True, "sub": "ann", "aud": RESOURCE, "scope": "read"}


class Asking:
    """A verifier whose issuer is a website, at a time that a test tells."""

    def __init__(self, page, **options):
        self.site = Website({ENDPOINT: page})
        self.now = NOW
        if "bearer" not in options:
            options = {"client_id": "us", "client_secret": SECRET} | options
        self.verifier = IntrospectionVerifier(
            ENDPOINT,
            issuer=ISSUER,
            clock=lambda: self.now,
            fetch=self.site,
            **options,
        )

    def verify(self, token="t"):
        return asyncio.run(self.verifier.verify(token))


def test_the_issuer_says_who_a_token_is_of():
    said = ACTIVE | {"client_id": "cli", "exp": NOW + 60, "username": "Ann"}
    found = Asking(said).verify()
    assert found == Principal(
        issuer=ISSUER,
        client_id="cli",
        subject="ann",
        scopes={"read"},
        audience={RESOURCE},
        expires_at=NOW + 60,
    )
    assert found.claims["username"] == "Ann"


@pytest.mark.case("G01")
@pytest.mark.rule("FLOW-22")
@pytest.mark.parametrize(
    "said",
    [
        {"active": False},
        {},
        {**ACTIVE, "active": "true"},
        {**ACTIVE, "active": 1},
        {**ACTIVE, "exp": NOW - 30},
        {**ACTIVE, "nbf": NOW + 31},
        {**ACTIVE, "iss": "https://other.example"},
        {**ACTIVE, "sub": 5},
    ],
)
def test_what_the_issuer_does_not_say_is_good_is_not(said):
    with pytest.raises(InvalidToken):
        Asking(said).verify()


@pytest.mark.rule("FLOW-23")
@pytest.mark.attack("S08")
@pytest.mark.parametrize("audience", [None, "https://other.example"])
def test_a_token_of_the_issuer_for_somebody_else_does_not_come_in(audience):
    server = resource(Asking(ACTIVE | {"aud": audience}).verifier)
    with pytest.raises(AuthenticationRefused):
        ask(server, authorization="Bearer t")


@pytest.mark.parametrize(
    ("options", "form", "headers"),
    [
        ({}, (), (("authorization", "Basic dXM6aHVzaC1odXNo"),)),
        (
            {"auth_method": "client_secret_post"},
            (("client_id", "us"), ("client_secret", SECRET)),
            (),
        ),
        ({"bearer": SECRET}, (), (("authorization", f"Bearer {SECRET}"),)),
    ],
)
def test_who_asks_is_proved(options, form, headers):
    asking = Asking(ACTIVE, **options)
    asking.verify("the-token")
    (question,) = asking.site.asked
    hint = ("token_type_hint", "access_token")
    assert question.form == (("token", "the-token"), hint, *form)
    assert question.headers == headers
    assert not question.may_redirect


def test_a_yes_is_remembered_for_a_moment_and_never_beyond_its_time():
    asking = Asking(ACTIVE | {"exp": NOW + 20}, leeway=0)
    first = asking.verify()
    asking.now += 19
    assert asking.verify() is first
    asking.now += 1
    with pytest.raises(InvalidToken):
        asking.verify()
    assert len(asking.site.asked) == 2


def test_a_token_that_is_taken_back_is_good_for_a_minute_at_most():
    asking = Asking(ACTIVE)
    asking.verify()
    asking.site.pages[ENDPOINT] = {"active": False}
    asking.now += 60
    with pytest.raises(InvalidToken):
        asking.verify()


def test_a_no_is_remembered_for_a_shorter_moment():
    asking = Asking({"active": False})
    for _ in range(3):
        with pytest.raises(InvalidToken):
            asking.verify()
    assert len(asking.site.asked) == 1
    asking.site.pages[ENDPOINT] = ACTIVE
    asking.now += 10
    assert asking.verify().subject == "ann"


@pytest.mark.parametrize(
    "page", [AuthTemporarilyUnavailable("down"), 503, 401, 302, 404, [], "text"]
)
def test_an_answer_that_is_none_says_nothing_of_the_token(page):
    asking = Asking(page)
    with pytest.raises(AuthError) as caught:
        asking.verify()
    assert not isinstance(caught.value, InvalidToken)
    with pytest.raises(AuthenticationRefused) as refused:
        ask(resource(asking.verifier), authorization="Bearer t")
    assert refused.value.http_status == 503


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"client_id": "us"},
        {"client_id": "us", "client_secret": "s", "bearer": "b"},
        {"bearer": "b", "leeway": -1},
        {"bearer": "b", "endpoint": "http://login.example/introspect"},
    ],
)
def test_what_proves_nothing_or_tells_everybody_is_refused_at_once(options):
    endpoint = options.pop("endpoint", ENDPOINT)
    with pytest.raises(ValueError):
        IntrospectionVerifier(endpoint, issuer=ISSUER, **options)


def test_http_is_for_who_says_so():
    place = Http("http://login/introspect", allow_insecure=True)
    assert IntrospectionVerifier(place, issuer=ISSUER, bearer="b")


@pytest.mark.case("G13")
def test_it_shows_no_secret():
    shown = repr(Asking(ACTIVE).verifier)
    assert shown == f"<IntrospectionVerifier at '{ENDPOINT}'>"
