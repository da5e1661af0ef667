"""Puts the helper modules of this folder and of the server on the import path."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SERVER = HERE.parents[1] / "server"

sys.path[:0] = [str(HERE), str(SERVER), str(SERVER / "http")]
pytest.register_assert_rewrite(
    "raw_client", "asgi_driver", "hosted", "attacked_server", "raw_sockets", "wires"
)
