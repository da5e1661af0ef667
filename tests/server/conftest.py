"""Puts the helper modules of these tests on the path."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

sys.path[:0] = map(str, (HERE, HERE / "authoring", HERE / "tasks"))
pytest.register_assert_rewrite("raw_client", "single_request", "task_driver")


@pytest.fixture
def server():
    """Give a server that has nothing yet."""
    from mcpwire import Server

    return Server("s", "1")
