"""The error classes of authorization."""

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

EXAMPLES = {
    AuthRequired: {"url": URL, "scopes": ("a", "b")},
    InsufficientScope: {"required": ("b",), "url": URL, "scopes": ("a", "b")},
    ConsentDenied: {"error": "access_denied", "description": "they said no"},
    ResponseRefused: {"parameter": "state"},
    DiscoveryError: {"tried": (("https://as.example", "HTTP 404"),)},
    RegistrationError: {"error": "invalid_target", "description": "no", "status": 400},
    TokenError: {"error": "invalid_grant", "description": "over", "status": 400},
    UrlRefused: {"url": "https://as.example", "rule": "it must be https"},
    AuthTemporarilyUnavailable: {"retry_after": 7.0, "status": 503},
}


def members(error, names):
    return {name: getattr(error, name) for name in names}


@pytest.mark.system("U58")
def test_each_error_class_has_an_example():
    assert {kind.__name__ for kind in EXAMPLES} == set(errors.__all__)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_error_keeps_its_attributes_and_message(kind):
    error = kind("it went wrong", **EXAMPLES[kind])
    assert members(error, EXAMPLES[kind]) == EXAMPLES[kind]
    assert str(error) == "it went wrong"
    assert isinstance(error, AuthError)
    assert isinstance(error, MCPError)


@pytest.mark.system("U58")
@pytest.mark.attack("S23")
@pytest.mark.parametrize("kind", [AuthRequired, InsufficientScope])
def test_the_login_url_is_not_in_the_error_text(kind):
    error = kind("a login is needed", url=URL)
    assert "SENTINEL" not in f"{error} {error!r} {error.args}"


@pytest.mark.parametrize(
    "remake",
    [copy.copy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["for who waits beside", "between processes"],
)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_copied_or_pickled_error_is_unchanged(kind, remake):
    copied = remake(kind("it went wrong", **EXAMPLES[kind]))
    assert type(copied) is kind
    assert members(copied, EXAMPLES[kind]) == EXAMPLES[kind]
    assert str(copied) == "it went wrong"
