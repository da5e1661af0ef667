"""A place where connections are neither made nor refused."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def black_hole() -> Iterator[int]:
    """Give a port with a full queue of connections, so that more get no answer."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [socket.socket() for _ in range(8)]
    for sock in fillers:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
    yield listener.getsockname()[1]
    for sock in (listener, *fillers):
        sock.close()
