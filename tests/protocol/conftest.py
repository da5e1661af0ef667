"""Puts the helper modules of this folder on the import path of its tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite(
    "wire_tables", "handshakes", "reply_feeding", "scripted_steps"
)
