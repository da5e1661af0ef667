"""POSTs without a session (2026-07-28): the server keeps no state between requests.

::

      waits ──response────────────────────────────► JSON
        │ a notification, or the call takes too long
        ▼
      stream: notifications, comments as heartbeats ──response──► end

The handler runs in the task that the web server created for the request. A client that
disconnects thereby cancels its request; nothing more is sent.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import HeaderMismatch, InternalError, InvalidRequest, RPCError
from mcpwire.protocol.request_validation import check_head, check_mirrored, http_status
from mcpwire.server.dispatcher import INITIALIZE, TOOLS_CALL, Dispatcher, HttpRefusal
from mcpwire.server.http.exchange import (
    JSON,
    ClientGone,
    HttpProblem,
    Stoppable,
    encode_answer,
    end_task,
)
from mcpwire.server.http.streams import DROPPABLE, SseWriter, as_event
from mcpwire.versions import Era
from mcpwire.wire.headers import METHOD
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import Message, Notification, Request, RequestId, notification

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcpwire.server.http.exchange import Exchange, Fields
    from mcpwire.server.request import RequestContext

    Answer = dict[str, Any] | RPCError

SHUTTING_DOWN: Final = "the server is shutting down"

RETRY_AFTER: Final = (("retry-after", "1"),)


class Stateless:
    """Serves requests without a session; see the module docstring."""

    def __init__(self, dispatcher: Dispatcher, *, is_json_only: bool = False) -> None:
        self._dispatcher = dispatcher
        self._is_json_only = is_json_only
        self._is_stateless_only = all(
            r.era is Era.STATELESS for r in dispatcher.revisions
        )
        self._calls: set[_Call] = set()

    async def serve(self, exchange: Exchange, message: Message) -> None:
        """Serve a POST of one message. Raises `HttpProblem` and `ClientGone`."""
        if type(message) is Notification:
            _check_notification(exchange, message)
            # No notification from a client has an effect here.
            await exchange.reply(202)
            return
        if type(message) is not Request:
            # 2026-07-28 streamable-http, "Sending Messages": MUST NOT be a response.
            raise HttpProblem(
                400, InvalidRequest("a response must not be sent by POST")
            )
        params = message.params or {}
        call = _Call(exchange, message.id, self._is_json_only)
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

    def end_subscriptions(self) -> None:
        """Answer all open subscriptions with their result."""
        for call in tuple(self._calls):
            if call.is_subscription and call.running is not None:
                call.running.stop()  # after the pending changes

    def stop_all(self) -> None:
        """Answer all running calls with the error that the server shuts down."""
        for call in tuple(self._calls):
            call.stop()

    def _admit(
        self, call: _Call, method: str, params: dict[str, Any]
    ) -> RequestContext:
        dispatcher = self._dispatcher
        headers, info = call.exchange.headers, call.exchange.info_with(None)
        if (
            method == INITIALIZE
            and self._is_stateless_only
            and not dispatcher.is_stateless_request(params)
        ):
            # 2026-07-28 basic/versioning: the error SHOULD name the versions.
            dispatcher.initialize(params, None, info)
        check_head(headers, method, params)
        request = dispatcher.admit(
            call.id, method, params, None, call.notify, info=info
        )
        is_tool = method == TOOLS_CALL
        repeated = dispatcher.param_headers(request, params) if is_tool else ()
        check_mirrored(headers, method, params, repeated)
        if request.route.is_long_lived:
            call.is_json_only = False  # its notifications need a stream
            call.is_subscription = True
        return request


@attrs.define(eq=False, repr=False)
class _Call:
    """One request while its handler runs."""

    exchange: Exchange
    id: RequestId
    is_json_only: bool
    is_subscription: bool = False
    running: Stoppable | None = None
    _request: RequestContext | None = None
    _is_gone: bool = False
    _writer: SseWriter | None = None
    _task: asyncio.Task[None] | None = None
    """Writes the stream, or watches for a disconnect. Not in the handler's context:
    pending timers keep their context, and that one refers to the request."""

    _context: Context = attrs.field(factory=copy_context)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification; if the client does not read, some may be dropped."""
        if not self.is_json_only:
            event = as_event(encode(notification(method, params)))
            self._stream().put(event, DROPPABLE)

    def _stream(self) -> SseWriter:
        """Return the writer of the stream; start the stream if necessary."""
        if self._writer is None:
            self._writer = SseWriter(self.exchange.limits.unwritten)
            self._start(self._writer.run(self.exchange), "mcpwire-http-stream")
        return self._writer

    def _on_slow_call(self) -> None:
        """Start the stream of a slow call, or only watch for a disconnect."""
        if not self.is_json_only:
            self._stream()
        else:
            self._start(self.exchange.watch(), "mcpwire-http-watch")

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(work, name=name, context=self._context)
        self._task.add_done_callback(self._on_disconnect)

    def _on_disconnect(self, _: object) -> None:
        """Cancel the handler, unless the stream has ended with the response."""
        if self._writer is None or not self._writer.is_complete:
            self._is_gone = True
            self.stop()

    def stop(self) -> None:
        """Cancel the handler, if it runs."""
        if self._request is not None:
            self._request.is_cancelled = True
        if self.running is not None:
            self.running.stop()

    async def perform(
        self, dispatcher: Dispatcher, request: RequestContext, params: dict[str, Any]
    ) -> None:
        """Run the handler and send the response. Raises `ClientGone`."""
        self._request = request
        timers = self.exchange.timeouts.stream_after
        timers.add(self._on_slow_call)
        try:
            answer = await self._run(dispatcher, request, params)
            if self._is_gone:
                if self._writer is not None and self._task is not None:
                    self._task.result()  # raises the web server's error, if any
                # 2026-07-28 streamable-http, "Cancellation": nothing more is sent.
                raise ClientGone
            if self._writer is None:
                await _reply(self.exchange, self.id, answer)
            else:
                await self._end_stream(self._writer, answer)
        finally:
            timers.discard(self._on_slow_call)
            self._request = None  # breaks a reference cycle
            if self._task is not None:
                await end_task(self._task)

    async def _run(
        self, dispatcher: Dispatcher, request: RequestContext, params: dict[str, Any]
    ) -> Answer:
        try:
            with Stoppable() as self.running:
                return await dispatcher.perform(request, params)
        except RPCError as error:
            # From Python 3.13 its frames refer to the frame that holds the response.
            return error.with_traceback(None)
        except TimeoutError:  # by `stop`; `perform` converts those of handlers
            if self.is_subscription:
                return dispatcher.end_subscription(request)
            return InternalError(SHUTTING_DOWN)
        finally:
            self.running = None

    async def _end_stream(self, writer: SseWriter, answer: Answer) -> None:
        assert self._task is not None
        writer.put(as_event(encode_answer(self.id, answer)))
        writer.end()
        await asyncio.wait([self._task])
        self._task.result()
        if not writer.is_complete:
            raise ClientGone


def _check_notification(exchange: Exchange, message: Notification) -> None:
    """Refuse a notification if its method differs from the header, if present.

    2026-07-28 streamable-http does not define headers of notifications.
    """
    header = exchange.headers.get(METHOD.lower())
    # A repeated field is joined by commas, so it differs, too.
    if header is not None and header != message.method:
        error = HeaderMismatch(f"the header {METHOD} has another value than the body")
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
        exchange.reason = "" if status == 200 else answer.message
    await exchange.reply_bytes(status, encode_answer(id, answer), JSON, fields)
