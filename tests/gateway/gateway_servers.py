"""Small servers to put behind a gateway, and clients before it."""

import asyncio
from contextlib import asynccontextmanager

from fakes import FakeServer

import mcpwire
from mcpwire.gateway import Gateway

TIMEOUT_S = 30.0

ERAS = ["2026-07-28", "2025-11-25"]

TOOL = {"inputSchema": {"type": "object"}}


def named(name, *tools):
    """Return a server with some tools, whose results name server and tool."""
    server = mcpwire.Server(name)
    for tool in tools:
        _add(server, name, tool)
    return server


def _add(server, name, tool):
    async def say(text: str = "") -> str:
        return f"{name}.{tool}({text})"

    server.add_tool(say, name=tool)


def fake(*tools, methods=None, **options):
    """Return a fake server that lists some tools and returns the params of calls."""
    listing = {"tools": [{**TOOL, "name": name} for name in tools]}
    answers = {
        "tools/list": lambda params, server: listing,
        "tools/call": lambda params, server: {
            "content": [],
            "structuredContent": params,
        },
        **(methods or {}),
    }
    options.setdefault("capabilities", {"tools": {}})
    return FakeServer(answers, **options)


class Counted:
    """A server that counts attempts to connect and the open connections.

    It refuses connections while `is_there` is false.
    """

    def __init__(self, server, *, is_there=True):
        self.server = server
        self.is_there = is_there
        self.opened = 0
        self.open = 0

    def open_in_memory(self, client, limits):
        self.opened += 1
        if not self.is_there:
            raise mcpwire.ConnectError("not there yet", target="late")
        self.open += 1
        near = self.server.open_in_memory(client, limits)
        after = near.after_close

        async def closed():
            self.open -= 1
            if after is not None:
                await after()

        near.after_close = closed
        return near


@asynccontextmanager
async def client_of(gateway, mode="2026-07-28", **options):
    """Connect to a gateway; close both."""
    async with asyncio.timeout(TIMEOUT_S):
        try:
            async with mcpwire.Client(gateway, mode=mode, **options) as client:
                yield client
        finally:
            await gateway.aclose()


@asynccontextmanager
async def through(servers, mode="2026-07-28", *, client=None, **options):
    """Connect to a gateway before some servers; close everything."""
    gateway = Gateway(servers, **options)
    async with client_of(gateway, mode, **(client or {})) as connected:
        yield connected


def tool_names(tools):
    return [tool.name for tool in tools]
