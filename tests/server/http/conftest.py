"""Lets the tests of the HTTP server find the helper modules beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.register_assert_rewrite(
    "asgi_driver", "hosted", "raw_http_client", "raw_sockets"
)
