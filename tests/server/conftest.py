"""A server for the tests of this folder."""

import pytest


@pytest.fixture
def server():
    """Give a server that has nothing yet."""
    from mcpwire import Server

    return Server("s", "1")
