"""Timeouts of a few seconds become longer than a test, so that load cannot hit them."""

from __future__ import annotations

import pytest

from mcpwire.transports.http import direct, httpx_engine
from mcpwire.transports.http import streamable as channel

LONG_S = 60.0


@pytest.fixture
def kept_for_long(monkeypatch):
    """Keep idle connections reusable also on a loaded machine."""
    for module in (direct, httpx_engine):
        monkeypatch.setattr(module, "IDLE_TIMEOUT_S", LONG_S)


@pytest.fixture
def patient_close(monkeypatch):
    """Make a close that waits for the peer wait for longer than any test takes.

    So a test notices such a wait, and a loaded machine has time for the TLS close.
    """
    for module in (channel, direct, httpx_engine):
        monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", LONG_S)
