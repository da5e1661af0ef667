"""The servers of `tests/over_http`, behind a simulated internet."""

import engine_calls
import fake_network
import pytest
import schema_checks
from authorization_server import protected_server

auth = engine_calls.auth
session = engine_calls.session
stateless = engine_calls.stateless
clock = engine_calls.clock
internet = fake_network.internet
no_proxies = fake_network.no_proxies
posted_messages_are_checked = schema_checks.posted_messages_are_checked


@pytest.fixture(params=["session", "stateless"])
def server(request, auth):
    """Yield an MCP server that requires its tokens, of either era."""
    with protected_server(auth, era=request.param) as made:
        yield made


@pytest.fixture
def hours(monkeypatch):
    """Return the clocks that measure calls and logins."""
    return engine_calls.Hours(monkeypatch)
