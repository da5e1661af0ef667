"""Both shells, and an authorization server, for defects that a review looked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent.parent.parent

for folder in (TESTS / "over_http", TESTS / "oauth", TESTS / "adversity", HERE):
    sys.path.insert(0, str(folder))

import engine_calls  # noqa: E402 - found through the lines above
import shells  # noqa: E402 - as above
from authorization_server import authorization_server  # noqa: E402 - as above


@pytest.fixture(params=shells.SHELLS)
def shell(request):
    """Give what makes clients: `shell(target, **options)` has async methods."""
    made = shells.SHELLS[request.param]()
    yield made
    made.close()


@pytest.fixture
def auth():
    """Give an authorization server."""
    with authorization_server() as server:
        yield server


@pytest.fixture
def clock(monkeypatch):
    """Give the clocks that tokens are measured by."""
    return engine_calls.Clock(monkeypatch)
