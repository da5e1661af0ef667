"""Puts the helper modules of these tests on the path."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("raw_client", "single_request")


@pytest.fixture
def server():
    """Give a server that has nothing yet."""
    from mcpwire import Server

    return Server("s", "1")
