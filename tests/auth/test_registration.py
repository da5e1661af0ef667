"""Client identities: their order, registration, and the issuer they belong to."""

import attrs
import pytest
from flow_driver import NOW, World, document, refused

from mcpwire.auth.config import DISCOVERED, OAuth
from mcpwire.auth.errors import (
    AuthTemporarilyUnavailable,
    RegistrationError,
    UrlRefused,
)
from mcpwire.auth.records import Identity, ServerMetadata
from mcpwire.auth.registration import (
    check_document_url,
    identify,
    read_registration,
    registration_document,
)
from mcpwire.auth.steps import Answer, Fetch
from mcpwire.auth.url_policy import UrlPolicy
from mcpwire.wire.urls import parse_url

ISSUER = "https://as.example"
REGISTER = "https://as.example/register"
REDIRECT = "http://127.0.0.1:3333/callback"
DOCUMENT = "https://app.example/client.json"
SERVER = parse_url("https://h.example/mcp")
STORED = Identity("stored", "its-secret", ISSUER, kind="registered")


def metadata(**members):
    return ServerMetadata(ISSUER, **{"registration_endpoint": REGISTER, **members})


def outcome(config, known, stored=None, *, answered=None, scopes=()):
    world = World(None, {REGISTER: answered or document(201, client_id="new")})
    found = world.run(
        identify(
            config,
            known,
            stored,
            redirect_uri=REDIRECT,
            scopes=scopes,
            policy=UrlPolicy(SERVER),
        )
    )
    return found, world.of(Fetch)


GIVEN = {"client_id": "given"}
HOSTED = {"client_metadata_url": DOCUMENT}
SUPPORTED = {"client_id_metadata_document_supported": True}
CLOSED = {"registration_endpoint": None}

ORDER = {
    "given before all": (GIVEN | HOSTED, SUPPORTED, STORED, "given", "given"),
    "given where none registers": (GIVEN, CLOSED, None, "given", "given"),
    "stored before a document": (HOSTED, SUPPORTED, STORED, "stored", "registered"),
    "stored where none registers": ({}, CLOSED, STORED, "stored", "registered"),
    "a document before asking": (HOSTED, SUPPORTED, None, DOCUMENT, "document"),
    "a document where none registers": (
        HOSTED,
        SUPPORTED | CLOSED,
        None,
        DOCUMENT,
        "document",
    ),
    "asking where documents are not supported": (HOSTED, {}, None, "new", "registered"),
    "asking where there is no document": ({}, SUPPORTED, None, "new", "registered"),
}


@pytest.mark.system("U48")
@pytest.mark.case("G08")
@pytest.mark.rule("REG-01", "REG-02", "REG-06", "REG-07", "REG-15")
@pytest.mark.parametrize(
    ("options", "members", "stored", "client_id", "kind"), ORDER.values(), ids=ORDER
)
def test_the_kinds_of_client_ids_have_an_order(
    options, members, stored, client_id, kind
):
    identity, sent = outcome(OAuth(**options), metadata(**members), stored)
    assert (identity.client_id, identity.kind) == (client_id, kind)
    assert [step.url for step in sent] == ([REGISTER] if client_id == "new" else [])


NOWHERE = {
    "nothing given": ({}, {}, "pass client_id= of a client that is registered there"),
    "documents supported": (
        {},
        SUPPORTED,
        "there, or client_metadata_url= of a document that describes this client",
    ),
    "documents not supported": (
        HOSTED,
        {},
        "registered there; it does not support client_metadata_url=",
    ),
}


@pytest.mark.rule("REG-01", "REG-15")
@pytest.mark.parametrize(
    ("options", "members", "ending"), NOWHERE.values(), ids=NOWHERE
)
def test_the_error_names_the_missing_option(options, members, ending):
    with pytest.raises(RegistrationError) as refused:
        outcome(OAuth(**options), metadata(**members, **CLOSED))
    assert str(refused.value).endswith(ending)
    assert "'https://as.example'" in str(refused.value)


@pytest.mark.rule("REG-12")
def test_a_metadata_document_client_has_no_issuer_and_secret():
    identity, _ = outcome(OAuth(**HOSTED), metadata(**SUPPORTED))
    assert identity == Identity(DOCUMENT, kind="document", auth_method="none")


USABLE = {
    "its secret will expire": {"secret_expires_at": NOW + 1},
    "it has this way back": {"redirect_uri": REDIRECT},
    "it was given": {"kind": "given"},
    "it has all scopes": {"scopes": None},
}
UNUSABLE = {
    "its secret has expired": {"secret_expires_at": NOW},
    "it is registered with another way back": {"redirect_uri": f"{REDIRECT}2"},
    "a document is not stored": {"kind": "document"},
}


@pytest.mark.case("G08")
@pytest.mark.parametrize("name", [*USABLE, *UNUSABLE])
def test_an_unusable_stored_client_is_registered_again(name):
    stored = attrs.evolve(STORED, **(USABLE | UNUSABLE)[name])
    identity, sent = outcome(OAuth(), metadata(), stored, scopes=("a",))
    if name in USABLE:
        assert (identity, sent) == (stored, [])
    else:
        assert identity.client_id == "new"


SAME = {
    "nothing stored": None,
    "the same issuer": Identity("given", None, ISSUER),
    "another client": Identity("other", None, "https://first.example"),
    "registered by itself": Identity(
        "given", None, "https://first.example", kind="registered"
    ),
    "of nobody known": Identity("given", None, None),
}


@pytest.mark.parametrize("stored", SAME.values(), ids=SAME)
def test_a_configured_client_gets_the_discovered_issuer(stored):
    config = OAuth(client_id="given", client_secret="s", issuer=DISCOVERED)
    identity, _ = outcome(config, metadata(), stored)
    assert identity == Identity("given", "s", ISSUER)


def document_of(config=None, redirect_uri=REDIRECT, **members):
    return registration_document(
        config or OAuth(), metadata(**members), redirect_uri=redirect_uri, scopes=()
    )


@pytest.mark.rule("REG-07", "REG-08", "REG-13")
def test_the_registration_document_describes_the_client():
    config = OAuth(client_name="Mine")
    assert document_of(config, token_endpoint_auth_methods_supported=("none",)) == {
        "client_name": "Mine",
        "application_type": "native",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


FOR_SCOPES = {
    "nothing stored": (None, ("b", "a")),
    "registered for none": (attrs.evolve(STORED, scopes=()), ("b", "a")),
    "registered for one": (attrs.evolve(STORED, scopes=("a",)), ("a", "b")),
    "registered for another": (attrs.evolve(STORED, scopes=("c",)), ("c", "b", "a")),
    "unusable, of the same issuer": (
        attrs.evolve(STORED, scopes=("c",), redirect_uri="http://127.0.0.1:1/"),
        ("c", "b", "a"),
    ),
    "of another issuer": (
        attrs.evolve(STORED, scopes=("c",), issuer="https://other.example"),
        ("b", "a"),
    ),
}


@pytest.mark.parametrize(("stored", "scopes"), FOR_SCOPES.values(), ids=FOR_SCOPES)
def test_a_registration_requests_old_and_new_scopes(stored, scopes):
    identity, (sent,) = outcome(OAuth(), metadata(), stored, scopes=("b", "a"))
    assert sent.document["scope"] == " ".join(scopes)
    assert identity.scopes == scopes
    for again in (("a",), ("b",), ()):
        assert outcome(OAuth(), metadata(), identity, scopes=again) == (identity, [])


def without_scopes(step, *refusal):
    """Answer like a server that refuses registrations with scopes."""
    if "scope" in step.document:
        return refused(*(refusal or ("invalid_client_metadata",)))
    return document(201, client_id="new")


@pytest.mark.parametrize("refusal", [(), ("insufficient_scope", 403)])  # Keycloak's
def test_a_registration_is_retried_without_scopes(refusal):
    def answered(step):
        return without_scopes(step, *refusal)

    identity, sent = outcome(OAuth(), metadata(), answered=answered, scopes=("a",))
    assert [step.document.get("scope") for step in sent] == ["a", None]
    assert (identity.client_id, identity.scopes) == ("new", ("a",))
    # The next login does not try again.
    assert outcome(OAuth(), metadata(), identity, scopes=("a",)) == (identity, [])


@pytest.mark.parametrize(
    ("status", "scopes", "times"), [(400, ("a",), 2), (400, (), 1), (403, ("a",), 1)]
)
def test_other_refusals_of_a_registration_raise(status, scopes, times):
    sent = []

    def refuse(step):
        sent.append(step)
        return refused("invalid_client_metadata", status)

    with pytest.raises(RegistrationError):
        outcome(OAuth(), metadata(), answered=refuse, scopes=scopes)
    assert len(sent) == times


NOT_ANEW = {
    "nothing registers there": (CLOSED, None),
    "nothing is sent there": ({"registration_endpoint": "http://as.example/r"}, None),
    "refused": ({}, without_scopes),
    "not now": ({}, Answer(429, {}, b"")),
}


@pytest.mark.parametrize(("members", "answered"), NOT_ANEW.values(), ids=NOT_ANEW)
def test_a_failed_registration_for_scopes_keeps_the_client(members, answered):
    stored = attrs.evolve(STORED, scopes=("a",))
    identity, sent = outcome(
        OAuth(), metadata(**members), stored, answered=answered, scopes=("b",)
    )
    assert identity == stored
    assert len(sent) == (answered is not None)


TYPES = {
    "http://127.0.0.1:1/cb": "native",
    "http://[::1]:1/cb": "native",
    "http://localhost/cb": "native",
    "https://localhost/cb": "native",
    "https://app.example/cb": "web",
}


@pytest.mark.system("U48")
@pytest.mark.rule("REG-08")
@pytest.mark.parametrize(("redirect_uri", "kind"), TYPES.items(), ids=TYPES)
def test_the_application_type_follows_the_redirect_uri(redirect_uri, kind):
    assert document_of(None, redirect_uri)["application_type"] == kind
    for given in ("native", "web"):
        config = OAuth(application_type=given)
        assert document_of(config, redirect_uri)["application_type"] == given


GRANTS = {
    "nothing said": (None, True),
    "listed": (("authorization_code", "refresh_token"), True),
    "not listed": (("authorization_code",), False),
}


@pytest.mark.rule("REG-13")
@pytest.mark.parametrize(("supported", "asks"), GRANTS.values(), ids=GRANTS)
def test_refresh_tokens_are_requested_when_supported(supported, asks):
    request = document_of(grant_types_supported=supported)
    assert ("refresh_token" in request["grant_types"]) is asks


BASIC, POST, JWT = "client_secret_basic", "client_secret_post", "private_key_jwt"
METHODS = [
    (None, BASIC, BASIC),
    ((BASIC, POST, "none"), "none", POST),
    ((BASIC, POST), POST, POST),
    ((BASIC,), BASIC, BASIC),
    ((POST,), POST, POST),
    (("none",), "none", "none"),
    ((JWT,), "none", BASIC),
    ((), "none", BASIC),
]


@pytest.mark.rule("REG-14")
@pytest.mark.parametrize(("supported", "native", "web"), METHODS, ids=str)
def test_the_requested_auth_method_is_supported(supported, native, web):
    members = {"token_endpoint_auth_methods_supported": supported}
    for redirect_uri, method in ((REDIRECT, native), ("https://app.example/cb", web)):
        request = document_of(None, redirect_uri, **members)
        assert request["token_endpoint_auth_method"] == method


def test_the_document_is_posted_to_the_registration_endpoint():
    config = OAuth(client_name="Mine")
    _, (sent,) = outcome(config, metadata())
    assert (sent.url, sent.form, sent.headers) == (REGISTER, None, ())
    assert sent.document == document_of(config)
    assert not sent.may_redirect


def test_an_http_registration_endpoint_is_refused():
    known = metadata(registration_endpoint="http://as.example/register")
    with pytest.raises(UrlRefused, match="the registration endpoint"):
        outcome(OAuth(), known)


def read(members, status=201, **request):
    request = {
        "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": BASIC,
        **request,
    }
    return read_registration(document(status, **members), ISSUER, NOW, request=request)


@pytest.mark.rule("REG-10")
@pytest.mark.parametrize("status", [200, 201])
def test_a_registered_client_has_its_issuer(status):
    members = {
        "client_id": "new",
        "client_secret": "a-secret",
        "client_secret_expires_at": 5_000,
        "token_endpoint_auth_method": POST,
        "anything": ["else"],
    }
    assert read(members, status) == Identity(
        "new",
        "a-secret",
        ISSUER,
        kind="registered",
        auth_method=POST,
        secret_expires_at=5_000.0,
        redirect_uri=REDIRECT,
        scopes=(),
    )


@pytest.mark.case("G08")
@pytest.mark.parametrize(
    ("value", "expires_at"),
    [
        (0, None),
        (1.5, 1.5),
        (-1, None),
        (None, None),
        (True, None),
        ("soon", None),
        (10**30, 1e30),
    ],
    ids=str,
)
def test_the_secret_expiry_must_be_a_positive_number(value, expires_at):
    members = {"client_id": "new", "client_secret_expires_at": value}
    assert read(members | {"client_secret": "s"}).secret_expires_at == expires_at
    assert read(members).secret_expires_at is None


SETTLED = [
    # response, with a secret or not, request -> result
    ("none", True, BASIC, "none"),
    (POST, True, BASIC, POST),
    (None, True, "none", "none"),
    (None, True, POST, POST),
    (None, False, BASIC, None),
    (None, False, "none", "none"),
    (POST, False, "none", "none"),
    (JWT, True, BASIC, BASIC),
    (["none"], True, BASIC, BASIC),
]


@pytest.mark.rule("REG-14")
@pytest.mark.parametrize(("answered", "has_secret", "asked", "settled"), SETTLED)
def test_the_auth_method_is_negotiated(answered, has_secret, asked, settled):
    members = {"client_id": "new", "client_secret": "s" if has_secret else " "}
    if answered is not None:
        members["token_endpoint_auth_method"] = answered
    identity = read(members, token_endpoint_auth_method=asked)
    assert identity.auth_method == settled
    assert identity.client_secret == ("s" if has_secret else None)


FAILURES = {
    "refused by code": (
        refused("invalid_redirect_uri"),
        "invalid_redirect_uri",
        "refused to register this client: invalid_redirect_uri; if",
    ),
    "refused without one": (
        Answer(403, {"content-type": "text/html; charset=utf-8"}, b"<html>"),
        None,
        "HTTP 403, 6 bytes, text/html",
    ),
    "an error that is a sentence": (refused("so sorry\x1b[2J"), None, "HTTP 400, "),
    "a list": (Answer(201, {}, b"[]"), None, "with no JSON object: HTTP 201, 2 bytes"),
    "a blank client": (document(201, client_id=" "), None, "without a client_id"),
    "no text": (document(201, client_id=7), None, "without a client_id"),
    "an error with 200": (
        refused("invalid_client_metadata", 200),
        "invalid_client_metadata",
        "without a client_id",
    ),
}


@pytest.mark.case("G08")
@pytest.mark.rule("REG-09")
@pytest.mark.parametrize(("answered", "code", "text"), FAILURES.values(), ids=FAILURES)
def test_a_failed_registration_has_code_status_and_reason(answered, code, text):
    with pytest.raises(RegistrationError) as refused:
        outcome(OAuth(), metadata(), answered=answered)
    assert (refused.value.error, refused.value.status) == (code, answered.status)
    is_described = b"because of reasons" in answered.body
    assert refused.value.description == ("because of reasons" if is_described else None)
    assert text in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.case("G08")
def test_a_503_of_the_registration_has_retry_after():
    answered = Answer(503, {"retry-after": "7"}, b"")
    with pytest.raises(AuthTemporarilyUnavailable) as unavailable:
        outcome(OAuth(), metadata(), answered=answered)
    assert (unavailable.value.status, unavailable.value.retry_after) == (503, 7.0)


@pytest.mark.rule("REG-03")
@pytest.mark.parametrize(
    "url",
    [DOCUMENT, "https://app.example/a/..b/c.", "https://APP.example:443/a//b%2Fc"],
)
def test_a_document_url_is_used_unchanged(url):
    assert check_document_url(url) == url


WRONG = {
    "http://app.example/client.json": "it must be https",
    "https://app.example": "it must have a path",
    "https://app.example/": "it must have a path",
    "https://app.example/a?secret": "it must not hold a query",
    "https://app.example/a#secret": "it must not hold a fragment",
    "https://app.example/a/../b": "its path must not hold dot segments",
    "https://app.example/a/.": "its path must not hold dot segments",
    "https://app.example/%2e%2E/b": "its path must not hold dot segments",
    "https://user:secret@app.example/a": "it must not hold a user name or password",
    "client.json": "it must be absolute, such as 'https://host/path'",
}


@pytest.mark.system("U56")
@pytest.mark.rule("REG-03")
@pytest.mark.parametrize(("url", "rule"), WRONG.items(), ids=WRONG)
def test_an_invalid_document_url_is_refused(url, rule):
    with pytest.raises(ValueError, match="cannot use") as refused:
        check_document_url(url)
    assert str(refused.value).endswith(rule)
    assert "secret" not in str(refused.value)
