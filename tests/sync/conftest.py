"""Test folders are no packages: what the tests of this one share is found by name."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "over_http")]

import checked  # noqa: E402 - found through the line above
import echoing  # noqa: E402 - as above

posted_messages_are_checked = checked.posted_messages_are_checked


@pytest.fixture(params=echoing.TRANSPORTS)
def echo(request, tmp_path):
    """Give a server of the same tools over each transport."""
    with echoing.serving(request.param, tmp_path / "seen") as server:
        yield server


@pytest.fixture
def threads():
    """Give threads to call from."""
    with ThreadPoolExecutor(12) as pool:
        yield pool
