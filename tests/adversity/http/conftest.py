"""What goes wrong over HTTP, tried on every shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent.parent / "over_http"))

import checked
from faulty import HANG_S

from mcpwire.sync._http import engine as blocking_engine
from mcpwire.sync._made import http_channel as blocking
from mcpwire.transports.http import _sockets, direct, httpx_engine
from mcpwire.transports.http.over_httpx import requests
from mcpwire.transports.http.streamable import channel

posted_messages_are_checked = checked.posted_messages_are_checked


@pytest.fixture
def patient_close(monkeypatch):
    """Let a close that waits for the peer wait for longer than any test takes.

    So it is seen that one does not, and a loaded machine has time to say goodbye.
    """
    for module in (channel, blocking, direct, httpx_engine):
        monkeypatch.setattr(module, "CLOSE_S", HANG_S)


@pytest.fixture
def kept_for_long(monkeypatch):
    """Have idle connections used again also where a loaded machine takes its time."""
    for module in (_sockets, requests, blocking_engine):
        monkeypatch.setattr(module, "IDLE_S", HANG_S)
