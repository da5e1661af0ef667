"""The token endpoint: forms, client authentication and retries; and revocation."""

import base64
from urllib.parse import unquote, unquote_plus

import attrs
import pytest
from flow_driver import (
    EVIL,
    GOOD,
    NOW,
    SERVER,
    World,
    document,
    refused,
    registered,
    stored,
    tokens,
)
from flow_driver import metadata as known_metadata
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey

from mcpwire.auth.config import ClientCredentials
from mcpwire.auth.errors import RegistrationError, TokenError, UrlRefused
from mcpwire.auth.jwt import generate_proof_key
from mcpwire.auth.records import Identity, Record, ServerMetadata, Tokens
from mcpwire.auth.steps import Answer, Fetch
from mcpwire.auth.tokens import (
    JWT_BEARER,
    authenticate,
    grant_form,
    request_tokens,
    revoke_tokens,
    select_auth_method,
)
from mcpwire.auth.url_policy import UrlPolicy
from mcpwire.wire.urls import parse_url

ISSUER = "https://as.example"
ENDPOINT = "https://as.example/token?tenant=1"
RESOURCE = "https://h.example/mcp"
POLICY = UrlPolicy(parse_url(RESOURCE))
PUBLIC = Identity("me", None, ISSUER)
SECRET = Identity("me", "a-secret", ISSUER)
FORM = [("grant_type", "of-the-test")]
KEY = ECKey.generate_key("P-256")
SIGNER = ClientCredentials(
    issuer=ISSUER, client_id="me", private_key_pem=KEY.as_pem(private=True).decode()
)


def metadata(*methods, **members):
    members.setdefault("token_endpoint", ENDPOINT)
    return ServerMetadata(
        ISSUER, token_endpoint_auth_methods_supported=methods or None, **members
    )


GRANTED = tokens("tok", None, expires_in=None)
BOUND = tokens("tok", None, expires_in=None, token_type="DPoP")


def request(
    identity=PUBLIC,
    known=None,
    *,
    form=FORM,
    answers=(GRANTED,),
    signer=None,
    **members,
):
    record = Record(RESOURCE, known or metadata(), identity, **members)
    answers = list(answers)
    world = World(None, {record.metadata.token_endpoint: answers})
    operation = request_tokens(record, list(form), POLICY, signer=signer)
    found = world.run(operation)
    assert not answers, "not all answers were asked for"
    return found.tokens, world.of(Fetch)


BASIC, POST, JWT = "client_secret_basic", "client_secret_post", "private_key_jwt"

METHODS = [
    # the client, the server's methods -> the chosen method
    (PUBLIC, (), "none"),
    (PUBLIC, ("none",), "none"),
    (PUBLIC, (BASIC,), "none"),
    (SECRET, (), BASIC),
    (SECRET, (POST, BASIC), BASIC),
    (SECRET, ("none", POST), POST),
    (SECRET, ("none",), "none"),
    (attrs.evolve(SECRET, auth_method=POST), (BASIC,), POST),
    (attrs.evolve(SECRET, auth_method="none"), (BASIC,), "none"),
]


@pytest.mark.system("U52")
@pytest.mark.rule("REG-14")
@pytest.mark.parametrize(("identity", "methods", "method"), METHODS, ids=str)
def test_the_auth_method_suits_client_and_server(identity, methods, method):
    assert select_auth_method(identity, metadata(*methods)) == method


@pytest.mark.rule("REG-04", "CC-01")
@pytest.mark.parametrize("methods", [(), (JWT,), (BASIC,)])
@pytest.mark.parametrize("identity", [PUBLIC, SECRET])
def test_a_client_with_a_key_uses_private_key_jwt(identity, methods):
    assert select_auth_method(identity, metadata(*methods), can_sign=True) == JWT


def test_a_secret_without_a_supported_method_is_refused():
    with pytest.raises(TokenError, match="takes no client_secret"):
        select_auth_method(SECRET, metadata(JWT, "tls_client_auth"))


@pytest.mark.rule("REG-14", "CC-02", "CC-03")
def test_authenticate_adds_the_client_to_the_request():
    assert authenticate(PUBLIC, metadata(), FORM) == ([*FORM, ("client_id", "me")], [])
    assert authenticate(SECRET, metadata(POST), FORM) == (
        [*FORM, ("client_id", "me"), ("client_secret", "a-secret")],
        [],
    )
    assert authenticate(SECRET, metadata(BASIC), FORM) == (
        FORM,
        [("authorization", "Basic bWU6YS1zZWNyZXQ=")],
    )
    assert authenticate(PUBLIC, metadata(), FORM, assertion="the-jwt") == (
        [
            *FORM,
            (
                "client_assertion_type",
                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            ),
            ("client_assertion", "the-jwt"),
        ],
        [],
    )


@given(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_any_client_id_and_secret_fit_http_basic(client_id, secret):
    identity = Identity(client_id, secret, ISSUER)
    _, ((name, value),) = authenticate(identity, metadata(), FORM)
    assert name == "authorization"
    decoded = base64.b64decode(value.removeprefix("Basic "), validate=True).decode()
    left, colon, right = decoded.partition(":")
    for decode in (unquote_plus, unquote):  # servers use the one or the other
        assert (decode(left), colon, decode(right)) == (client_id, ":", secret)


MISSING = [
    (attrs.evolve(PUBLIC, auth_method=JWT), "needs a key"),
    (attrs.evolve(PUBLIC, auth_method=BASIC), "needs a secret"),
    (attrs.evolve(PUBLIC, auth_method=POST), "needs a secret"),
]


@pytest.mark.parametrize(("identity", "text"), MISSING)
def test_a_client_without_its_registered_credential_is_refused(identity, text):
    with pytest.raises(TokenError, match=text):
        authenticate(identity, metadata(), FORM)


def test_a_token_request_is_one_form_post():
    found, (sent,) = request(asked_scopes=("a",))
    assert found == Tokens("tok", scopes=("a",))
    assert sent == Fetch(
        "the token endpoint", ENDPOINT, form=(*FORM, ("client_id", "me"))
    )
    assert not sent.may_redirect


@pytest.mark.fault("F38")
@pytest.mark.parametrize(
    "error", ["invalid_grant", "invalid_client", "invalid_request", "use_dpop_nonce"]
)
@pytest.mark.parametrize(
    "form", [FORM, grant_form(JWT_BEARER, assertion="j", resource="r")]
)
def test_a_refused_token_request_is_not_repeated(error, form):
    # A refused assertion of a workload is neither repeated nor sent in another way.
    refusal = with_nonce({"error": error}, "fresh")
    with pytest.raises(TokenError) as caught:
        request(form=form, answers=[refusal])
    assert caught.value.error == error


NOT_BASIC = refused("invalid_client", 401)
IN_FORM = (*FORM, ("client_id", "me"), ("client_secret", "a-secret"))


@pytest.mark.parametrize(
    "refusal", [NOT_BASIC, refused("invalid_client"), Answer(401, {}, b"no")]
)
def test_a_refused_basic_secret_is_sent_in_the_form(refusal):
    found, sent = request(SECRET, metadata(BASIC, POST), answers=[refusal, GRANTED])
    assert found.access_token == "tok"
    [by_basic, by_form] = sent
    assert (by_basic.form, [name for name, _ in by_basic.headers]) == (
        tuple(FORM),
        ["authorization"],
    )
    assert (by_form.form, by_form.headers) == (IN_FORM, ())


def test_the_retry_in_the_form_has_a_new_proof():
    known = metadata(BASIC, POST)
    _, sent = request(SECRET, known, answers=[NOT_BASIC, BOUND], dpop_key=DPOP_KEY)
    one, other = (proof_of(each)["jti"] for each in sent)
    assert one != other


FINAL = {
    "it does not list the form": (SECRET, (BASIC,), NOT_BASIC),
    "it lists nothing": (SECRET, (), NOT_BASIC),
    "it lists the form alone": (SECRET, (POST,), NOT_BASIC),
    "registered for Basic": (
        attrs.evolve(SECRET, kind="registered", auth_method=BASIC),
        (BASIC, POST),
        NOT_BASIC,
    ),
    "no secret": (PUBLIC, (BASIC, POST), NOT_BASIC),
    "for another reason": (SECRET, (BASIC, POST), refused("invalid_grant")),
    "the same, as 401": (SECRET, (BASIC, POST), refused("invalid_grant", 401)),
}


@pytest.mark.parametrize(("identity", "methods", "refusal"), FINAL.values(), ids=FINAL)
def test_other_refused_clients_are_not_retried(identity, methods, refusal):
    with pytest.raises(TokenError):
        request(identity, metadata(*methods), answers=[refusal])


@pytest.mark.rule("FLOW-25")
@pytest.mark.case("G13")
def test_sent_secrets_are_masked_in_the_error_description():
    form = grant_form("refresh_token", refresh_token="refresh-1234", resource="r")
    description = "refresh-1234 of me with a-secret is used up"
    refusal = document(400, error="invalid_grant", error_description=description)
    with pytest.raises(TokenError) as caught:
        request(SECRET, form=form, answers=[refusal])
    assert caught.value.description == "*** of me with *** is used up"
    assert "refresh-1234" not in str(caught.value)


def test_an_http_token_endpoint_is_refused():
    known = metadata(token_endpoint="http://as.example/token")
    with pytest.raises(UrlRefused, match="the token endpoint"):
        request(SECRET, known, answers=[])


@pytest.mark.attack("S01")
@pytest.mark.rule("REG-10", "AUTH-11")
@pytest.mark.parametrize(
    "issuer", ["https://evil.example", f"{ISSUER}/", "https://AS.example", "", None]
)
@pytest.mark.parametrize("kind", ["given", "registered"])
@pytest.mark.parametrize("signer", [None, SIGNER], ids=["secret", "key"])
def test_a_client_of_another_issuer_is_not_sent(issuer, kind, signer):
    identity = Identity("me", "a-secret", issuer, kind=kind)
    with pytest.raises(RegistrationError, match="credentials are not sent") as caught:
        request(identity, answers=[], signer=signer)
    assert "a-secret" not in str(caught.value)


@pytest.mark.rule("REG-12")
def test_a_metadata_document_client_works_with_any_issuer():
    identity = Identity("https://app.example/c.json", kind="document")
    _, (sent,) = request(identity)
    assert sent.form == (*FORM, ("client_id", "https://app.example/c.json"))


DPOP_KEY = generate_proof_key()
WANTS_NONCE = {"error": "use_dpop_nonce"}


def with_nonce(members, nonce, status=400):
    """Return a refusal that names the nonce to use; None: it names none."""
    fields = {} if nonce is None else {"dpop-nonce": nonce}
    return attrs.evolve(document(status, **members), fields=fields)


def proof_of(sent):
    public = ECKey.import_key({k: DPOP_KEY[k] for k in ("kty", "crv", "x", "y")})
    registry_headers = dict(sent.headers)
    return jwt.decode(registry_headers["dpop"], public).claims


def test_a_token_request_with_a_key_has_a_dpop_proof():
    found, (sent,) = request(dpop_key=DPOP_KEY, answers=[BOUND])
    assert found.token_type == "DPoP"
    assert proof_of(sent) == {
        "htm": "POST",
        "htu": "https://as.example/token",
        "iat": NOW,
        "jti": "A" * 22,  # the first random bytes are all zeros
    }


def test_a_proof_is_sent_together_with_http_basic():
    _, (sent,) = request(SECRET, dpop_key=DPOP_KEY, answers=[BOUND])
    assert [name for name, _ in sent.headers] == ["authorization", "dpop"]


@pytest.mark.parametrize("status", [400, 401])
def test_a_demanded_nonce_is_sent_once(status):
    refusal = with_nonce(WANTS_NONCE, "n-1", status)
    found, (first, second) = request(
        dpop_key=DPOP_KEY, answers=[refusal, BOUND], signer=SIGNER
    )
    assert found.access_token == "tok"
    assert "nonce" not in proof_of(first)
    assert proof_of(second)["nonce"] == "n-1"
    ids = {proof_of(sent)["jti"] for sent in (first, second)}
    ids |= {
        jwt.decode(dict(sent.form)["client_assertion"], KEY).claims["jti"]
        for sent in (first, second)
    }
    assert len(ids) == 4


AGAIN = {
    "another nonce each time": [
        with_nonce(WANTS_NONCE, "n-1"),
        with_nonce(WANTS_NONCE, "n-2"),
    ],
    "no nonce": [with_nonce(WANTS_NONCE, None)],
    "no possible nonce": [with_nonce(WANTS_NONCE, "a b")],
    "the wrong status": [with_nonce(WANTS_NONCE, "n-1", 404)],
    "the wrong error": [with_nonce({"error": "invalid_grant"}, "n-1")],
    "no object": [Answer(400, {"dpop-nonce": "n-1"}, b"[]")],
}


@pytest.mark.parametrize("answers", AGAIN.values(), ids=AGAIN)
def test_other_nonce_responses_are_not_retried(answers):
    with pytest.raises(TokenError):
        request(dpop_key=DPOP_KEY, answers=answers)


def test_an_invalid_proof_key_is_refused_before_sending():
    with pytest.raises(TokenError, match="the stored proof key"):
        request(dpop_key={"kty": "EC", "d": "secret"}, answers=[])


REVOKE = f"{ISSUER}/revoke"
LIVE = stored(tokens=GOOD)
SERVER_POLICY = UrlPolicy(SERVER)


def revoke(world, record=LIVE, policy=SERVER_POLICY):
    world.run(revoke_tokens(record, policy))


@pytest.mark.parametrize("status", [200, 401, 503])
def test_revocation_ignores_the_response_status(status):
    world = World(None, {REVOKE: Answer(status, {}, b"<p>")})
    revoke(world)
    assert len(world.posted) == 2


def test_revocation_falls_back_to_the_secret_in_the_form():
    known = known_metadata(
        token_endpoint_auth_methods_supported=(
            "client_secret_basic",
            "client_secret_post",
        )
    )
    identity = Identity("given", "s3cret", ISSUER)
    answers = [Answer(401, {}, b""), Answer(200, {}, b""), Answer(200, {}, b"")]
    world = World(None, {REVOKE: answers})
    revoke(world, stored(tokens=GOOD, metadata=known, identity=identity))
    assert [(form["token"], form.get("client_secret")) for _, form in world.posted] == [
        ("refresh-1", None),
        ("refresh-1", "s3cret"),
        ("access-1", "s3cret"),
    ]


@pytest.mark.parametrize(
    "record",
    [
        stored(tokens=None),
        attrs.evolve(LIVE, metadata=known_metadata(revocation_endpoint=None)),
    ],
)
def test_revocation_needs_tokens_and_an_endpoint(record):
    world = World()
    revoke(world, record)
    assert world.kinds == []


@pytest.mark.attack("S01")
@pytest.mark.parametrize("issuer", [EVIL, f"{ISSUER}/", None])
def test_revocation_with_another_issuer_is_refused(issuer):
    world = World()
    identity = registered(issuer=issuer, client_secret="SENTINEL")
    with pytest.raises(RegistrationError):
        revoke(world, stored(tokens=GOOD, identity=identity))
    assert world.kinds == []
