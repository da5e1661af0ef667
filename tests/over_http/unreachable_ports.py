"""A port at which connections are neither accepted nor refused."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def black_hole() -> Iterator[int]:
    """Yield a port with a full accept queue, so that further connects hang."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [socket.socket() for _ in range(8)]
    for sock in fillers:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
    yield listener.getsockname()[1]
    for sock in (listener, *fillers):
        sock.close()
