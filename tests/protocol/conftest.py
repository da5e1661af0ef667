"""Lets the tests of the protocol find the helper modules beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("wire_tables", "handshakes", "fed_replies", "steps")
