"""A session with an MCP server over HTTP, for threads: each call runs in its caller's.

What is made of the asyncio channel performs the calls; here is what only threads need.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpwire.sync._made.http_channel import HttpChannel
from mcpwire.transports.base import CallHandle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.errors import TransportError
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.answer import CallReply
    from mcpwire.protocol.http.reply import Reply
    from mcpwire.sync._lead import Waiter
    from mcpwire.sync._pending import EndFn
    from mcpwire.transports.base import NotifyFn
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["BlockingHttp"]


class BlockingHttp(HttpChannel):
    """A `Channel` over Streamable HTTP, for any number of threads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Re-entrant, for a finaliser may set a waiter in the middle of waiting.
        self._changed = threading.Condition(threading.RLock())
        self._clocks = threading.RLock()
        """Held while clocks stop and go on: handlers and streams are many threads."""

    def begin(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        deadline: Deadline | None,
        handle: CallHandle | None = None,
        on_notification: NotifyFn | None = None,
        on_end: EndFn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Perform a request in a thread of its own; `on_end` is told how it ended.

        Returns when the request has its id.
        """
        followed = handle if handle is not None else CallHandle()

        def run() -> None:
            outcome: dict[str, Any] | Exception
            try:
                outcome = self.call(
                    method,
                    params,
                    deadline=deadline,
                    handle=followed,
                    on_notification=on_notification,
                    headers=headers,
                )
            except Exception as error:  # noqa: BLE001 - a user's function may raise any
                outcome = error
            if on_end is not None:
                on_end(outcome)

        self._shell.begin(followed, run, lambda: self.cancel(followed))

    def can_enter(self) -> bool:
        """Tell whether this thread may use it now: each call has its own connection."""
        return True

    # Waiting for what others do...

    def wait(self, waiter: Waiter, timeout: float | None) -> bool:
        """Wait until something is set; return whether it is.

        That takes `timeout` seconds at most, ``None`` for ever, and ends with the
        channel.
        """
        waiter.belongs_to(self)
        until = None if timeout is None else monotonic() + timeout
        with self._changed:
            while not waiter.is_set and self._dead is None:
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    break
                # In slices, so that Ctrl-C is heard wherever it comes.
                self._changed.wait(1.0 if left is None else min(left, 1.0))
        return waiter.is_set

    def rouse(self, waiter: Waiter) -> None:
        """Wake whoever waits for something that was set."""
        del waiter
        with self._changed:
            self._changed.notify_all()

    # Clocks...

    def _hold(self, reply: Reply, held: list[CallReply]) -> None:
        with self._clocks:
            # Unless the answer was quicker: nobody would let them go on.
            if any(asked[1] is held for asked in list(self._asked.values())):
                super()._hold(reply, held)

    def _release(self, id: RequestId) -> None:
        with self._clocks:
            super()._release(id)

    def _let_go(self, call: CallReply) -> None:
        with self._clocks:
            super()._let_go(call)

    # The end...

    def _lose(self, error: TransportError) -> None:
        super()._lose(error)
        with self._changed:
            self._changed.notify_all()

    def give_up(self, error: TransportError) -> None:
        """Take the session for lost; also what is only told ends with it."""
        super().give_up(error)
        for reply in list(self._waiting.values()):
            self._abort(reply, self._closed_error(sent=True))

    def abandon(self) -> None:
        """Let go of the connections now; whoever lets time pass ends, too."""
        super().abandon()
        for reply in (*self._shell.paused(), *self._waiting.values(), *self._streams):
            self._abort(reply, self._closed_error(sent=True))
