"""Token responses: tokens, tolerated deviations and errors."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.errors import AuthTemporarilyUnavailable, TokenError
from mcpwire.auth.records import Identity, Record, ServerMetadata, Tokens
from mcpwire.auth.steps import Answer
from mcpwire.auth.tokens import ID_JAG, read_exchange, read_tokens

NOW = 1_000.0
WHOLE = {
    "access_token": "tok-1",
    "token_type": "Bearer",
    "expires_in": 3_600,
    "refresh_token": "ref-1",
    "scope": "a b",
    "anything": {"else": True},
}
PREVIOUS = Tokens("tok-0", refresh_token="ref-0", scopes=("a", "z"))


def answer(document, status=200, **fields):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Answer(status, fields, body)


RECORD = Record("https://h/mcp", ServerMetadata("https://as"), Identity("me"))


def read(changes=(), **members):
    document = {**WHOLE, **dict(changes)}
    document = {name: value for name, value in document.items() if value is not ...}
    return read_tokens(answer(document), attrs.evolve(RECORD, **members), now=NOW)


def test_a_complete_token_response_is_read():
    assert read() == Tokens("tok-1", "Bearer", 4_600.0, "ref-1", ("a", "b"))


EXPIRIES = [
    (3_600, 4_600.0),
    ("3600", 4_600.0),
    ("60.5", 1_060.5),
    (1e300, NOW + 315_360_000.0),
    ("999999999999999", NOW + 315_360_000.0),
    (0, None),
    ("-1", None),
    ("1e3", None),
    ("soon", None),
    (True, None),
    (None, None),
    (..., None),
]


@pytest.mark.fault("F38")
@pytest.mark.parametrize(("value", "expires_at"), EXPIRIES, ids=repr)
def test_expires_in_must_be_a_positive_number(value, expires_at):
    assert read({"expires_in": value}).expires_at == expires_at


SCOPES = [
    ("a b", ("a", "b")),
    ("b a b", ("b", "a")),
    (["a", "b c", 7], ("a", "b", "c")),
    ("a,b", ("a", "b")),
    ("", None),
    (None, None),
    (7, None),
    (..., None),
]


@pytest.mark.case("G03")
@pytest.mark.pain("P32")
@pytest.mark.parametrize(("value", "granted"), SCOPES, ids=repr)
def test_missing_scopes_come_from_old_tokens_or_the_request(value, granted):
    change = {"scope": value}
    assert read(change).scopes == granted
    assert read(change, asked_scopes=("x",)).scopes == (granted or ("x",))
    both = read(change, asked_scopes=("x",), tokens=PREVIOUS)
    assert both.scopes == (granted or ("a", "z"))
    with_comma = read({"scope": "a,b c"}, asked_scopes=("a,b",))
    assert with_comma.scopes == ("a,b", "c")


@pytest.mark.fault("F38")
@pytest.mark.pain("P32")
@pytest.mark.rule("FLOW-25")
@pytest.mark.parametrize("value", [..., None, "", " ", 7, ["ref-1"]], ids=repr)
def test_a_missing_refresh_token_keeps_the_old_one(value):
    change = {"refresh_token": value}
    assert read(change, tokens=PREVIOUS).refresh_token == "ref-0"
    assert read(change).refresh_token is None


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
def test_the_token_type_is_case_insensitive(kind):
    assert read({"token_type": kind}).token_type == "Bearer"
    bound = kind.lower().replace("bearer", "dPoP")
    assert read({"token_type": bound}, dpop_key={}).token_type == "DPoP"


@pytest.mark.parametrize(("kind", "is_bound"), [("Bearer", True), ("DPoP", False)])
def test_the_token_type_must_match_the_dpop_request(kind, is_bound):
    with pytest.raises(TokenError, match="a proof of possession"):
        read({"token_type": kind}, dpop_key={} if is_bound else None)


NOT_USABLE = {
    "no type": ({"token_type": ...}, "a token without token_type"),
    "an unknown type": ({"token_type": "mac"}, "a token of an unknown type, 'mac'"),
    "no word": ({"token_type": "Bearer\r\nx"}, "a token of an unknown type, None"),
    "an exchange": ({"token_type": "N_A"}, "a token of an unknown type, 'N_A'"),
    "no token": ({"access_token": ...}, "without an access_token"),
    "a blank token": ({"access_token": ""}, "with no access_token"),
    "a line break": ({"access_token": "tok-1\r\nx: y"}, "with no access_token"),
    "a line break behind": ({"access_token": "tok-1\n"}, "with no access_token"),
    "a token outside ASCII": ({"access_token": "t\xf6k"}, "with no access_token"),
}


@pytest.mark.attack("S19")
@pytest.mark.case("G09")
@pytest.mark.fault("F38")
@pytest.mark.parametrize(("changes", "text"), NOT_USABLE.values(), ids=NOT_USABLE)
def test_an_unknown_type_or_unsendable_token_is_refused(changes, text):
    with pytest.raises(TokenError) as refused:
        read(changes)
    assert text in str(refused.value)
    assert refused.value.status == 200
    for secret in ("tok-", "t\xf6k"):
        assert secret not in str(refused.value)


HTML = b"<html>tok-1 ref-1</html>"

NO_OBJECT = "answered with no JSON object: HTTP 200, {} bytes"

ERRORS = {
    "invalid_grant": (
        answer({"error": "invalid_grant", "error_description": "used\nup"}, 400),
        ("invalid_grant", "used?up", 400),
        "refused: invalid_grant",
    ),
    "an error beside a token": (
        answer({**WHOLE, "error": "invalid_scope"}),
        ("invalid_scope", None, 200),
        "refused: invalid_scope",
    ),
    "an error that is a sentence": (
        answer({"error": "tok-1 is bad\x1b[2J"}, 400),
        (None, None, 400),
        "refused: HTTP 400, {} bytes, no content type",
    ),
    "a token with 400": (
        answer(WHOLE, 400),
        (None, None, 400),
        "refused: HTTP 400, {} bytes, no content type",
    ),
    "no JSON with 400": (
        answer(HTML, 400, **{"content-type": "text/html"}),
        (None, None, 400),
        "refused: HTTP 400, {} bytes, text/html",
    ),
    "a redirect": (
        answer(b"", 307, location="https://evil.example/token"),
        (None, None, 307),
        "refused: HTTP 307, {} bytes, no content type",
    ),
    "HTML with 200": (
        answer(HTML, **{"content-type": "text/html; charset=utf-8"}),
        (None, None, 200),
        f"{NO_OBJECT}, text/html",
    ),
    "a form": (
        answer(b"access_token=tok-1&token_type=bearer"),
        (None, None, 200),
        f"{NO_OBJECT}, no content type",
    ),
    "a list": (answer([WHOLE]), (None, None, 200), f"{NO_OBJECT}, no content type"),
}


@pytest.mark.case("G09")
@pytest.mark.fault("F38")
@pytest.mark.rule("FLOW-31")
@pytest.mark.parametrize(("given", "attributes", "text"), ERRORS.values(), ids=ERRORS)
def test_an_error_response_is_typed_and_shows_no_token(given, attributes, text):
    with pytest.raises(TokenError) as refused:
        read_tokens(given, RECORD, now=NOW)
    error = refused.value
    assert (error.error, error.description, error.status) == attributes
    assert str(error) == f"the token endpoint {text.format(len(given.body))}"


LATER = {
    "a broken server that says why": answer({"error": "invalid_grant"}, 500),
    "too many": answer({"error": "slow_down"}, 429),
    "the server says so": answer({"error": "temporarily_unavailable"}, 400),
}


@pytest.mark.case("G09")
@pytest.mark.fault("F38")
@pytest.mark.pain("P32")
@pytest.mark.parametrize("given", LATER.values(), ids=LATER)
def test_an_unavailable_server_raises_a_temporary_error(given):
    with pytest.raises(AuthTemporarilyUnavailable) as unavailable:
        read_tokens(given, RECORD, now=NOW)
    assert unavailable.value.status == given.status


_LEAVES = st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats() | st.text()
_JSON = _LEAVES | st.lists(_LEAVES) | st.dictionaries(st.text(), _LEAVES)


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys([*WHOLE, "error"], _JSON)) | _JSON
)
def test_any_response_gives_tokens_or_a_typed_error(document):
    body = json.dumps(document).encode()
    try:
        tokens = read_tokens(Answer(200, {}, body), RECORD, now=NOW)
    except (TokenError, AuthTemporarilyUnavailable):
        return
    assert tokens.access_token.isprintable()
    assert tokens.expires_at is None or NOW < tokens.expires_at < NOW + 4e8


EXCHANGED = {
    "access_token": "the-id-jag",
    "issued_token_type": ID_JAG,
    "token_type": "N_A",
}


@pytest.mark.rule("EMA-01")
@pytest.mark.parametrize("kind", ["N_A", "Bearer", None])
def test_a_token_exchange_returns_the_assertion(kind):
    given_ = answer({**EXCHANGED, "token_type": kind})
    assert read_exchange(given_, now=NOW) == "the-id-jag"


@pytest.mark.rule("EMA-01")
@pytest.mark.parametrize(
    "issued",
    [None, "urn:ietf:params:oauth:token-type:access_token", 7, "the-id-jag is it"],
)
def test_a_token_exchange_of_another_type_is_refused(issued):
    with pytest.raises(TokenError, match="instead of") as refused:
        read_exchange(answer({**EXCHANGED, "issued_token_type": issued}), now=NOW)
    assert "the-id-jag" not in str(refused.value)
