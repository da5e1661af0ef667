"""Lets these tests find the helper modules beside them and those of the server."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SERVER = HERE.parents[1] / "server"

sys.path[:0] = [str(HERE), str(SERVER), str(SERVER / "http")]
pytest.register_assert_rewrite(
    "by_hand", "asgi_driver", "hosted", "victim", "wired", "wires"
)
