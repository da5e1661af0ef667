"""What serves a gateway keeps it open, and lets go of everything in the end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from mcpwire import Client, Server
from mcpwire.gateway import Gateway

if TYPE_CHECKING:
    from pathlib import Path

server = Server("behind")


@server.tool
async def tell() -> str:
    return "told"


class Stage:
    """Stands in for what serves, and looks at the gateway meanwhile."""

    def __init__(self, gateway: Gateway, code: int = 0) -> None:
        self.gateway = gateway
        self.code = code
        self.given: list[Any] = []
        self.tasks: list[str] = []

    async def serve(self, *given: Any, **_: Any) -> None:
        self.given.append(given)
        # Whoever comes and goes meanwhile does not close what is shared.
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


def test_on_stdio_it_is_a_whole_work(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway({"s": server})
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.stdio.run_stdio", stage.run)
    gateway.run()
    assert stage.given == [(gateway.dispatcher, {})]
    assert len(gateway.pool.shared) == 0
    stage.code = 143
    with pytest.raises(SystemExit, match="143"):
        gateway.run()


def test_over_http_options_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway({"s": server})
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.http.uvicorn.run_http", stage.run)
    gateway.run(http=":0", paths=True)
    assert stage.given == [(gateway, ":0", {"paths": True})]
    assert len(gateway.pool.shared) == 0


def test_files_are_watched_while_it_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {}}))
    gateway = Gateway.from_config(str(path), local=server)
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.stdio.run_stdio", stage.run)
    gateway.run(watch=True)
    assert "mcpwire-gateway-watch" in stage.tasks
    gateway.run()
    assert "mcpwire-gateway-watch" not in stage.tasks


async def test_beside_other_work_it_lets_go_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = Gateway({"s": server})
    stage = Stage(gateway)
    monkeypatch.setattr("mcpwire.server.stdio.serve_stdio", stage.serve)
    await gateway.serve_stdio()
    assert stage.given == [(gateway.dispatcher,)]
    assert len(gateway.pool.shared) == 0
