"""What both engines over httpx know of the bytes of an exchange as they pass.

The one awaits reading and writing and the other blocks; what is counted, checked and
proven meanwhile is the same, and stands here.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.transports.http._sockets import acknowledged

if TYPE_CHECKING:
    from mcpwire.transports.http.destination import Destination
    from mcpwire.transports.http.over_httpx.errors import Facts
    from mcpwire.transports.http.over_httpx.guard import Guard

__all__ = ["PassedLine", "Passing"]


class PassedLine:
    """One connection; subclasses read and write for its stream."""

    stream: Any
    guard: Guard

    @property
    def is_secure(self) -> bool:
        """Whether it is TLS: what can be read there may be no answer."""
        return self.stream.get_extra_info("ssl_object") is not None

    def acknowledged(self) -> int:
        """Return how many bytes the peer's system says it has."""
        sock = self.stream.get_extra_info("socket")
        return 0 if sock is None else acknowledged(sock)


class Passing:
    """What one exchange does to the connection it gets; subclasses learn which it is.

    Args:
        owner: The engine, which counts the bytes.
        facts: What becomes known of the exchange.

    Attributes:
        destination: Where its credentials may go, with a client of the user's.
    """

    def __init__(self, owner: Any, facts: Facts) -> None:
        self._owner = owner
        self._facts = facts
        self._line: Any = None
        self._opening: Any = None
        self._begun_at: int | None = None
        self._has_answer = self._is_spoilt = False
        self.destination: Destination | None = None

    @property
    def _is_http1(self) -> bool:
        """Whether it has begun on a connection that it has to itself."""
        raise NotImplementedError

    def check_destination(self, request: Any) -> None:
        """Check a request of httpcore's, whose head is about to be written.

        Raises:
            UrlRefused: Its credentials are for another URL.
        """
        if self.destination is not None:
            self.destination.check_trace(request)

    def note_write(self, line: PassedLine, size: int) -> None:
        """Take note that this exchange uses that connection.

        Raises:
            StaleError: It must not.
        """
        self._line = line
        if self._is_http1 and self._begun_at is None:
            line.guard.begin(monotonic())
            self._begun_at = line.acknowledged()
            self._has_answer = False
        self._owner.bytes_sent += size

    def check(self, line: PassedLine) -> None:
        """Raise what was wrong with what came last."""
        if self._is_http1:
            line.guard.check()

    def note_read(self, line: PassedLine, data: bytes) -> None:
        """Take note of what came, and of what its end proves.

        Raises:
            MCPError: It is not acceptable.
        """
        if not self._is_http1:
            return
        if data:
            self._has_answer = True
            now = monotonic()
            line.guard.feed(data, now)
            self._is_spoilt = not line.guard.may_reuse(now)
        # The goodbye of TLS is no FIN.
        elif self._begun_at is not None and not self._has_answer and not line.is_secure:
            self._facts.is_unseen = 0 < line.acknowledged() <= self._begun_at
