"""Test folders are no packages: what the tests of this one share is found by name."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mcpwire.sync import _pipes


@pytest.fixture
def last_words_are_awaited(monkeypatch):
    """Let an ending server have its say, however long a loaded machine takes for it."""
    monkeypatch.setattr(_pipes, "LAST_WORDS_S", 30.0)
