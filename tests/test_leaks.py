"""The leak check acts where something can leak, and on async tests from the inside.

What it sees is tested in `testing/test_leaks.py`.
"""

import asyncio
from pathlib import Path

import leaks
import pytest

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("path", "acts"),
    [
        ("wire/test_jsonrpc_lines.py", False),
        ("types/test_content.py", False),
        ("protocol/test_peer.py", False),
        ("transports/test_stdio.py", True),
        ("some_new_folder/test_x.py", True),
        ("test_errors.py", True),
    ],
)
def test_only_the_pure_folders_are_left_out(path, acts):
    assert leaks.acts_on(TESTS / path, TESTS) is acts


async def test_async_tests_run_on_asyncio_with_the_watch_around_them(request):
    assert asyncio.get_running_loop().is_running()
    assert request.node.obj.__wrapped__ is not None
