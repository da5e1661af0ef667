"""The servers in this folder are modules that tests anywhere may import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import checked
import lasting
import little_client

posted_messages_are_checked = checked.posted_messages_are_checked
kept_for_long = lasting.kept_for_long


@pytest.fixture
def client_of():
    clients = []

    def client(server):
        clients.append(little_client.Client(server))
        return clients[-1]

    yield client
    for each in clients:
        each.http.close()
