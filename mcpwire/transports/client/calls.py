"""A call that has been sent and is waited for later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mcpwire.errors import CallCancelled, ConnectionClosed
from mcpwire.transports.base import CallHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from mcpwire.transports.client.connection import Connection
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["PendingCall", "StartedHandle"]

T = TypeVar("T")


class StartedHandle(CallHandle):
    """A handle that tells when its first request has got an id."""

    __slots__ = ("_id", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._id: RequestId | None = None
        self.on_cancel = None

    @property
    def request_id(self) -> RequestId | None:
        """The id on the wire."""
        return self._id

    @request_id.setter
    def request_id(self, value: RequestId | None) -> None:
        self._id = value
        self.wake()

    def wake(self) -> None:
        """Let go who waits for the first id, whether there is one or will be none."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def started(self) -> None:
        """Wait for the first id, or for `wake`; nothing stands between the two."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting


class PendingCall(Generic[T]):
    """A call on its way; awaiting it returns its result, any number of times.

    Awaiting raises what the call raises. Cancelling who awaits leaves the call alone;
    `cancel` ends it.
    """

    def __init__(
        self, connection: Connection, method: str, call: Callable[[CallHandle], Any]
    ) -> None:
        self._connection = connection
        self._method = method
        self._handle = StartedHandle()
        self._reason: str | None = None
        self._task: asyncio.Task[T] = connection.spawn(
            self._run(call(self._handle)), method
        )
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._handle.wake()
        if not task.cancelled():
            task.exception()  # which nobody may ever ask for

    async def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return await call
        except asyncio.CancelledError:
            if self._reason is None:  # nobody else can cancel it than the closing
                raise ConnectionClosed(
                    "closed by this side", sent=self._handle.request_id is not None
                ) from None
            raise CallCancelled(self._method, reason=self._reason) from None

    async def started(self) -> PendingCall[T]:
        """Wait until the request is sent, or has failed before that."""
        handle, task = self._handle, self._task
        if handle.request_id is None and not task.done():
            try:
                await handle.started()
            except asyncio.CancelledError:
                self.cancel("the caller cancelled")
                raise
        if handle.request_id is None and task.done():
            await task
        return self

    @property
    def request_id(self) -> RequestId | None:
        """The request's id on the wire; another after a restart or an input round."""
        return self._handle.request_id

    @property
    def done(self) -> bool:
        """Whether the call has ended, in whatever way."""
        return self._task.done()

    def cancel(self, reason: str = "cancelled") -> None:
        """End the call: the server is told, and whoever awaits gets `CallCancelled`.

        A call that has ended is left alone.
        """
        if self._task.done() or self._reason is not None:
            return
        self._reason = reason
        if not self._connection.cancel(self._handle, reason):
            self._task.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.shield(self._task).__await__()

    def __repr__(self) -> str:
        """Return one readable line."""
        state = "ended" if self.done else "running"
        return f"<mcpwire.PendingCall {self._method} {self.request_id} {state}>"
