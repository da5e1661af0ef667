"""What a duplex connection says of itself, whichever shell moves its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.errors import TransportError
    from mcpwire.protocol.peer import Peer, PeerStats
    from mcpwire.versions import Revision

__all__ = ["DuplexFacts"]


class DuplexFacts:
    """The part of a connection that neither waits nor sends; see the module's text."""

    __slots__ = ()

    _closed_by_us: bool
    _dead: TransportError | None
    _peer: Peer[Any]
    target: str | None

    def __repr__(self) -> str:
        """Return one readable line."""
        state = "closed" if self._dead is not None else "open"
        calls = len(self._peer.outstanding)
        return f"<{type(self).__name__} {self.target or ''} {state}, {calls} calls>"

    @property
    def role(self) -> str:
        """``"client"`` or ``"server"``."""
        return self._peer.role

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` until the handshake has decided."""
        return self._peer.revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._peer.revision = revision

    @property
    def stats(self) -> PeerStats:
        """What came in beside plain answers."""
        return self._peer.stats

    @property
    def requests_sent(self) -> int:
        """Requests that were begun."""
        return self._peer.requests_sent

    def hear(self, *, wanted: bool) -> None:
        """Do nothing: what the server says unasked comes on the same stream."""

    def when_heard(self, tell: Callable[[], object]) -> float:
        """Return no seconds: it can say it already."""
        del tell
        return 0.0

    def _silence_detail(self) -> str | None:
        """Say what else is known of a peer that does not answer."""
        stats = self._peer.stats
        if stats.noise_lines:
            return (
                f"{stats.noise} line(s) it wrote were no protocol messages, "
                f"first: {stats.noise_lines[0]!r}"
            )
        return None

    def _closed_error(
        self, *, sent: bool = True, cause: BaseException | None = None
    ) -> ConnectionClosed:
        """Build the error for one call; subclasses add what they know."""
        why = "closed by this side" if self._closed_by_us else "the peer closed it"
        if cause is not None:
            why = str(cause)
        elif self._dead is not None and not self._closed_by_us:
            why = str(self._dead.args[0])
            return ConnectionClosed(why, target=self.target, sent=sent)
        where = f" to {self.target}" if self.target else ""
        return ConnectionClosed(
            f"the connection{where} is closed: {why}", target=self.target, sent=sent
        )
