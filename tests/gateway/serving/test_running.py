"""Serving keeps a gateway open and closes all its connections at the end."""

import asyncio
import json
from typing import Any

import pytest

from mcpwire import Client, Server
from mcpwire.gateway import Gateway

server = Server("behind")


@server.tool
async def tell() -> str:
    return "told"


class Stage:
    """A stand-in for the serving function that inspects the gateway meanwhile."""

    def __init__(self, gateway: Gateway, code: int = 0) -> None:
        self.gateway = gateway
        self.code = code
        self.given: list[Any] = []
        self.tasks: list[str] = []

    async def serve(self, *given: Any, **_: Any) -> None:
        self.given.append(given)
        # A client that connects and leaves meanwhile does not close shared connections.
        async with Client(self.gateway, mode="2026-07-28") as client:
            await client.list_tools()
        assert len(self.gateway.pool.shared) == 1
        self.tasks = sorted(task.get_name() for task in asyncio.all_tasks())

    def run(self, *given: Any, around: Any, **options: Any) -> int:
        async def work() -> None:
            async with around():
                await self.serve(*given, options)

        asyncio.run(work())
        return self.code


def test_run_serves_stdio_and_exits_with_its_code(monkeypatch):
    gateway = Gateway({"s": server})
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.stdio.run_stdio", stage.run)
    gateway.run()
    assert stage.given == [(gateway.dispatcher, {})]
    assert len(gateway.pool.shared) == 0
    stage.code = 143
    with pytest.raises(SystemExit, match="143"):
        gateway.run()


def test_run_over_http_passes_options_on(monkeypatch):
    gateway = Gateway({"s": server})
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.http.uvicorn.run_http", stage.run)
    gateway.run(http=":0", paths=True)
    assert stage.given == [(gateway, ":0", {"paths": True})]
    assert len(gateway.pool.shared) == 0


def test_run_with_watch_watches_files_while_serving(monkeypatch, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {}}))
    gateway = Gateway.from_config(str(path), local=server)
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.stdio.run_stdio", stage.run)
    gateway.run(watch=True)
    assert "mcpwire-gateway-watch" in stage.tasks
    gateway.run()
    assert "mcpwire-gateway-watch" not in stage.tasks


async def test_serve_stdio_closes_shared_connections_at_its_end(monkeypatch):
    gateway = Gateway({"s": server})
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.stdio.serve_stdio", stage.serve)
    await gateway.serve_stdio()
    assert stage.given == [(gateway.dispatcher,)]
    assert len(gateway.pool.shared) == 0
