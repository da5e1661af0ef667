"""What a session asks its client, and the answers, which come as POSTs of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import ConnectionClosed, MCPError, RequestTimeout
from mcpwire.wire import jsonrpc
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.wire.jsonrpc import RequestId

    Send = Callable[[bytes], None]

__all__ = ["Questions"]

CANCELLED: Final = "notifications/cancelled"


@attrs.define(eq=False)
class _Question:
    method: str
    future: asyncio.Future[dict[str, Any]]


class Questions:
    """The open requests of a server to one client, by id.

    Ids count up from 1 and are never used twice. Only those of this session are looked
    at, so that an answer from elsewhere finds nothing.
    """

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[RequestId, _Question] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    async def ask(
        self, send: Send, method: str, params: dict[str, Any], timeout: float | None
    ) -> dict[str, Any]:
        """Send a request and return what the client answers.

        Raises:
            LocalProtocolError: The params are not JSON; nothing was sent.
            RPCError: The client refused.
            RequestTimeout: It did not answer in time, and was told so.
            ConnectionClosed: The session has ended.
        """
        loop = asyncio.get_running_loop()
        id = self._last + 1
        data = encode(jsonrpc.request(id, method, params))
        self._last = id
        question = self._open[id] = _Question(method, loop.create_future())
        began = loop.time()
        try:
            send(data)
            async with asyncio.timeout(timeout):
                return await question.future
        except TimeoutError as error:
            # The client's answer may be an error of that kind.
            if isinstance(error, MCPError):
                raise
            self._withdraw(send, id, "timeout")
            elapsed = loop.time() - began
            assert timeout is not None
            raise RequestTimeout(
                method=method, timeout=timeout, elapsed=elapsed
            ) from error
        except asyncio.CancelledError:
            self._withdraw(send, id, "the request that asked is over")
            raise
        finally:
            self._open.pop(id, None)

    def _withdraw(self, send: Send, id: int, reason: str) -> None:
        # 2025-11-25 basic/utilities/cancellation. Who awaits a future and is cancelled
        # has cancelled the future; one that has an answer is left alone.
        question = self._open.get(id)
        if question is not None and question.future.cancelled():
            params = {"requestId": id, "reason": reason}
            send(encode(jsonrpc.notification(CANCELLED, params)))

    def take(self, message: jsonrpc.Success | jsonrpc.Failure) -> None:
        """Hand an answer to who asked; what answers nothing is dropped."""
        question = self._find(message.id)
        if question is None:
            return
        if isinstance(message, jsonrpc.Success):
            question.future.set_result(message.result)
        else:
            message.error.method = question.method
            question.future.set_exception(message.error)

    def fail(self, id: RequestId | None, error: MCPError) -> None:
        """End a question whose answer is malformed."""
        question = self._find(id)
        if question is not None:
            question.future.set_exception(error)

    def _find(self, id: RequestId | None) -> _Question | None:
        # Ids of ours are integers; 1.0 and True were refused before.
        question = self._open.get(id) if type(id) is int else None
        # Of two answers the first one counts.
        return None if question is None or question.future.done() else question

    def close(self) -> None:
        """End all questions: nobody will answer them."""
        waiting = list(self._open.values())
        self._open.clear()
        for question in waiting:
            if not question.future.done():
                question.future.set_exception(
                    ConnectionClosed(f"{question.method}: the session has ended")
                )
