"""The leak check covers tests that can leak, and wraps async tests inside the loop.

`testing/test_leaks.py` tests what it detects.
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
def test_only_pure_folders_are_not_checked_for_leaks(path, acts):
    assert leaks.acts_on(TESTS / path, TESTS) is acts


async def test_async_tests_run_on_asyncio_inside_the_leak_check(request):
    assert asyncio.get_running_loop().is_running()
    assert request.node.obj.__wrapped__ is not None
