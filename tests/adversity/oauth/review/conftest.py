"""Fixtures of the regression tests of a security review."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent.parent.parent

for folder in (TESTS / "over_http", TESTS / "oauth", TESTS / "adversity", HERE):
    sys.path.insert(0, str(folder))

import engine_calls  # noqa: E402 - found through the lines above
from authorization_server import authorization_server  # noqa: E402 - as above


@pytest.fixture
def auth():
    """Return an authorization server."""
    with authorization_server() as server:
        yield server


@pytest.fixture
def clock(monkeypatch):
    """Return the clock that token lifetimes are measured with."""
    return engine_calls.Clock(monkeypatch)
