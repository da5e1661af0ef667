"""The helper modules of the gateway's tests over HTTP are found by their names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.register_assert_rewrite("world")
