"""Where a tool set has its tools from: a group, or what else has this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.tools.rules import ServerRules
    from mcpwire.types import CallToolResult, Tool

__all__ = ["OnChange", "ToolSource"]

OnChange: TypeAlias = "Callable[[str | None], None]"
"""Told of a server whose tools may have changed: its list did, or it came back, joined
or left. ``None``: there will be no more of anything. It returns at once."""


class ToolSource(Protocol):
    """A source of tools."""

    def servers(self) -> Iterable[str]:
        """Return the servers that there are, in an order that stays.

        Those whose connection was lost and is to come back are among them.
        """
        ...

    def has(self, server: str) -> bool:
        """Tell whether that is one of them, however many there are."""
        ...

    def rules(self, server: str) -> ServerRules | None:
        """Return what holds for a server's tools alone."""
        ...

    def client(self, server: str) -> Any:
        """Return a server's client.

        Raises:
            UnknownServer: There is no such server.
        """
        ...

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Have the callback called with each change; return what ends that."""
        ...

    async def list(self, server: str) -> list[Tool]:
        """Return all tools of a server, none where it is not one that has tools.

        Raises what `Client.list_tools` does.
        """
        ...

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        **options: Any,
    ) -> CallToolResult:
        """Call a tool by the name that its server gave it; options as a request's.

        Raises what `Client.call_tool` does.
        """
        ...

    async def request(
        self, server: str, verb: str, *arguments: Any, **options: Any
    ) -> Any:
        """Call another method of a server's client, such as ``"read_resource"``."""
        ...
