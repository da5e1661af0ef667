"""The helpers in this folder, and in `bridge`, are modules that its tests import."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "bridge")]
pytest.register_assert_rewrite("gateway_servers", "world")
