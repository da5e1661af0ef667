"""What a server offers beyond the core protocol: extensions, one value each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.server import Server

__all__ = ["Extension"]


class Extension(Protocol):
    """What `Server(extensions=...)` takes."""

    @property
    def id(self) -> str:
        """Its identifier, such as ``io.modelcontextprotocol/skills``."""

    @property
    def settings(self) -> dict[str, Any]:
        """What is declared under its identifier."""

    def attach(self, server: Server) -> None:
        """Add to the server what comes with it; called once, when the server is made.

        Raises:
            ValueError: It cannot be added to that server.
        """

    def methods(self) -> Mapping[str, Handler]:
        """Return handlers for the methods that it defines."""
