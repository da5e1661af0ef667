"""A server that is known and cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.protocol.many.errors import UnknownServer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NotConnected"]


class NotConnected(UnknownServer):
    """There is a server of that name, and it is not connected.

    Attributes:
        problem: Why it could not be connected; ``None``: nobody tried, or it was
            disconnected.
    """

    def __init__(
        self,
        server: str,
        *,
        known: Iterable[str] = (),
        problem: BaseException | None = None,
    ) -> None:
        super().__init__(server, known=known)
        self.problem = problem
        why = "" if problem is None else f" ({type(problem).__name__}: {problem})"
        self.args = (f"the server {server!r} is not connected{why}",)
