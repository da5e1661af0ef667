"""Answers a POST that stands alone (2026-07-28): nothing is kept between two of them.

The handler runs in the task that the web server made for the request. If the client
goes away, that is its cancellation; nothing more is sent then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    HeaderMismatch,
    InternalError,
    InvalidRequest,
    LocalProtocolError,
    RPCError,
)
from mcpwire.protocol.request_validation import (
    check_head,
    check_mirrored,
    http_status,
)
from mcpwire.server.auth.challenges import HttpRefusal
from mcpwire.server.dispatcher import INITIALIZE
from mcpwire.server.http.exchange import JSON, ClientGone, HttpProblem
from mcpwire.server.http.receiving.first_step import first_step
from mcpwire.server.http.reply import Reply
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.versions import Era
from mcpwire.wire.headers import METHOD
from mcpwire.wire.json import encode
from mcpwire.wire.jsonrpc import Notification, Request, failure, success

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.server.http.exchange import Exchange
    from mcpwire.server.request import RequestContext
    from mcpwire.wire.jsonrpc import Message, RequestId

__all__ = ["Stateless"]

logger = LimitedLogger("mcpwire")

SHUTTING_DOWN: Final = "the server is shutting down"

RETRY_AFTER: Final = (("retry-after", "1"),)


class Stateless:
    """Answers requests that stand alone; see the module's text.

    Args:
        dispatcher: Who performs them.
        is_json_only: Whether calls are never answered by a stream.
    """

    def __init__(self, dispatcher: Dispatcher, *, is_json_only: bool = False) -> None:
        self._dispatcher = dispatcher
        self._is_json_only = is_json_only
        self._is_alone = all(r.era is Era.STATELESS for r in dispatcher.revisions)
        self._calls: set[_Call] = set()

    def serve(self, exchange: Exchange, message: Message) -> Coroutine[Any, Any, None]:
        """Answer a POST with that message, when awaited.

        Raises:
            HttpProblem: It is refused.
            ClientGone: Nobody takes the answer.
        """
        if type(message) is Request:
            return self._serve_request(exchange, message)
        if type(message) is Notification:
            _check_notification(exchange, message)
            # There is none that a server would have to act on.
            return exchange.reply(202)
        # 2026-07-28 streamable-http, "Sending Messages": MUST NOT be a response.
        raise HttpProblem(400, InvalidRequest("a response is no message to POST"))

    def stop_all(self) -> None:
        """Answer every call that runs by saying that the server ends."""
        for call in list(self._calls):
            call.stop()

    async def _serve_request(self, exchange: Exchange, message: Request) -> None:
        params = message.params if message.params is not None else {}
        call = _Call(exchange, message.id, self._calls, is_json_only=self._is_json_only)
        try:
            request = self._admit(call, message, params)
            answer = self._dispatcher.answer_now(request, params)
        except RPCError as error:
            await _refuse(exchange, message.id, error)
            return
        if answer is not None:
            data, _ = _encode_success(message.id, answer)
            await exchange.reply_bytes(200, data, JSON)
            return
        await call.perform(self._dispatcher, request, params)

    def _admit(
        self, call: _Call, message: Request, params: dict[str, Any]
    ) -> RequestContext:
        dispatcher = self._dispatcher
        exchange = call.exchange
        method = message.method
        if (
            method == INITIALIZE
            and self._is_alone
            and not dispatcher.opens_alone(params)
        ):
            # 2026-07-28 basic/versioning: it SHOULD be told the versions.
            dispatcher.initialize(params, None, exchange.info)
        check_head(exchange.headers, method, params)
        request = dispatcher.admit(
            message.id, method, params, None, call.notify, info=exchange.info
        )
        check_mirrored(
            exchange.headers, method, params, dispatcher.param_headers(request, params)
        )
        if dispatcher.is_long_lived(request):
            call.is_json_only = False  # nothing else could carry what it is for
        return request


class _Call:
    """One request while its handler runs."""

    __slots__ = (
        "_calls",
        "_id",
        "_is_gone",
        "_is_running",
        "_is_stopped",
        "_reply",
        "_request",
        "_task",
        "exchange",
        "is_json_only",
    )

    def __init__(
        self,
        exchange: Exchange,
        id: RequestId,
        calls: set[_Call],
        *,
        is_json_only: bool,
    ) -> None:
        self.exchange = exchange
        self.is_json_only = is_json_only
        self._id = id
        self._calls = calls
        self._request: RequestContext | None = None
        self._reply: Reply | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_running = False
        self._is_stopped = False
        self._is_gone = False

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send what belongs to it; never waits."""
        if self._is_running:
            self._open_reply().notify(method, params)

    def _open_reply(self) -> Reply:
        """Return what answers it; most have ended before there is any need for that."""
        if self._reply is None:
            self._reply = Reply(
                self.exchange, self._lose_client, is_json_only=self.is_json_only
            )
        return self._reply

    async def perform(
        self, dispatcher: Dispatcher, request: RequestContext, params: dict[str, Any]
    ) -> None:
        """Run its handler and send what comes of it.

        Raises:
            ClientGone: Nobody takes it.
        """
        self._request = request
        self._is_running = True
        try:
            data, status, headers = await first_step(
                self._run(dispatcher, request, params), self._begin_to_wait
            )
            if self._reply is None:
                await self.exchange.reply_bytes(status, data, JSON, headers)
            else:
                self._reply.fields = headers
                await self._reply.finish(data, status)
        finally:
            if self._reply is not None:
                await self._reply.aclose()
            self._calls.discard(self)
            # Each of them knows the other; left so, they would be garbage in a circle.
            self._reply = self._request = self._task = None

    def _begin_to_wait(self) -> None:
        """The handler takes more than one step: from now on something may come of it.

        Until then nobody else had a turn, so nobody could stop it.
        """
        self._task = asyncio.current_task()
        self._calls.add(self)
        self._open_reply()

    async def _run(
        self, dispatcher: Dispatcher, request: RequestContext, params: dict[str, Any]
    ) -> tuple[bytes, int, tuple[tuple[str, str], ...]]:
        """Return the answer as JSON text, its status and its fields."""
        try:
            result = await dispatcher.perform(request, params)
        except RPCError as error:
            answer = _encode_failure(self._id, error, is_admitted=True)
        except asyncio.CancelledError:
            if not self._is_stopped or not _take_back(self._task):
                raise
            self._is_stopped = False
            stopped = InternalError(SHUTTING_DOWN)
            answer = _encode_failure(self._id, stopped, is_admitted=True)
        else:
            data, status = _encode_success(self._id, result)
            answer = data, status, ()
        finally:
            self._is_running = False
            request.close()
        if self._is_stopped:
            # It ended in the turn in which it was to be cancelled, or would not be.
            await self._swallow_cancellation()
        if self._is_gone:
            # 2026-07-28 streamable-http, "Cancellation": nothing more is sent for it.
            raise ClientGone
        return answer

    async def _swallow_cancellation(self) -> None:
        self._is_stopped = False
        try:
            await asyncio.sleep(0)  # it is thrown here, if it was not thrown yet
        except asyncio.CancelledError:
            if not _take_back(self._task):
                raise
        else:
            _take_back(self._task)

    def _lose_client(self) -> None:
        """The client is gone, which is its way to cancel."""
        self._is_gone = True
        self.stop()

    def stop(self) -> None:
        """Cancel the handler, if it runs."""
        if self._request is not None:
            self._request.is_cancelled = True
        if self._is_running and not self._is_stopped and self._task is not None:
            self._is_stopped = True
            self._task.cancel()


def _take_back(task: asyncio.Task[Any] | None) -> bool:
    """Undo our cancellation of a task; tell whether nobody else cancelled it, too."""
    assert task is not None
    return task.uncancel() == 0


def _check_notification(exchange: Exchange, message: Notification) -> None:
    """Refuse a notification whose head contradicts it; the head may say nothing.

    2026-07-28 streamable-http leaves open what goes with notifications.
    """
    named = exchange.headers.get(METHOD.lower())
    if named is None:
        return
    if named != message.method or exchange.headers.repeats(METHOD.lower()):
        raise HttpProblem(
            400, HeaderMismatch(f"the header {METHOD} says something else")
        )


async def _refuse(exchange: Exchange, id: RequestId, error: RPCError) -> None:
    """Answer a request that no handler saw."""
    data, status, headers = _encode_failure(id, error, is_admitted=False)
    await exchange.reply_bytes(status, data, JSON, headers)


def _encode_success(id: RequestId, result: dict[str, Any]) -> tuple[bytes, int]:
    try:
        return encode(success(id, result)), 200
    except LocalProtocolError:
        logger.exception("a result could not be sent")
        return encode(failure(id, InternalError("the handler failed"))), 200


def _encode_failure(
    id: RequestId, error: RPCError, *, is_admitted: bool
) -> tuple[bytes, int, tuple[tuple[str, str], ...]]:
    status = http_status(error, is_admitted=is_admitted)
    headers: tuple[tuple[str, str], ...] = ()
    if isinstance(error, HttpRefusal):
        status, headers = error.http_status, error.http_headers
    try:
        return encode(failure(id, error)), status, headers
    except LocalProtocolError:
        logger.exception("the data of an error could not be sent")
        error = InternalError("the handler failed")
        return encode(failure(id, error)), 200, ()
