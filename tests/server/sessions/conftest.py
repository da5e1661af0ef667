"""Lets the tests of sessions find the helper modules beside and above them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.register_assert_rewrite("http_hand")
