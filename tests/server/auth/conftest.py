"""Puts the helpers of these tests, and those of the client's tests, on the path."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent.parent

sys.path.insert(0, str(HERE))
sys.path.insert(0, str(TESTS / "oauth"))
sys.path.insert(0, str(TESTS / "over_http"))
sys.path.insert(0, str(TESTS / "adversity"))

from authorization_server import authorization_server  # noqa: E402 - found through the lines above


@pytest.fixture
def auth():
    """Give an authorization server."""
    with authorization_server(dpop=True) as server:
        yield server
