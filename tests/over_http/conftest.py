"""The servers in this folder are modules that tests anywhere may import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import checked
import little_client

from mcpwire.sync._http import engine as blocking
from mcpwire.transports.http import _sockets
from mcpwire.transports.http.over_httpx import requests

LONG_S = 60.0

posted_messages_are_checked = checked.posted_messages_are_checked


@pytest.fixture
def kept_for_long(monkeypatch):
    """Have idle connections used again also where a loaded machine takes its time."""
    for module in (_sockets, requests, blocking):
        monkeypatch.setattr(module, "IDLE_S", LONG_S)


@pytest.fixture
def client_of():
    clients = []

    def client(server):
        clients.append(little_client.Client(server))
        return clients[-1]

    yield client
    for each in clients:
        each.http.close()
