"""What ends after a few seconds lasts for longer than a test: no load is too much."""

from __future__ import annotations

import pytest

from mcpwire.transports.http import direct, httpx_engine
from mcpwire.transports.http import streamable as channel

LONG_S = 60.0


@pytest.fixture
def kept_for_long(monkeypatch):
    """Have idle connections used again also where a loaded machine takes its time."""
    for module in (direct, httpx_engine):
        monkeypatch.setattr(module, "IDLE_TIMEOUT_S", LONG_S)


@pytest.fixture
def patient_close(monkeypatch):
    """Let a close that waits for the peer wait for longer than any test takes.

    So it is seen that one does not, and a loaded machine has time to say goodbye.
    """
    for module in (channel, direct, httpx_engine):
        monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", LONG_S)
