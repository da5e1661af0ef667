"""A group as what a `ToolSet` has its tools from (`tools.reading.ToolSource`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import GroupError, MCPError

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Mapping

    from mcpwire.client import Client
    from mcpwire.group.group import Group
    from mcpwire.tools.reading import OnChange
    from mcpwire.tools.rules import ServerRules
    from mcpwire.types import CallToolResult, Tool

__all__ = ["GroupSource"]


class GroupSource:
    """What tool sets ask a group, and are told by it."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._callbacks: dict[object, OnChange] = {}

    def servers(self) -> builtins.list[str]:
        """Return the servers that there are, in the order they were given."""
        return [*self._group]

    def has(self, server: str) -> bool:
        """Tell whether there is a server of that name."""
        return server in self._group

    def rules(self, server: str) -> ServerRules | None:
        """Return what holds for a server's tools alone."""
        return self._group.rules(server)

    def client(self, server: str) -> Client:
        """Return a server's client.

        Raises:
            UnknownServer: There is no such server.
        """
        return self._group.client_of(server)

    async def list(self, server: str) -> builtins.list[Tool]:
        """Return all tools of a server; none where it did not declare to have any.

        Raises:
            GroupError: A function that was given for this server failed, such as that
                of its headers: the other servers have nothing to do with it.
        """
        try:
            client = await self._group.connected_in_turn(server)
            capabilities = client.capabilities
            if capabilities is not None and capabilities.tools is None:
                return []
            return await self._group.list_tools(server)
        except MCPError:
            raise
        except Exception as error:
            raise GroupError(f"{type(error).__name__}: {error}") from error

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        **options: Any,
    ) -> CallToolResult:
        """Call a tool by the name that its server gave it."""
        return await self._group.call_tool(server, tool, arguments, **options)

    async def request(
        self, server: str, verb: str, *arguments: Any, **options: Any
    ) -> Any:
        """Call another method of a server's client, such as ``"read_resource"``."""
        return await getattr(self._group, verb)(server, *arguments, **options)

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Have the callback called with each change; return what ends that."""
        key = object()
        self._callbacks[key] = callback

        def undo() -> None:
            self._callbacks.pop(key, None)

        return undo

    def tell(self, server: str | None) -> None:
        """Tell that a server's tools may be others; ``None``: the group was closed."""
        for callback in tuple(self._callbacks.values()):
            callback(server)
