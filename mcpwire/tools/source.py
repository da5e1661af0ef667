"""Where a tool set has its tools from: a group, asyncio's or the blocking one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.protocol.many.policy.rules import ServerRules
    from mcpwire.types import CallToolResult, Tool

__all__ = ["BlockingToolSource", "OnChange", "ToolSource", "ToolSourceBase"]

OnChange: TypeAlias = "Callable[[str | None], None]"
"""Told of a server whose tools may have changed: its list did, or it came back, joined
or left. ``None``: there will be no more of anything. It returns at once."""


class ToolSourceBase(Protocol):
    """What a source says without asking a server."""

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


class ToolSource(ToolSourceBase, Protocol):
    """A source on asyncio."""

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


class BlockingToolSource(ToolSourceBase, Protocol):
    """A source without a loop; what it calls back may come from any thread."""

    def list(self, server: str) -> list[Tool]:
        """Return all tools of a server, none where it is not one that has tools."""
        ...

    def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        **options: Any,
    ) -> CallToolResult:
        """Call a tool by the name that its server gave it; options as a request's."""
        ...

    def request(self, server: str, verb: str, *arguments: Any, **options: Any) -> Any:
        """Call another method of a server's client, such as ``"read_resource"``."""
        ...
