"""The blocking client over HTTP; servers and helpers are those of other folders."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "over_http"))

import checked
import pytest

from mcpwire.sync._made import http_channel

posted_messages_are_checked = checked.posted_messages_are_checked


@pytest.fixture
def patient_close(monkeypatch):
    """Let a close that waits do so for longer than any test takes: it is seen then."""
    monkeypatch.setattr(http_channel, "CLOSE_S", 60.0)
