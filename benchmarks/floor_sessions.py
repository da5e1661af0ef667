"""Sessions of the client floors with servers under measurement."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import floor
import floor_http
from harness.servers import INITIALIZE, on_server_core, open_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


@asynccontextmanager
async def open_pipes(command: Sequence[str]) -> AsyncIterator[floor.Floor]:
    """Yield a floor client with an open session to a program over its pipes."""
    with on_server_core():
        client = floor.Floor(list(command))
    with closing(client):
        await client.call("initialize", INITIALIZE)
        os.write(client.stdin, INITIALIZED)
        yield client


def session_head(port: int) -> bytes:
    """Open a session; return the head of its requests up to the Content-Length."""
    name = "mcp-session-id: "
    session_id = open_session(port)
    lines = floor_http.head(port, modern=False).decode().split("\r\n")
    index = next(n for n, line in enumerate(lines) if line.startswith(name))
    lines[index : index + 1] = [] if session_id is None else [name + session_id]
    return "\r\n".join(lines).encode()
