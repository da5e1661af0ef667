"""What a duplex connection says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import ConnectionClosed, TooManyQuestions
from mcpwire.protocol.owner import TOO_MANY, unasked

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.errors import MCPError, RPCError, TransportError
    from mcpwire.limits import Limits
    from mcpwire.protocol.peer import Peer, PeerStats
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["DuplexFacts"]


class DuplexFacts:
    """The part of a connection that neither waits nor sends; see the module's text."""

    __slots__ = ()

    _closed_by_us: bool
    _dead: TransportError | None
    _limits: Limits
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

    def _admits(self, id: RequestId, method: str) -> bool:
        """Tell whether a question of the server is answered for any call.

        The calls that have answered as many as they may end here.
        """
        if method == "ping":
            return True
        limit, calls = self._limits.questions, self._peer.outstanding
        spent = {id: call for id, call in calls.items() if call.questions >= limit}
        for call_id, call in spent.items():
            self._give_up(call_id, TOO_MANY)
            self.failed(call, TooManyQuestions(call.method, limit=limit))
        if spent and not calls:
            self._reply(id, unasked())
            return False
        for call in calls.values():
            call.questions += 1
        return True

    def _give_up(self, id: int, reason: str) -> None:
        """Stop waiting for an answer and tell the peer, as far as it can be told."""
        raise NotImplementedError

    def failed(self, call: Any, error: MCPError) -> None:
        """Wake the caller with the error."""
        raise NotImplementedError

    def _reply(self, id: RequestId, answer: dict[str, Any] | RPCError) -> None:
        """Send an answer."""
        raise NotImplementedError

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
