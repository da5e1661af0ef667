"""What can go wrong, by what has to be done about it."""

import copy
import pickle

import pytest

from mcpwire.auth import errors
from mcpwire.auth.errors import (
    AuthRequired,
    AuthTemporarilyUnavailable,
    ConsentDenied,
    DiscoveryError,
    InsufficientScope,
    RegistrationError,
    ResponseRefused,
    TokenError,
    UrlRefused,
)
from mcpwire.errors import AuthError, MCPError

URL = "https://as.example/authorize?state=SENTINEL"

MADE = {
    AuthRequired: {"url": URL, "scopes": ("a", "b")},
    InsufficientScope: {"required": ("b",), "url": URL, "scopes": ("a", "b")},
    ConsentDenied: {"error": "access_denied", "description": "they said no"},
    ResponseRefused: {"parameter": "state"},
    DiscoveryError: {"tried": (("https://as.example", "HTTP 404"),)},
    RegistrationError: {"error": "invalid_client_metadata", "status": 400},
    TokenError: {"error": "invalid_grant", "description": "over", "status": 400},
    UrlRefused: {"url": "https://as.example", "rule": "it must be https"},
    AuthTemporarilyUnavailable: {"retry_after": 7.0, "status": 503},
}


def members(error, names):
    return {name: getattr(error, name) for name in names}


@pytest.mark.system("U58")
def test_every_class_is_here():
    assert {kind.__name__ for kind in MADE} == set(errors.__all__)


@pytest.mark.parametrize("kind", MADE)
def test_what_is_known_is_in_attributes_and_the_message_is_the_message(kind):
    error = kind("it went wrong", **MADE[kind])
    assert members(error, MADE[kind]) == MADE[kind]
    assert str(error) == "it went wrong"
    assert isinstance(error, AuthError)
    assert isinstance(error, MCPError)


@pytest.mark.system("U58")
@pytest.mark.attack("S23")
@pytest.mark.parametrize("kind", [AuthRequired, InsufficientScope])
def test_where_to_log_in_is_in_no_text(kind):
    error = kind("a login is needed", url=URL)
    assert "SENTINEL" not in f"{error} {error!r} {error.args}"


@pytest.mark.parametrize(
    "remake",
    [copy.copy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["for who waits beside", "between processes"],
)
@pytest.mark.parametrize("kind", MADE)
def test_an_error_that_travels_stays_the_same(kind, remake):
    copied = remake(kind("it went wrong", **MADE[kind]))
    assert type(copied) is kind
    assert members(copied, MADE[kind]) == MADE[kind]
    assert str(copied) == "it went wrong"
