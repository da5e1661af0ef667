"""A call that has been sent and is waited for later.

It runs in a thread of its own, for input-required rounds and a lost connection may make
one call into many requests; the thread ends with it.
"""

from __future__ import annotations

import os
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, TypeVar

from mcpwire.errors import CallCancelled, LocalProtocolError
from mcpwire.transports.base import CallHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.sync._shell.connection import Connection
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["PendingCall", "StartedHandle"]

T = TypeVar("T")


class StartedHandle(CallHandle):
    """A handle that tells of each id its call gets."""

    __slots__ = ("_id", "_tell")

    def __init__(self, tell: Callable[[], None]) -> None:
        self._id: RequestId | None = None
        self._tell = tell
        self.on_cancel = None

    @property
    def request_id(self) -> RequestId | None:
        """The id on the wire."""
        return self._id

    @request_id.setter
    def request_id(self, value: RequestId | None) -> None:
        self._id = value
        self._tell()


class PendingCall(Generic[T]):
    """A call on its way; `result` waits for it, any number of times, in any thread."""

    def __init__(
        self, connection: Connection, method: str, call: Callable[[CallHandle], T]
    ) -> None:
        self._connection = connection
        self._method = method
        self._call = call
        self._handle = StartedHandle(self._sent)
        self._changed = threading.Condition()
        self._reason: str | None = None
        self._is_done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._process = os.getpid()
        channel = connection.channel
        if channel is not None and not channel.can_enter():
            raise LocalProtocolError(
                "this thread is reading or writing on this connection; what runs "
                "meanwhile (a hook, a signal handler) cannot start a call"
            )
        context = copy_context()
        threading.Thread(
            target=context.run, args=(self._run,), name=f"mcpwire-{method}", daemon=True
        ).start()

    def _run(self) -> None:
        result, error = None, None
        try:
            result = self._call(self._handle)
        except BaseException as raised:  # noqa: BLE001 - for whoever asks for the result
            error = raised
        self._end(result, error)

    def _end(self, result: T | None, error: BaseException | None) -> None:
        with self._changed:
            if not self._is_done:
                self._result, self._error, self._is_done = result, error, True
            self._changed.notify_all()

    def _sent(self) -> None:
        # Told by the channel, inside its mutex: nothing here waits for the channel.
        with self._changed:
            self._changed.notify_all()
        if self._reason is not None:
            threading.Thread(target=self._withdraw, daemon=True).start()

    def _withdraw(self) -> None:
        assert self._reason is not None
        self._connection.cancel(self._handle, self._reason)

    def started(self) -> PendingCall[T]:
        """Wait until the request is sent; raise what failed before that."""
        try:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_done or self.request_id is not None
                )
        except BaseException:
            self.cancel("the caller was interrupted")
            raise
        if self._is_done and self.request_id is None:
            self.result()
        return self

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end of the call and return its result.

        Raises what the call raises.

        Args:
            timeout: How long to wait, in seconds; the call has a limit of its own.

        Raises:
            TimeoutError: It has not ended by then, and goes on.
            LocalProtocolError: This process was forked off the one that waits for it.
        """
        if not self._is_done and self._process != os.getpid():
            raise LocalProtocolError(
                "this call belongs to the process that this one was forked from"
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_done, timeout):
                raise TimeoutError(f"{self._method} has not ended within {timeout:g} s")
        if self._error is not None:
            raise self._error
        result: T = self._result  # type: ignore[assignment]  # set where there is no error
        return result

    @property
    def request_id(self) -> RequestId | None:
        """The request's id on the wire; another after a restart or an input round."""
        return self._handle.request_id

    @property
    def done(self) -> bool:
        """Whether the call has ended, in whatever way."""
        return self._is_done

    def cancel(self, reason: str = "cancelled") -> None:
        """End the call: the server is told, and `result` raises `CallCancelled`.

        A call that has ended is left alone.
        """
        if self._is_done or self._reason is not None:
            return
        self._reason = reason
        is_waiting = self._connection.cancel(self._handle, reason)
        # Between two requests, what still comes of it is taken back as it begins.
        if not is_waiting and self._handle.on_cancel is not None:
            self._handle.on_cancel()
        self._end(None, CallCancelled(self._method, reason=reason))

    def __repr__(self) -> str:
        """Return one readable line."""
        state = "ended" if self.done else "running"
        return f"<mcpwire.sync.PendingCall {self._method} {self.request_id} {state}>"
