"""A source of tools whose lists and results are set by a test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from mcpwire.errors import ConnectionClosed, MCPError, UnknownServer
from mcpwire.types import CallToolResult, TextContent, Tool, ToolAnnotations

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from mcpwire.tools import ToolSet
    from mcpwire.tools.rules import ServerRules


def tool(name: str = "read", **members: Any) -> Tool:
    """Return a tool that takes a path and perhaps a mode."""
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "mode": {"type": "string"}},
        "required": ["path"],
    }
    return Tool(name, **{"input_schema": schema, "description": name, **members})


READS = ToolAnnotations(read_only_hint=True)


class Shelf:
    """Servers and their tools; listing may raise an error, or wait for a gate."""

    def __init__(self, **lists: Any) -> None:
        self.lists: dict[str, Any] = dict(lists)
        self.server_rules: dict[str, ServerRules] = {}
        self.capabilities: Any = None
        self.answer: Any = None
        self.calls: list[tuple[str, str, Any, dict[str, Any]]] = []
        self.listed: list[str] = []
        self.enumerated = 0
        self.gate: asyncio.Event | None = None
        self.tool_sets: WeakSet[ToolSet] = WeakSet()

    def __iter__(self) -> Iterator[str]:
        self.enumerated += 1
        return iter(self.lists)

    def __contains__(self, server: object) -> bool:
        return server in self.lists

    def rules(self, server: str) -> ServerRules | None:
        return self.server_rules.get(server)

    def client_of(self, server: str) -> Any:
        if server not in self.lists:
            raise UnknownServer(server)
        return SimpleNamespace(capabilities=self.capabilities)

    def notify(self, server: str | None) -> None:
        for tools in tuple(self.tool_sets):
            tools.handle_change(server)

    def change(self, server: str, tools: Any) -> None:
        """Set the tools of a server, and report the change."""
        self.lists[server] = tools
        self.notify(server)

    async def fetch_tools(self, server: str) -> list[Tool]:
        self.listed.append(server)
        found = self.lists[server]
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(found, Exception):
            raise found
        return [tool(each) if isinstance(each, str) else each for each in found]

    async def call_tool(
        self, server: str, name: str, arguments: Any, **options: Any
    ) -> Any:
        self.calls.append((server, name, arguments, options))
        return self._answer_or(CallToolResult(content=[TextContent("done")]))

    def __getattr__(self, verb: str) -> Any:
        async def request(server: str, *arguments: Any, **options: Any) -> Any:
            self.calls.append((server, verb, arguments, options))
            return self._answer_or([])

        return request

    def _answer_or(self, default: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return default if self.answer is None else self.answer

    @property
    def sent(self) -> Any:
        """The arguments of the only call."""
        ((_, _, arguments, _),) = self.calls
        return arguments


def lost() -> MCPError:
    return ConnectionClosed("gone", sent=True)
