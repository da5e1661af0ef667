"""Test a server of functions with pytest: `python -m pytest test_your_server.py`.

Each test runs in both eras, in memory and over HTTP without a socket.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from server import server

import mcpwire
from mcpwire.testing import AsgiTransport

pytest_plugins = ["mcpwire.testing.pytest_plugin"]  # or in conftest.py, once
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["session", "stateless"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["memory", "http"])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """Yield the target of a client."""
    if request.param == "memory":
        yield server
        return
    transport = AsgiTransport(server.asgi())
    async with httpx.AsyncClient(transport=transport) as http_client:
        yield mcpwire.Http("http://localhost/mcp", http_client=http_client)


async def test_find_returns_matching_notes(target: Any, mode: str) -> None:
    async with mcpwire.Client(target, mode=mode) as client:
        result = await client.call_tool("find", {"words": "water"})
        assert [note["title"] for note in result.structured_content["result"]] == [
            "tea"
        ]


async def test_a_refused_overwrite_keeps_the_note(target: Any, mode: str) -> None:
    def refuse(_: object) -> dict[str, bool]:
        return {"value": False}

    async with mcpwire.Client(target, mode=mode, elicitation=refuse) as client:
        note = {"title": "tea", "text": "Coffee is better."}
        result = await client.call_tool("write", {"note": note})
        assert result.is_error
        assert await client.read_text("note://tea") == "Boil water."


async def test_export_reports_progress(target: Any, mode: str) -> None:
    steps = []

    def on_progress(*values: object) -> None:
        steps.append(values)

    async with mcpwire.Client(target, mode=mode) as client:
        await client.call_tool("export", on_progress=on_progress)
    assert steps == [(1, 1, "tea")]


async def test_an_unknown_note_is_an_error(target: Any, mode: str) -> None:
    async with mcpwire.Client(target, mode=mode) as client:
        with contextlib.suppress(mcpwire.RPCError):
            pytest.fail(await client.read_text("note://coffee"))
