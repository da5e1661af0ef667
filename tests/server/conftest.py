"""Lets the tests of the server find the helper module beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("by_hand", "single")


@pytest.fixture
def server():
    """Give a server that has nothing yet."""
    from mcpwire import Server

    return Server("s", "1")
