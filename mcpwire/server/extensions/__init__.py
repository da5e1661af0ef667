"""Protocol extensions of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.server import Server

__all__ = ["Extension"]


class Extension(Protocol):
    """An extension, for `Server(extensions=...)`."""

    @property
    def id(self) -> str:
        """Its identifier, such as ``io.modelcontextprotocol/skills``."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the server declares under its identifier."""

    def attach(self, server: Server) -> None:
        """Register the extension's components; the server's constructor calls this.

        Raises:
            ValueError: The extension cannot be added to this server.
        """

    def methods(self) -> Mapping[str, Handler]:
        """Return handlers for the methods that the extension defines."""
