"""Answers a POST that stands alone (2026-07-28): nothing is kept between two of them.

::

      waits ──answer──────────────────────────────► JSON
        │ something to say, or it takes too long
        ▼
      stream: what is said, comments when silent ──answer──► its last event

The handler runs in the task that the web server made for the request. If the client
goes away, that is its cancellation; nothing more is sent then.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import HeaderMismatch, InternalError, InvalidRequest, RPCError
from mcpwire.protocol.request_validation import (
    check_head,
    check_mirrored,
    http_status,
)
from mcpwire.server.dispatcher import INITIALIZE, HttpRefusal
from mcpwire.server.http.exchange import JSON, ClientGone, HttpProblem, encode_answer
from mcpwire.server.http.streams import DROPPABLE, SseWriter, as_event
from mcpwire.versions import Era
from mcpwire.wire.headers import METHOD
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import Notification, Request, notification

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.request import RequestContext
    from mcpwire.wire.jsonrpc import Message, RequestId

    Answer = dict[str, Any] | RPCError

__all__ = ["Stateless"]

SHUTTING_DOWN: Final = "the server is shutting down"

RETRY_AFTER: Final = (("retry-after", "1"),)


class Stateless:
    """Answers requests that stand alone; see the module's text."""

    def __init__(self, dispatcher: Dispatcher, *, is_json_only: bool = False) -> None:
        self._dispatcher = dispatcher
        self._is_json_only = is_json_only
        self._is_alone = all(r.era is Era.STATELESS for r in dispatcher.revisions)
        self._calls: set[_Call] = set()

    async def serve(self, exchange: Exchange, message: Message) -> None:
        """Answer a POST with that message. Raises `HttpProblem` and `ClientGone`."""
        if type(message) is Notification:
            _check_notification(exchange, message)
            # No notification makes a server do anything.
            await exchange.reply(202)
            return
        if type(message) is not Request:
            # 2026-07-28 streamable-http, "Sending Messages": MUST NOT be a response.
            raise HttpProblem(400, InvalidRequest("a response is no message to POST"))
        params = message.params or {}
        call = _Call(exchange, message.id, is_json_only=self._is_json_only)
        try:
            request = self._admit(call, message.method, params)
            result = self._dispatcher.answer_now(request, params)
        except RPCError as error:
            await _reply(exchange, message.id, error, is_admitted=False)
            return
        if result is not None:
            await _reply(exchange, message.id, result)
            return
        self._calls.add(call)
        try:
            await call.perform(self._dispatcher, request, params)
        finally:
            self._calls.discard(call)

    def stop_all(self) -> None:
        """Answer every call that runs by saying that the server ends."""
        for call in self._calls:
            call.stop()

    def _admit(
        self, call: _Call, method: str, params: dict[str, Any]
    ) -> RequestContext:
        dispatcher = self._dispatcher
        headers, info = call.exchange.headers, call.exchange.info
        if (
            method == INITIALIZE
            and self._is_alone
            and not dispatcher.opens_alone(params)
        ):
            # 2026-07-28 basic/versioning: it SHOULD be told the versions.
            dispatcher.initialize(params, None, info)
        check_head(headers, method, params)
        request = dispatcher.admit(
            call.id, method, params, None, call.notify, info=info
        )
        repeated = dispatcher.param_headers(request, params)
        check_mirrored(headers, method, params, repeated)
        if dispatcher.is_long_lived(request):
            call.is_json_only = False  # nothing else could carry what it is for
        return request


class _Call:
    """One request while its handler runs."""

    def __init__(
        self, exchange: Exchange, id: RequestId, *, is_json_only: bool
    ) -> None:
        self.exchange = exchange
        self.id = id
        self.is_json_only = is_json_only
        self._request: RequestContext | None = None
        self._running: asyncio.Timeout | None = None
        self._is_gone = False
        self._writer: SseWriter | None = None
        # Writes the stream, or watches the client. Its timers keep their context until
        # they would ring, so that is not the handler's, which leads to the request.
        self._task: asyncio.Task[None] | None = None
        self._context = copy_context()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification before the answer; never waits.

        A client that does not read loses the oldest of them. Raises
        `LocalProtocolError` if it has no JSON form.
        """
        if not self.is_json_only:
            event = as_event(encode(notification(method, params)))
            self._stream().put(event, DROPPABLE)

    def _stream(self) -> SseWriter:
        """Answer with a stream from here on."""
        if self._writer is None:
            self._writer = SseWriter(self.exchange.limits.unwritten)
            self._start(self._writer.run(self.exchange), "mcpwire-http-stream")
        return self._writer

    def _take_time(self) -> None:
        """Tell the client that the answer takes time, and see if it still waits."""
        if not self.is_json_only:
            self._stream()
        else:
            self._start(self.exchange.watch(), "mcpwire-http-watch")

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(work, name=name, context=self._context)
        self._task.add_done_callback(self._lose_client)

    def _lose_client(self, _: object) -> None:
        """Cancel the handler, unless the stream has ended with its answer."""
        if self._writer is None or not self._writer.is_complete:
            self._is_gone = True
            self.stop()

    def stop(self) -> None:
        """Cancel the handler, if it runs."""
        if self._request is not None:
            self._request.is_cancelled = True
        running, self._running = self._running, None
        if running is not None:
            running.reschedule(0.0)

    async def perform(
        self, dispatcher: Dispatcher, request: RequestContext, params: dict[str, Any]
    ) -> None:
        """Run its handler and send the answer. Raises `ClientGone`."""
        self._request = request
        timers = self.exchange.timeouts.stream_after
        timers.add(self._take_time)
        try:
            answer = await self._run(dispatcher, request, params)
            if self._is_gone:
                if self._writer is not None and self._task is not None:
                    self._task.result()  # raises what the web server did
                # 2026-07-28 streamable-http, "Cancellation": nothing more is sent.
                raise ClientGone
            if self._writer is None:
                await _reply(self.exchange, self.id, answer)
            else:
                await self._end_stream(self._writer, answer)
        finally:
            timers.discard(self._take_time)
            self._request = None  # they know each other: a circle of garbage
            if self._task is not None:
                await _ended(self._task)

    async def _run(
        self, dispatcher: Dispatcher, request: RequestContext, params: dict[str, Any]
    ) -> Answer:
        try:
            async with asyncio.timeout(None) as self._running:
                return await dispatcher.perform(request, params)
        except RPCError as error:
            # From Python 3.13 its frames lead to the one that keeps the answer.
            return error.with_traceback(None)
        except TimeoutError:  # of `stop`: those of handlers do not come this far
            return InternalError(SHUTTING_DOWN)
        finally:
            self._running = None
            request.close()

    async def _end_stream(self, writer: SseWriter, answer: Answer) -> None:
        assert self._task is not None
        writer.put(as_event(encode_answer(self.id, answer)))
        writer.end()
        await asyncio.wait([self._task])
        self._task.result()
        if not writer.is_complete:
            raise ClientGone


async def _ended(task: asyncio.Task[None]) -> None:
    """Stop a task, and see its end."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def _check_notification(exchange: Exchange, message: Notification) -> None:
    """Refuse a notification that contradicts its head; the head may say nothing.

    2026-07-28 streamable-http leaves open what goes with notifications.
    """
    named = exchange.headers.get(METHOD.lower())
    # A repeated field is joined by commas, so it differs, too.
    if named is not None and named != message.method:
        error = HeaderMismatch(f"the header {METHOD} says something else")
        raise HttpProblem(400, error)


async def _reply(
    exchange: Exchange, id: RequestId, answer: Answer, *, is_admitted: bool = True
) -> None:
    status: int = 200
    fields: Fields = ()
    if isinstance(answer, RPCError):
        status = http_status(answer, is_admitted=is_admitted)
        if isinstance(answer, HttpRefusal):
            status, fields = answer.http_status, answer.http_headers
    await exchange.reply_bytes(status, encode_answer(id, answer), JSON, fields)
