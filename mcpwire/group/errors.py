"""A server that is known and cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.errors import ConnectionClosed, LocalProtocolError, UnknownServer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NotConnected", "as_meant"]


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


def as_meant(name: str, error: Exception, *, has_left: bool) -> Exception:
    """Return what to tell of a call that failed.

    Where the server left the group after it was looked up, its client says that nobody
    has connected it, which is not the caller's mistake.
    """
    if has_left and isinstance(error, LocalProtocolError):
        return ConnectionClosed(f"the server {name!r} was disconnected", sent=False)
    return error
