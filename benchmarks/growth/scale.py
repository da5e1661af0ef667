"""Variants with 1,000 servers in one group, or 1,000 sessions at one gateway.

They start with one and open more on request, as in `sessions`.
"""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import bench_gateway
from leg import ARGUMENTS
from null import build

from growth.sessions import Sessions, http_program, open_first, raise_file_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from floor import Call


class GroupSessions(Sessions):
    """Servers of one group, connected concurrently."""

    def __init__(self, group: Any, server: str) -> None:
        super().__init__(self._open_one)
        self.group = group
        self.server = server

    async def _open_one(self) -> Call:
        raise NotImplementedError("a group connects many at once")

    async def grow(self, servers: int) -> dict[str, float]:
        """Connect servers until the group has `servers`."""
        import mcpwire

        raise_file_limit(servers)
        target = mcpwire.Stdio(self.server, ["--legacy"])
        names = [f"server{number}" for number in range(len(self.calls), servers)]
        await self.group.connect_all(dict.fromkeys(names, target))
        self.calls += [self._call_of(name) for name in names]
        return {}

    def _call_of(self, name: str) -> Call:
        async def call() -> Any:
            return await self.group.call_tool(name, "echo", ARGUMENTS)

        return call


@asynccontextmanager
async def group(server: str) -> AsyncIterator[Sessions]:
    import mcpwire

    async with mcpwire.Group(concurrency=32) as group:
        yield await open_first(GroupSessions(group, server))


@asynccontextmanager
async def gateway(share: str) -> AsyncIterator[Sessions]:
    """Yield sessions of a gateway over HTTP, with a child each or one for all."""
    upstream = str(build.build("stdio_null"))
    os.environ.update(SHARE=share, UPSTREAM=json.dumps([upstream, ["--legacy"]]))
    async with http_program(bench_gateway.PROGRAMS[bench_gateway.OURS]) as sessions:
        yield sessions
