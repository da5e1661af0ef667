"""Token introspection: requests to an issuer and its responses."""

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


class Introspection:
    """A verifier whose issuer is a website, with a settable clock."""

    def __init__(self, page, **options):
        self.site = Website({ENDPOINT: page})
        self.now = NOW
        if "bearer" not in options:
            options = {"client_id": "us", "client_secret": SECRET} | options
        self.verifier = IntrospectionVerifier(
            ENDPOINT, issuer=ISSUER, clock=lambda: self.now, fetch=self.site, **options
        )

    def verify(self, token="t"):
        return asyncio.run(self.verifier.verify(token))


def test_introspection_response_becomes_a_principal():
    response = ACTIVE | {"client_id": "cli", "exp": NOW + 60, "username": "Ann"}
    found = Introspection(response).verify()
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
def test_inactive_or_invalid_introspection_is_refused(said):
    with pytest.raises(InvalidToken):
        Introspection(said).verify()


@pytest.mark.rule("FLOW-23")
@pytest.mark.attack("S08")
@pytest.mark.parametrize("audience", [None, "https://other.example"])
def test_token_for_another_audience_is_refused(audience):
    server = resource(Introspection(ACTIVE | {"aud": audience}).verifier)
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
def test_introspection_request_is_authenticated(options, form, headers):
    introspection = Introspection(ACTIVE, **options)
    introspection.verify("the-token")
    (step,) = introspection.site.requests
    hint = ("token_type_hint", "access_token")
    assert step.form == (("token", "the-token"), hint, *form)
    assert step.headers == headers
    assert not step.may_redirect


def test_active_token_is_cached_but_not_beyond_its_expiry():
    introspection = Introspection(ACTIVE | {"exp": NOW + 20}, leeway=0)
    first = introspection.verify()
    introspection.now += 19
    assert introspection.verify() is first
    introspection.now += 1
    with pytest.raises(InvalidToken):
        introspection.verify()
    assert len(introspection.site.requests) == 2


@pytest.mark.parametrize("passed", [60, -3_600])  # the clock may be set back
def test_revoked_token_is_accepted_for_at_most_a_minute(passed):
    introspection = Introspection(ACTIVE)
    introspection.verify()
    introspection.site.pages[ENDPOINT] = {"active": False}
    introspection.now += passed
    with pytest.raises(InvalidToken):
        introspection.verify()


def test_inactive_token_is_cached_for_ten_seconds():
    introspection = Introspection({"active": False})
    for _ in range(3):
        with pytest.raises(InvalidToken):
            introspection.verify()
    assert len(introspection.site.requests) == 1
    introspection.site.pages[ENDPOINT] = ACTIVE
    introspection.now += 10
    assert introspection.verify().subject == "ann"


@pytest.mark.parametrize(
    "page", [AuthTemporarilyUnavailable("down"), 503, 401, 302, 404, [], "text"]
)
def test_failed_introspection_is_a_503_not_an_invalid_token(page):
    introspection = Introspection(page)
    with pytest.raises(AuthError) as caught:
        introspection.verify()
    assert not isinstance(caught.value, InvalidToken)
    with pytest.raises(AuthenticationRefused) as refused:
        ask(resource(introspection.verifier), authorization="Bearer t")
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
def test_missing_credentials_or_plain_http_are_refused(options):
    endpoint = options.pop("endpoint", ENDPOINT)
    with pytest.raises(ValueError):
        IntrospectionVerifier(endpoint, issuer=ISSUER, **options)


def test_http_endpoint_needs_allow_insecure():
    place = Http("http://login/introspect", allow_insecure=True)
    assert IntrospectionVerifier(place, issuer=ISSUER, bearer="b")


@pytest.mark.case("G13")
def test_repr_shows_no_secret():
    shown = repr(Introspection(ACTIVE).verifier)
    assert shown == f"<IntrospectionVerifier at '{ENDPOINT}'>"
