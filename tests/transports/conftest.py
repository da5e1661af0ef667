"""A server for connections of users, and a time limit for tests."""

import asyncio

import pytest

import mcpwire

BOUND_S = 30.0


@pytest.fixture
async def bounded(tmp_path, monkeypatch):
    """Limit the time of a test, in a folder in which the paths of sockets are short."""
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(BOUND_S):
        yield


@pytest.fixture
def server():
    server = mcpwire.Server("custom", "1.0")

    @server.tool
    async def echo(message: str) -> str:
        return message

    @server.tool
    async def brief() -> str:
        await asyncio.sleep(0)  # so that the response follows the end of the input
        return "answered"

    @server.tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    return server
