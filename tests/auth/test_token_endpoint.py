"""The token endpoint: forms, client authentication, what is asked how often."""

import base64
from urllib.parse import unquote, unquote_plus

import attrs
import pytest
from driving import NOW, World, document, refused, tokens
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey

from mcpwire.auth.config import ClientCredentials
from mcpwire.auth.errors import (
    RegistrationError,
    TokenError,
    UrlRefused,
)
from mcpwire.auth.jwt import generate_proof_key
from mcpwire.auth.records import Identity, Record, ServerMetadata, Tokens
from mcpwire.auth.steps import Answer, Fetch
from mcpwire.auth.tokens import (
    JWT_BEARER,
    authenticate,
    grant_form,
    request_tokens,
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
    """Ask for tokens; return them, and what was sent."""
    record = Record(RESOURCE, known or metadata(), identity, **members)
    answers = list(answers)
    world = World(None, {record.metadata.token_endpoint: answers})
    asking = request_tokens(record, list(form), POLICY, signer=signer)
    found = world.run(asking)
    assert not answers, "not all answers were asked for"
    return found, world.of(Fetch)


# --- client authentication -------------------------------------------------------

BASIC, POST, JWT = "client_secret_basic", "client_secret_post", "private_key_jwt"

METHODS = [
    # the client, the server's methods -> how
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
def test_a_client_authenticates_as_both_can(identity, methods, method):
    assert select_auth_method(identity, metadata(*methods)) == method


@pytest.mark.rule("REG-04", "CC-01")
@pytest.mark.parametrize("methods", [(), (JWT,), (BASIC,)])
@pytest.mark.parametrize("identity", [PUBLIC, SECRET])
def test_who_has_a_key_signs(identity, methods):
    assert select_auth_method(identity, metadata(*methods), can_sign=True) == JWT


def test_a_secret_that_no_method_takes_is_not_sent():
    with pytest.raises(TokenError, match="takes no client_secret"):
        select_auth_method(SECRET, metadata(JWT, "tls_client_auth"))


@pytest.mark.rule("REG-14", "CC-02", "CC-03")
def test_a_form_says_who_asks():
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
def test_what_basic_says_can_be_read_whatever_it_is(client_id, secret):
    identity = Identity(client_id, secret, ISSUER)
    _, ((name, value),) = authenticate(identity, metadata(), FORM)
    assert name == "authorization"
    decoded = base64.b64decode(value.removeprefix("Basic "), validate=True).decode()
    left, colon, right = decoded.partition(":")
    for decode in (unquote_plus, unquote):  # servers do the one or the other
        assert (decode(left), colon, decode(right)) == (client_id, ":", secret)


MISSING = [
    (attrs.evolve(PUBLIC, auth_method=JWT), "needs a key"),
    (attrs.evolve(PUBLIC, auth_method=BASIC), "needs a secret"),
    (attrs.evolve(PUBLIC, auth_method=POST), "needs a secret"),
]


@pytest.mark.parametrize(("identity", "text"), MISSING)
def test_a_client_without_what_it_registered_with_asks_nobody(identity, text):
    with pytest.raises(TokenError, match=text):
        authenticate(identity, metadata(), FORM)


# --- asking ----------------------------------------------------------------------


def test_tokens_are_asked_for_once_by_a_form():
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
def test_a_refusal_is_final(error, form):
    # A workload's assertion that is refused is neither sent again nor tried otherwise.
    refusal = with_nonce({"error": error}, "fresh")
    with pytest.raises(TokenError) as caught:
        request(form=form, answers=[refusal])
    assert caught.value.error == error


NOT_BASIC = refused("invalid_client", 401)
IN_FORM = (*FORM, ("client_id", "me"), ("client_secret", "a-secret"))


@pytest.mark.parametrize(
    "refusal",
    [NOT_BASIC, refused("invalid_client"), Answer(401, {}, b"no")],
)
def test_a_secret_goes_into_the_form_where_http_basic_is_refused(refusal):
    found, sent = request(SECRET, metadata(BASIC, POST), answers=[refusal, GRANTED])
    assert found.access_token == "tok"
    [by_basic, by_form] = sent
    assert (by_basic.form, [name for name, _ in by_basic.headers]) == (
        tuple(FORM),
        ["authorization"],
    )
    assert (by_form.form, by_form.headers) == (IN_FORM, ())


def test_a_proof_is_made_anew_for_it():
    known = metadata(BASIC, POST)
    _, sent = request(SECRET, known, answers=[NOT_BASIC, BOUND], dpop_key=DPOP_KEY)
    one, other = (proof_of(each)["jti"] for each in sent)
    assert one != other


FINAL = {
    "it does not list the form": (SECRET, (BASIC,), NOT_BASIC),
    "it lists nothing": (SECRET, (), NOT_BASIC),
    "it lists the form alone": (SECRET, (POST,), NOT_BASIC),
    "registered for Basic": (
        attrs.evolve(SECRET, auth_method=BASIC),
        (BASIC, POST),
        NOT_BASIC,
    ),
    "no secret": (PUBLIC, (BASIC, POST), NOT_BASIC),
    "for another reason": (SECRET, (BASIC, POST), refused("invalid_grant")),
    "the same, as 401": (SECRET, (BASIC, POST), refused("invalid_grant", 401)),
}


@pytest.mark.parametrize(("identity", "methods", "refusal"), FINAL.values(), ids=FINAL)
def test_otherwise_a_client_that_is_refused_is_not_sent_again(
    identity, methods, refusal
):
    with pytest.raises(TokenError):
        request(identity, metadata(*methods), answers=[refusal])


@pytest.mark.rule("FLOW-25")
@pytest.mark.case("G13")
def test_a_description_that_repeats_what_was_sent_is_masked():
    form = grant_form("refresh_token", refresh_token="refresh-1234", resource="r")
    told = "refresh-1234 of me with a-secret is used up"
    refusal = document(400, error="invalid_grant", error_description=told)
    with pytest.raises(TokenError) as caught:
        request(SECRET, form=form, answers=[refusal])
    assert caught.value.description == "*** of me with *** is used up"
    assert "refresh-1234" not in str(caught.value)


def test_secrets_go_nowhere_where_all_can_read_along():
    known = metadata(token_endpoint="http://as.example/token")
    with pytest.raises(UrlRefused, match="the token endpoint"):
        request(SECRET, known, answers=[])


@pytest.mark.attack("S01")
@pytest.mark.rule("REG-10", "AUTH-11")
@pytest.mark.parametrize(
    "issuer",
    ["https://evil.example", f"{ISSUER}/", "https://AS.example", "", None],
)
@pytest.mark.parametrize("kind", ["given", "registered"])
@pytest.mark.parametrize("signer", [None, SIGNER], ids=["secret", "key"])
def test_nothing_of_one_issuer_s_client_is_sent_to_another(issuer, kind, signer):
    identity = Identity("me", "a-secret", issuer, kind=kind)
    with pytest.raises(RegistrationError, match="nothing of it is sent") as caught:
        request(identity, answers=[], signer=signer)
    assert "a-secret" not in str(caught.value)


@pytest.mark.rule("REG-12")
def test_a_document_is_good_with_any_issuer():
    identity = Identity("https://app.example/c.json", kind="document")
    _, (sent,) = request(identity)
    assert sent.form == (*FORM, ("client_id", "https://app.example/c.json"))


# --- proofs of possession --------------------------------------------------------

DPOP_KEY = generate_proof_key()
WANTS_NONCE = {"error": "use_dpop_nonce"}


def with_nonce(members, nonce, status=400):
    """Return a refusal that says which nonce to use; None: it says none."""
    fields = {} if nonce is None else {"dpop-nonce": nonce}
    return attrs.evolve(document(status, **members), fields=fields)


def proof_of(sent):
    public = ECKey.import_key({k: DPOP_KEY[k] for k in ("kty", "crv", "x", "y")})
    registry_headers = dict(sent.headers)
    return jwt.decode(registry_headers["dpop"], public).claims


def test_a_token_is_bound_to_the_key_that_proves_itself():
    found, (sent,) = request(dpop_key=DPOP_KEY, answers=[BOUND])
    assert found.token_type == "DPoP"
    assert proof_of(sent) == {
        "htm": "POST",
        "htu": "https://as.example/token",
        "iat": NOW,
        "jti": "A" * 22,  # what is drawn first is all zeros
    }


def test_a_proof_stands_beside_the_client_s_secret():
    _, (sent,) = request(SECRET, dpop_key=DPOP_KEY, answers=[BOUND])
    assert [name for name, _ in sent.headers] == ["authorization", "dpop"]


@pytest.mark.parametrize("status", [400, 401])
def test_who_wants_a_nonce_gets_it_once(status):
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
def test_nothing_else_is_sent_twice(answers):
    with pytest.raises(TokenError):
        request(dpop_key=DPOP_KEY, answers=answers)


def test_a_key_that_is_none_is_refused_before_anything_is_sent():
    with pytest.raises(TokenError, match="the stored proof key"):
        request(dpop_key={"kty": "EC", "d": "secret"}, answers=[])
