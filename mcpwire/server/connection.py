"""One client on a duplex stream: its session, and the handlers that run for it.

It is the stream's `Inbound`. What the protocol says stands in `dispatcher`; here
requests become tasks, and cancelling them ends the tasks.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import MCPError, RPCError, TransportError
from mcpwire.protocol.deadline import Deadline
from mcpwire.server.routes import INITIALIZE
from mcpwire.transports.inbound_tasks import InboundTasks

if TYPE_CHECKING:
    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.request import RequestContext, Session
    from mcpwire.transports._duplex import Duplex
    from mcpwire.transports.base import CallHandle, ReplyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["ServerConnection"]

ANSWER_TIMEOUT_S: Final = 600.0
"""How long a client may take to answer: there may be a person who thinks."""

logger = logging.getLogger("mcpwire")


class ServerConnection:
    """Serves one client until the stream ends; see the module's text.

    Attributes:
        session: What `initialize` fixed; ``None`` until then.
        ended: Set when the stream is gone.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        limits = dispatcher.limits
        self._tasks = InboundTasks(limit=limits.inbound, backlog=limits.notifications)
        self._open: dict[RequestId, RequestContext] = {}
        self._channel: Duplex | None = None
        self._is_stopped = False
        self.session: Session | None = None
        self.ended = asyncio.Event()

    def attach(self, channel: Duplex) -> None:
        """Serve what comes over that channel."""
        self._channel = channel

    # What the stream tells (`transports.base.Inbound`)...

    def request(
        self,
        id: RequestId,
        method: str,
        params: dict[str, Any] | None,
        reply: ReplyFn,
        call: CallHandle | None,
    ) -> None:
        """Answer a request, at once or by a task of its own."""
        if self._is_stopped:
            return
        dispatcher = self._dispatcher
        try:
            if self._opens_session(method, params):
                reply(self._initialize(params))
                return
            request = dispatcher.admit(
                id, method, params, self.session, self._notify, ask=self._ask
            )
            answer = dispatcher.answer_now(request, params or {})
        except RPCError as error:
            reply(error)
            return
        if answer is not None:
            reply(answer)
            return
        self._tasks.start(id, partial(self._perform, request, params or {}), reply)

    def _opens_session(self, method: str, params: dict[str, Any] | None) -> bool:
        return method == INITIALIZE and not self._dispatcher.opens_alone(params)

    def _initialize(self, params: dict[str, Any] | None) -> dict[str, Any]:
        self.session, result = self._dispatcher.initialize(params, self.session)
        assert self._channel is not None
        self._channel.revision = self.session.revision
        return result

    async def _perform(
        self, request: RequestContext, params: dict[str, Any]
    ) -> dict[str, Any]:
        self._open[request.id] = request
        try:
            return await self._dispatcher.perform(request, params)
        finally:
            request.close()
            if self._open.get(request.id) is request:
                del self._open[request.id]

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        assert self._channel is not None
        try:
            self._channel.notify_nowait(method, params)
        except TransportError as error:
            # The client does not read. Its answers will fail on that; this can be lost.
            logger.debug("%s was not sent: %s", method, error)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._channel is not None
        deadline = Deadline(asyncio.get_running_loop().time(), ANSWER_TIMEOUT_S)
        return await self._channel.call(method, params, deadline=deadline)

    def notification(
        self, method: str, params: dict[str, Any] | None, call: CallHandle | None
    ) -> None:
        """Take what the client tells."""
        if method == "notifications/initialized" and self.session is not None:
            self.session.is_initialized = True

    def cancelled(self, id: RequestId) -> None:
        """Stop the handler of a request that the client withdrew."""
        request = self._open.pop(id, None)
        if request is not None:
            request.is_cancelled = True
        self._tasks.cancel(id)

    def missed(self) -> None:
        """Take note of nothing: a client's notifications are not remembered."""

    def lost(self, error: TransportError) -> None:
        """Stop everything: nobody hears the answers any more."""
        # That a client went away is its right; that it broke a rule is worth a word.
        if isinstance(error.__cause__, MCPError):
            logger.warning("%s", error)
        self._stop()
        self.ended.set()

    # The end...

    def _stop(self) -> list[asyncio.Task[None]]:
        self._is_stopped = True
        for request in self._open.values():
            request.is_cancelled = True
        self._open.clear()
        return self._tasks.close()

    async def settle(self, seconds: float) -> None:
        """Wait until what was asked is answered, but not longer than that."""
        await self._tasks.settle(seconds)

    async def aclose(self, seconds: float = 0.5) -> None:
        """Stop the handlers, wait for their end as long as that, close the stream."""
        tasks = self._stop()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=seconds)
        finally:
            assert self._channel is not None
            await self._channel.aclose()
            self.ended.set()
