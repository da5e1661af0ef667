"""A blocking source of tools that lists and answers just what a test tells it to."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from mcpwire.types import CallToolResult, TextContent, Tool

BOUND_S = 30.0


def tool(name: str) -> Tool:
    """Return a tool that takes a path."""
    return Tool(name, {"type": "object", "properties": {"path": {"type": "string"}}})


class BlockingShelf:
    """Servers and their tools; what is listed may be an error, or wait for a gate."""

    def __init__(self, **lists: Any) -> None:
        self.lists: dict[str, Any] = dict(lists)
        self.answer: Any = None
        self.calls: list[tuple[Any, ...]] = []
        self.listed: list[str] = []
        self.enumerated = 0
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[str] = set()
        self.callbacks: list[Any] = []
        self.on_list: Any = lambda server: None

    def servers(self) -> list[str]:
        self.enumerated += 1
        return list(self.lists)

    def has(self, server: str) -> bool:
        return server in self.lists

    def rules(self, _: str) -> None:
        return None

    def client(self, _: str) -> Any:
        return SimpleNamespace(capabilities=SimpleNamespace(resources={}, prompts=None))

    def on_change(self, callback: Any) -> Any:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def tell(self, server: str | None) -> None:
        for callback in tuple(self.callbacks):
            callback(server)

    def list(self, server: str) -> list[Tool]:
        self.listed.append(server)
        self.threads.add(threading.current_thread().name)
        found = self.lists[server]
        assert self.gate.wait(BOUND_S)
        self.on_list(server)
        if isinstance(found, Exception):
            raise found
        return [tool(each) if isinstance(each, str) else each for each in found]

    def call(self, server: str, name: str, arguments: Any, **options: Any) -> Any:
        self.calls.append((server, name, arguments, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or CallToolResult([TextContent("done")])

    def request(self, server: str, verb: str, *arguments: Any, **options: Any) -> Any:
        self.calls.append((server, verb, arguments, options))
        return []
