"""What the server starts on the streams of a channel, and whose clock stands still.

What comes on the stream of a call belongs to that call: its clock pauses while a
handler of ours answers, and the answer goes out with the call's own fields. What comes
on the server's own stream belongs to nobody in particular, so all clocks pause.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import TooManyQuestions
from mcpwire.protocol.http.answer import LISTEN, CallReply
from mcpwire.protocol.owner import unasked
from mcpwire.transports.http.told import describe_request, describe_response
from mcpwire.versions import Era
from mcpwire.wire import jsonrpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.errors import MCPError, RPCError, TransportError
    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.http.reply import Reply
    from mcpwire.protocol.http.request import Request
    from mcpwire.protocol.owner import PeerStats
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.http.streamable.shell import Shell
    from mcpwire.transports.tracing import Trace
    from mcpwire.versions import Revision
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["OPENING_S", "HttpInbound", "Opening"]

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

OPENING_S: Final = 1.0
"""How long it is worth waiting whether the server has a stream of its own."""


class Opening:
    """That the server's own stream was asked for; settled with the first verdict.

    That is the head of an answer, whatever it says, or the failure to get one.
    """

    __slots__ = ("_tells", "is_settled", "until")

    def __init__(self, until: float) -> None:
        self._tells: list[Callable[[], object]] = []
        self.is_settled = False
        self.until = until

    def settle(self) -> None:
        """Tell all who wait that it is known."""
        if not self.is_settled:
            self.is_settled = True
            for tell in tuple(self._tells):
                tell()
            self._tells.clear()

    def wait(self, tell: Callable[[], object]) -> bool:
        """Have `tell` called when it is known; return whether that is to come."""
        if not self.is_settled:
            self._tells.append(tell)
        return not self.is_settled  # which another thread may have done meanwhile


class HttpInbound:
    """The part of a channel that hears what the server starts."""

    _asked: dict[RequestId, tuple[Reply, list[CallReply]]]
    _dead: TransportError | None
    _era: Era | None
    _opening: Opening | None
    _shell: Shell
    _told: Inbound
    _trace: Trace | None
    _waiting: dict[int, Any]
    is_watched: bool
    reset_on_progress: bool
    limits: Limits
    recovery: Recovery
    stats: PeerStats
    target: str

    @property
    def revision(self) -> Revision | None:
        """What is spoken; ``None`` until the handshake has decided."""
        raise NotImplementedError

    def why_not_followed(self, reply: Reply) -> str:
        """Say why the redirect that came is not followed; empty: it is."""
        raise NotImplementedError

    def doubted(self, reply: Reply) -> None:
        """Give the rest of an answer that brings nothing a moment to say why."""
        raise NotImplementedError

    def opened(self, reply: Reply) -> None:
        """Take note that a stream is open that is to last."""
        raise NotImplementedError

    def _answer(
        self, id: RequestId, reply: Reply, answer: dict[str, Any] | RPCError
    ) -> None:
        raise NotImplementedError

    def _abort(self, reply: Reply, error: MCPError) -> bool:
        raise NotImplementedError

    def when_heard(self, tell: Callable[[], object]) -> float:
        """Have `tell` called when it is known whether the server can speak unasked.

        Returns how many seconds that is worth waiting for. None at all: it is known,
        nobody has asked for the server's own stream, or it has been asked for long ago.
        """
        opening = self._opening
        if opening is None or self._dead is not None:
            return 0.0
        left = opening.until - self._shell.time()
        return left if left > 0.0 and opening.wait(tell) else 0.0

    # Notifications...

    def notified(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> None:
        """Hand a notification to its call, or to whoever hears the rest."""
        if method == "notifications/cancelled":
            self._withdraw((params or {}).get("requestId"))
            return
        call = self._call_of(reply, method, params)
        if call is not None:
            if self.reset_on_progress and call.deadline is not None:
                call.deadline.extend(self._shell.time())
            if call.on_notification is not None:
                call.on_notification(method, params)
                return
        handle = reply.handle if isinstance(reply, CallReply) else None
        self._told.notification(method, params, handle)

    def _call_of(
        self, reply: Reply, method: str, params: dict[str, Any] | None
    ) -> CallReply | None:
        if method == "notifications/progress" and params is not None:
            token = params.get("progressToken")
            call = self._waiting.get(token) if type(token) is int else None
            return call if isinstance(call, CallReply) else None
        # 2026-07-28 basic/patterns/subscriptions: its stream is the subscription.
        if isinstance(reply, CallReply) and reply.what == LISTEN:
            # That it is acknowledged does not prove that it lasts.
            if reply.backoff is not None and method != ACKNOWLEDGED:
                reply.backoff.delivered()
            return reply
        return None

    # Requests...

    def requested(
        self, reply: Reply, id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        """Hand a request of the server's on, with the function that answers it."""
        # 2026-07-28: a server sends none; and one whose id is still in use would get
        # another's answer (2025-11-25 basic, Requests). To a session that is forgotten
        # no answer can be sent, and the next one may use the same id.
        if self._era is Era.STATELESS or id in self._asked or self._dead is not None:
            self.stats.invalid += 1
            return
        if method != "ping" and not self._admits(id, reply):
            return
        held: list[CallReply] = []
        self._asked[id] = (reply, held)
        handle = reply.handle if isinstance(reply, CallReply) else None
        self._told.request(
            id, method, params, partial(self._reply_to, id, reply), handle
        )
        if id in self._asked:
            self._hold(reply, held)

    def _calls_of(self, reply: Reply) -> list[CallReply]:
        """Return the call whose stream this is, or all calls that are open."""
        replies = [reply] if isinstance(reply, CallReply) else self._waiting.values()
        return [call for call in list(replies) if isinstance(call, CallReply)]

    def _admits(self, id: RequestId, reply: Reply) -> bool:
        """Tell whether a question of the server is answered for any call.

        The calls that have answered as many as they may end here.
        """
        limit, calls = self.limits.questions, self._calls_of(reply)
        spent = [call for call in calls if call.questions >= limit]
        for call in spent:
            self._abort(call, TooManyQuestions(call.what, limit=limit))
        if spent and len(spent) == len(calls):
            self._answer(id, reply, unasked())
            return False
        for call in calls:
            call.questions += 1
        return True

    def _reply_to(
        self, id: RequestId, reply: Reply, answer: dict[str, Any] | RPCError
    ) -> None:
        """Answer a request of the server's, once, if it still waits for that."""
        asked = self._asked.get(id)
        if asked is None or asked[0] is not reply:
            return
        self._release(id)
        self._answer(id, reply, answer)

    def _withdraw(self, id: Any) -> None:
        """Drop a request that the server gave up; what names none is ignored."""
        if jsonrpc.is_request_id(id) and id in self._asked:
            self._release(id)
            self._told.cancelled(id)

    # Clocks...

    def _hold(self, reply: Reply, held: list[CallReply]) -> None:
        """Stop the clock of the call it belongs to, or of all that are open."""
        now = self._shell.time()
        for call in self._calls_of(reply):
            if call.deadline is not None:
                call.holds += 1
                call.deadline.pause(now, self.limits.question_time)
                held.append(call)

    def _release(self, id: RequestId) -> None:
        """Let the clocks run again that stood still for that request."""
        asked = self._asked.pop(id, None)
        if asked is None:
            return
        now = self._shell.time()
        for call in asked[1]:
            if call.holds:
                call.holds -= 1
                assert call.deadline is not None
                call.deadline.resume(now)
                if call.deadline.at < self._shell.clock.at:
                    self._shell.clock.arm(call.deadline.at)

    def _let_go(self, call: CallReply) -> None:
        """Let the clock of a call that is over run again, for it may span more."""
        now = self._shell.time()
        while call.holds:
            call.holds -= 1
            assert call.deadline is not None
            call.deadline.resume(now)

    # Who looks on...

    def watch(self, trace: Trace) -> None:
        """Tell a hook of heads and messages from now on."""
        self._trace = trace
        self.is_watched = True

    def heard_head(self, reply: Reply) -> None:
        """Tell of the head of an answer."""
        assert self._trace is not None
        self._trace("response", describe_response(reply.status, reply.fields))

    def heard_message(self, data: bytes) -> None:
        """Tell of a message."""
        assert self._trace is not None
        self._trace("receive", data)

    def _watch_request(self, request: Request) -> None:
        assert self._trace is not None
        self._trace("request", describe_request(request))
        if request.body is not None:
            self._trace("send", request.body)
