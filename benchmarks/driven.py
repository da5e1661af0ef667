"""Servers and gateways that are called by the floors of the clients."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import floor
import floor_http
from harness.servers import INITIALIZE, cpu_ns, on_the_servers_core, open_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class Driven:
    """Performs calls for a floor, and knows what they cost the server."""

    def __init__(self, one: Any, pid: int, *, modern: bool) -> None:
        self.floor = one
        self.pid = pid
        self.params = floor_http.params(modern=modern)

    async def __call__(self) -> Any:
        return await self.floor.call("tools/call", self.params)

    def cpu_ns(self) -> int:
        return cpu_ns(self.pid)

    async def begin(self, text: str, calls: int = 0) -> None:
        """See that a call does its work, and let the server get warm by more."""
        result = await self()
        assert result["content"][0]["text"] == text, result
        assert not result.get("isError"), result
        for _ in range(calls):
            await self()


@asynccontextmanager
async def pipes(command: Sequence[str], *, modern: bool) -> AsyncIterator[Driven]:
    """Call the tool of a program over its pipes, in a session or without."""
    with on_the_servers_core():
        one = floor.Floor(list(command))
    with closing(one):
        if not modern:
            await one.call("initialize", INITIALIZE)
            os.write(one.stdin, INITIALIZED)
        yield Driven(one, one.process.pid, modern=modern)


@asynccontextmanager
async def port_of(port: int, pid: int, head: bytes | None) -> AsyncIterator[Driven]:
    """Call the tool of what listens there; with the head of a session, in that one."""
    one = floor_http.Floor(port, modern=head is None)
    if head is not None:
        one.head = head
    yield Driven(one, pid, modern=head is None)
    one.close()
    await asyncio.sleep(0)  # where asyncio closes what was aborted


def session_head(port: int) -> bytes:
    """Return what requests of a new session begin with."""
    field = "mcp-session-id: "
    session_id = open_session(port)
    lines = floor_http.head(port, modern=False).decode().split("\r\n")
    at = next(n for n, line in enumerate(lines) if line.startswith(field))
    lines[at : at + 1] = [] if session_id is None else [field + session_id]
    return "\r\n".join(lines).encode()
