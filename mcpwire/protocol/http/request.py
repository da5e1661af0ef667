"""One HTTP request of ours, as an engine sends it."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["LAST_WORDS", "Request"]

LAST_WORDS: Final = frozenset({"tasks/cancel"})
"""Requests that only tell that something is given up: closing lets them go out."""


@attrs.define(repr=False)
class Request:
    """The parts of a request; the engine adds the length of its body and sends it."""

    start: bytes
    """Request line and field lines, each with CRLF; without length and empty line."""

    body: bytes | None = None
    """``None``: the request has none, and tells no length."""

    def __repr__(self) -> str:
        """Show no header, body or query: a token may be in any of them."""
        path = self.target.partition("?")[0]
        return f"<Request {self.verb} {path}>"

    @property
    def verb(self) -> str:
        """The HTTP method."""
        return self.start[: self.start.index(b" ")].decode("ascii")

    @property
    def target(self) -> str:
        """Path and query."""
        line = self.start[: self.start.index(b"\r\n")]
        return line.split(b" ")[1].decode("ascii")

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """The header fields in their order."""
        lines = self.start.split(b"\r\n")[1:-1]
        parts = (line.partition(b":") for line in lines)
        return [(name, value.strip(b" ")) for name, _, value in parts]
