"""What is known and stored: it shows no secrets, and is what it was."""

import attrs
import pytest

from mcpwire.auth import records
from mcpwire.auth.records import (
    Identity,
    Login,
    LoginStatus,
    Pending,
    Record,
    ResourceMetadata,
    ServerMetadata,
    Tokens,
)

ISSUER = "https://as.example"
IDENTITY = Identity("me", "SENTINEL-1", ISSUER)
TOKENS = Tokens("SENTINEL-2", refresh_token="SENTINEL-3", scopes=("a",))
RECORD = Record(
    "https://mcp.example/mcp",
    ServerMetadata(ISSUER),
    IDENTITY,
    TOKENS,
    dpop_key={"d": "SENTINEL-4"},
    registered=IDENTITY,
)
PENDING = Pending(RECORD, "SENTINEL-5", "SENTINEL-6", "http://localhost/", 1.0)
STATUS = LoginStatus(
    "https://mcp.example/mcp", "default", ISSUER, "me", None, 1.0, True
)
ALL = [
    ResourceMetadata("https://mcp.example/mcp", (ISSUER,)),
    ServerMetadata(ISSUER),
    IDENTITY,
    TOKENS,
    RECORD,
    PENDING,
    Login("https://as.example/authorize?state=SENTINEL-7", ("a",)),
    STATUS,
]


def kind_of(value):
    return type(value).__name__


def test_every_class_is_here():
    classes = {name for name, value in vars(records).items() if attrs.has(value)}
    assert {kind_of(value) for value in ALL} == classes


@pytest.mark.rule("FLOW-25")
@pytest.mark.attack("S23")
@pytest.mark.parametrize("value", ALL, ids=kind_of)
def test_no_repr_shows_a_secret(value):
    assert "SENTINEL" not in f"{value!r} {value} {[value]} {(value,)!r}"


def test_a_repr_says_whether_there_is_a_secret():
    assert repr(TOKENS).startswith("Tokens(access_token='***', token_type='Bearer'")
    assert "refresh_token=None" in repr(Tokens("a"))
    assert "client_secret=None" in repr(Identity("me"))
    assert "client_secret='***'" in repr(IDENTITY)
    assert "dpop_key=None" in repr(attrs.evolve(RECORD, dpop_key=None))


@pytest.mark.parametrize("value", ALL, ids=kind_of)
def test_what_is_known_is_not_changed_in_place(value):
    name = attrs.fields(type(value))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, name, "other")
