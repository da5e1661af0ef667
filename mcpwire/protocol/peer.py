"""One end of a duplex JSON-RPC connection: bytes in, calls and answers out.

It does no I/O and knows no clock. Its owner (a channel, a server) feeds the bytes
it read to `receive`, writes the bytes it is given, and is told what happened through
the `Owner` protocol::

      open() ──► outstanding ──► answered / failed        the peer answered
                      │────────► cancel()                 we gave up: late answers drop
                      └────────► end()                    the connection is gone

      requested() ──► in flight ──► answer() / refuse()   at most one answer leaves
                          └───────► withdrawn()           the peer gave up: none leaves

Ids of ours are integers that count up and are never used twice. Ids are compared by
type and value: ``"7"`` does not answer ``7``, it is diagnosed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError, MessageTooLarge
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.protocol.owner import Call, Owner, PeerStats
from mcpwire.protocol.receiving import C, Receiver
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import (
    LARGE,
    JSONDecodeError,
    check_values,
    encode_line,
    loads,
)
from mcpwire.wire.jsonrpc import LineDecoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.errors import RPCError
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["Call", "Owner", "Peer", "PeerStats"]

NEVER_CANCELLED: Final = frozenset({"initialize"})
"""2025-11-25 basic/utilities/cancellation: `initialize` MUST NOT be cancelled."""


class Peer(Receiver[C]):
    """The state of one duplex connection; see the module's text.

    Attributes:
        role: ``"client"`` or ``"server"``.
        revision: The negotiated revision; ``None`` before, and for a server that
            speaks a stateless revision, where each request names its own.
        stats: What came in beside plain answers.
        outstanding: Our calls that have no answer yet, by id.
        unanswered: The ids of the peer's requests that have no answer yet.
    """

    __slots__ = ("_last_id", "_lines", "_serves")

    def __init__(
        self, owner: Owner[C], *, role: str, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(owner, role=role, limits=limits)
        self._lines = LineDecoder(limits.message)
        self._last_id = 0
        self._serves = role == "server"

    @property
    def requests_sent(self) -> int:
        """How many requests were opened; ids count up from 1."""
        return self._last_id

    # Our requests...

    def open(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        call: C,
        *,
        progress: bool = False,
    ) -> tuple[int, bytes]:
        """Register a request and return its id and its line.

        With `progress`, `_meta.progressToken` is set to the id.

        Raises:
            LocalProtocolError: The params are not JSON, or the revision lets this side
                ask nothing (2026-07-28: a server MUST NOT initiate requests).
        """
        if self.role == "server" and (
            self.revision is None or self.revision.era is Era.STATELESS
        ):
            raise LocalProtocolError(
                f"a server may send {method!r} only inside a session, "
                "after the client's initialize"
            )
        id = self._last_id + 1
        if progress:
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": id}
        if params is None:
            line = encode_line({"jsonrpc": "2.0", "id": id, "method": method})
        else:
            line = encode_line(
                {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            )
        self._last_id = id
        self.outstanding[id] = call
        return id, line

    def forget(self, id: int) -> None:
        """Take back a request that never left; nothing is told to the peer."""
        if self.outstanding.pop(id, None) is not None:
            self.stats.unanswered += 1

    def cancel(self, id: int, reason: str) -> bytes | None:
        """Give up a call; return the line that tells the peer, if it should be told.

        A call that is already answered is left alone. `initialize` is never cancelled,
        and before a revision is agreed nothing is (a legacy server must see nothing
        it does not know before `initialize`).

        Raises:
            LocalProtocolError: The reason is no Unicode; the call stays open.
        """
        call = self.outstanding.get(id)
        if call is None:
            return None
        line = None
        if call.method not in NEVER_CANCELLED and self.revision is not None:
            line = self.notify(
                "notifications/cancelled", {"requestId": id, "reason": reason}
            )
        del self.outstanding[id]
        self.stats.unanswered += 1
        self._remember(id)
        return line

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> bytes:
        """Return the line of a notification.

        Raises:
            LocalProtocolError: The params are not JSON.
        """
        return encode_line(jsonrpc.notification(method, params))

    # Our answers...

    def answer(self, id: RequestId, result: Mapping[str, Any]) -> bytes | None:
        """Return the line of an answer; ``None`` when none may leave any more.

        Raises:
            LocalProtocolError: The result is not JSON; the request stays in flight.
        """
        if not self._serves or self.unanswered.get(id, self) is not None:
            return self._reply(id, jsonrpc.success(id, result))
        # One that came by itself; the rest of `_reply` is for others.
        line = encode_line({"jsonrpc": "2.0", "id": id, "result": result})
        del self.unanswered[id]
        return line

    def refuse(self, id: RequestId, error: RPCError) -> bytes | None:
        """Return the line of an error answer; ``None`` when none may leave any more.

        Raises:
            LocalProtocolError: `error.data` is not JSON; the request stays in flight.
        """
        return self._reply(id, jsonrpc.failure(id, error))

    def is_in_flight(self, id: RequestId) -> bool:
        """Whether the peer still waits for our answer to that request."""
        return id in self.unanswered

    # What comes in...

    def receive(self, data: bytes, *, last: bool = False) -> None:
        """Take in bytes and tell the owner what they meant.

        With `last` there are none, and what is left of a line counts as one.

        Raises:
            MessageTooLarge: One line is over the limit. What came before it has been
                delivered; the connection cannot go on.
        """
        lines = self._lines.finish() if last else self._lines.feed(data)
        self.stats.messages += len(lines)
        for line in lines:
            try:
                if line[LARGE]:
                    check_values(line, self._limits.values)
                message = loads(line)
            except JSONDecodeError:
                self._receive_unreadable(line)
                continue
            except MessageTooLarge as error:
                self._receive_too_large(line, error)
                continue
            # A plain result to a call of ours takes no further step. `type` is asked
            # because True and 1.0 would find the call with id 1.
            if type(message) is dict and len(message) == 3:
                result = message.get("result")
                id = message.get("id")
                if (
                    type(result) is dict
                    and type(id) is int
                    and message.get("jsonrpc") == "2.0"
                ):
                    call = self.outstanding.pop(id, None)
                    if call is not None:
                        self._owner.answered(call, result)
                        continue
            elif self._serves and type(message) is dict and len(message) == 4:
                self._receive_call(message, line)
                continue
            self._receive_message(message, line)
        if self._lines.overflow:
            limit = self._limits.message
            raise MessageTooLarge(
                f"a message is longer than {limit} bytes (Limits.message)", limit=limit
            )

    def end(self) -> list[C]:
        """Take in the end of the stream; return the calls that got no answer.

        The owner is told nothing more, even where it ends a peer that is reading.
        """
        self._is_ending = True
        if not self._lines.overflow:
            self.receive(b"", last=True)
        self._has_ended = True
        calls = list(self.outstanding.values())
        self.stats.unanswered += len(calls)
        self.outstanding.clear()
        self.unanswered.clear()
        return calls
