"""The reprs of records, steps and requests show no secret."""

import attrs
import pytest
from flow_driver import GOOD, World, stored, wanted_token

from mcpwire.auth import records, steps
from mcpwire.auth.config import OAuth
from mcpwire.auth.flow import TokenRequest
from mcpwire.auth.records import (
    Identity,
    Login,
    LoginStatus,
    PendingLogin,
    ResourceMetadata,
    ServerMetadata,
    Tokens,
)

ISSUER = "https://as.example"
URL = "https://as.example/?state=SENTINEL"
IDENTITY = Identity("me", "SENTINEL", ISSUER)
TOKENS = Tokens("SENTINEL", refresh_token="SENTINEL", scopes=("a",))
RECORD = stored(
    tokens=TOKENS, identity=IDENTITY, dpop_key={"d": "SENTINEL"}, registered=IDENTITY
)
PENDING = PendingLogin(RECORD, "SENTINEL", "SENTINEL", "http://localhost/", 1.0)
KNOWN = [
    ResourceMetadata("https://mcp.example/mcp", (ISSUER,)),
    ServerMetadata(ISSUER),
    IDENTITY,
    TOKENS,
    RECORD,
    PENDING,
    Login(URL, ("a",)),
    LoginStatus("https://mcp.example/mcp", "default", ISSUER, "me", None, 1.0, True),
]
CARRIED = [
    steps.Answer(400, {"x": "SENTINEL"}, b"SENTINEL"),
    steps.Fetch(
        "the token endpoint",
        URL,
        form=(("code", "SENTINEL"),),
        headers=(("authorization", "SENTINEL"),),
    ),
    steps.Fetch("it", URL, document={"a": "SENTINEL"}),
    steps.AuthorizeUser(URL, "SENTINEL", "http://a/", ("b",)),
    steps.Save(RECORD),
    steps.SavePending(PENDING),
    TokenRequest(wanted_token().server, refused_token="SENTINEL"),
]


def kind_of(value):
    return type(value).__name__


def test_each_record_class_has_an_example():
    classes = {name for name, value in vars(records).items() if attrs.has(value)}
    assert {kind_of(value) for value in KNOWN} == classes


@pytest.mark.rule("FLOW-25")
@pytest.mark.attack("S23")
@pytest.mark.parametrize("value", [*KNOWN, *CARRIED], ids=kind_of)
def test_no_repr_shows_a_secret(value):
    assert "SENTINEL" not in f"{value!r} {value} {[value]} {(value,)!r}"


@pytest.mark.attack("S23")
def test_the_repr_of_a_token_result_shows_no_token():
    secret = attrs.evolve(GOOD, access_token="SENTINEL", refresh_token="SENTINEL")
    obtained = World(stored(tokens=secret)).obtain(OAuth())
    assert "SENTINEL" not in repr(obtained)


def test_a_repr_distinguishes_a_secret_from_none():
    assert repr(TOKENS).startswith("Tokens(access_token='***', token_type='Bearer'")
    assert "refresh_token=None" in repr(Tokens("a"))
    assert "dpop_key=None" in repr(attrs.evolve(RECORD, dpop_key=None))


@pytest.mark.parametrize(
    ("sent", "is_post"), [({}, False), ({"form": ()}, True), ({"document": {}}, True)]
)
def test_a_fetch_with_form_or_document_is_a_post(sent, is_post):
    assert steps.Fetch("it", "https://a.example", **sent).is_post is is_post
