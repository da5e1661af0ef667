"""A server for the tests of this folder."""

import pytest


@pytest.fixture
def server():
    from mcpwire import Server

    return Server("s", "1")
