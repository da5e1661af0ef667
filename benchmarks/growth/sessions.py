"""Variants that start with one session and open more on request.

Calls go to a selected number of sessions in turn. Opened sessions stay open until the
variant ends.
"""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_server
import floor
import floor_http
from floor import Call
from floor_sessions import open_pipes, session_head
from harness.servers import cpu_ns, run_server
from leg import ARGUMENTS
from null.server import run_null_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from harness.servers import Program
    from null.server import NullServer

    Open = Callable[[], Awaitable[Call]]

MAX_OPENING = 20
"""Sessions opened concurrently: the null server has a short accept queue."""

SESSIONS_PER_NULL = 25

PARAMS = {"name": "echo", "arguments": ARGUMENTS}
FILES_PER_SESSION = 6
KIB = 1024


class Sessions:
    """The open sessions; each call of this object goes to the next one in turn."""

    def __init__(self, open_one: Open) -> None:
        self.open_one = open_one
        self.calls: list[Call] = []
        self.next_index = 0
        self.turns = 1
        self.pid = os.getpid()

    async def __call__(self) -> Any:
        self.next_index = (self.next_index or self.turns) - 1
        return await self.calls[self.next_index]()

    async def grow(self, sessions: int) -> dict[str, float]:
        """Open sessions until there are `sessions`."""
        raise_file_limit(sessions)
        while missing := sessions - len(self.calls):
            count = min(MAX_OPENING, missing)
            self.calls += await asyncio.gather(*(self.open_one() for _ in range(count)))
        return {}

    async def take_turns(self, sessions: int) -> dict[str, float]:
        """Select the number of sessions that are called in turn."""
        self.next_index, self.turns = 0, sessions
        return {}

    async def memory(self, _: int) -> dict[str, float]:
        """Return the resident memory of the measured process."""
        return {"rss_kib": rss_kib(self.pid)}

    async def files(self, _: int) -> dict[str, float]:
        """Return the number of open files of the measured process."""
        return {"files": open_files(self.pid)}


class ServerSessions(Sessions):
    """Sessions with the measured process as their server."""

    def __init__(self, open_one: Open, pid: int) -> None:
        super().__init__(open_one)
        self.pid = pid

    def cpu_ns(self) -> int:
        return cpu_ns(self.pid)


def rss_kib(pid: int) -> float:
    """Return the resident memory of a process in KiB, on Linux."""
    text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * resource.getpagesize() / KIB


def open_files(pid: int) -> int:
    """Return the number of open files of a process, on Linux."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def raise_file_limit(sessions: int) -> None:
    """Raise the limit of open files to the need of `sessions`, for children, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_PER_SESSION * sessions + 256
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


async def open_first(sessions: Sessions) -> Sessions:
    """Open the first session, call once, and return the sessions."""
    await sessions.grow(1)
    await sessions()
    return sessions


# Clients of null servers...


@asynccontextmanager
async def clients(server: Any) -> AsyncIterator[Sessions]:
    """Yield sessions of mcpwire's clients; `server` returns the target of each."""
    import mcpwire

    async with AsyncExitStack() as stack:

        async def open_one() -> Call:
            client = mcpwire.Client(server())
            await stack.enter_async_context(client)

            async def call() -> Any:
                return await client.call_tool("echo", ARGUMENTS)

            return call

        yield await open_first(Sessions(open_one))


@asynccontextmanager
async def stdio_client(server: str) -> AsyncIterator[Sessions]:
    import mcpwire

    async with clients(lambda: mcpwire.Stdio(server, ["--legacy"])) as sessions:
        yield sessions


class NullServers:
    """HTTP null servers with at most `SESSIONS_PER_NULL` sessions each.

    A null server polls all its connections, so 1,000 would cost more than a call.
    """

    def __init__(self, stack: ExitStack, server: str) -> None:
        self.stack = stack
        self.server = server
        self.sessions = 0

    def next(self) -> NullServer:
        """Return the null server for the next session."""
        if self.sessions % SESSIONS_PER_NULL == 0:
            null_server = run_null_server(self.server, "--legacy", "--json")
            self.last = self.stack.enter_context(null_server)
        self.sessions += 1
        return self.last


@asynccontextmanager
async def http_client(server: str) -> AsyncIterator[Sessions]:
    import mcpwire

    with ExitStack() as stack:
        servers = NullServers(stack, server)
        async with clients(lambda: mcpwire.Http(servers.next().url)) as sessions:
            yield sessions


def floor_call(client: Any, params: dict[str, Any]) -> Call:
    """Return a function that makes one call by a floor."""

    async def call() -> Any:
        return await client.call("tools/call", params)

    return call


@asynccontextmanager
async def stdio_floor(server: str) -> AsyncIterator[Sessions]:
    async with AsyncExitStack() as stack:

        async def open_one() -> Call:
            client = stack.enter_context(closing(floor.Floor([server, "--legacy"])))
            return floor_call(client, PARAMS)

        yield await open_first(Sessions(open_one))


@asynccontextmanager
async def http_floor(server: str) -> AsyncIterator[Sessions]:
    with ExitStack() as outer:
        servers = NullServers(outer, server)
        async with AsyncExitStack() as stack:

            async def open_one() -> Call:
                client = floor_http.Floor(servers.next().port, modern=False)
                stack.enter_context(closing(client))
                call = floor_call(client, PARAMS)
                await call()
                return call

            yield await open_first(Sessions(open_one))
        await asyncio.sleep(0)  # asyncio closes the aborted sockets


# Servers under the load of the client floors...


@asynccontextmanager
async def stdio_server(name: str) -> AsyncIterator[Sessions]:
    """Yield the only session of a stdio server."""
    async with open_pipes(bench_server.PROGRAMS[name].command) as client:

        async def open_one() -> Call:
            return floor_call(client, PARAMS)

        yield await open_first(ServerSessions(open_one, client.process.pid))


def http_server(name: str) -> Any:
    return http_program(bench_server.PROGRAMS[name])


@asynccontextmanager
async def http_program(program: Program) -> AsyncIterator[Sessions]:
    """Yield sessions of an HTTP server."""
    raise_file_limit(1_000)  # the server inherits the limit
    with run_server(program) as (port, pid):
        async with AsyncExitStack() as stack:

            async def open_one() -> Call:
                client = floor_http.Floor(port, modern=False)
                stack.enter_context(closing(client))
                client.head = session_head(port)
                call = floor_call(client, PARAMS)
                await call()
                return call

            yield await open_first(ServerSessions(open_one, pid))
        await asyncio.sleep(0)  # asyncio closes the aborted sockets
