"""A loop in a thread that serves one blocking connection through a pair of sockets.

What exists on asyncio only (a server object, HTTP+SSE) runs there for as long as the
connection lives. This side has no loop: whole lines go through the sockets both ways,
and what is true of a child's pipes is true of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mcpwire.sync._bell import Bell
from mcpwire.sync._pipes import BlockingPipes
from mcpwire.transports.stdio.spawning import READ_BYTES

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable

    from mcpwire.limits import Limits
    from mcpwire.transports.base import Inbound

__all__ = ["Relay", "RelayedPipes"]

CLEANING_UP_S: Final = 1.0
"""How long what runs on the loop may take to end after it was cancelled."""


class RelayedPipes(BlockingPipes):
    """A connection to what runs beside it in a thread."""

    __slots__ = ("_relay",)

    def __init__(
        self, inbound: Inbound, ours: socket.socket, relay: Relay, **options: Any
    ) -> None:
        self._relay = relay
        # Two descriptors, for each is polled, and closed, by itself.
        read_fd = ours.detach()
        super().__init__(inbound, read_fd, os.dup(read_fd), **options)

    def _shut(self) -> None:
        super()._shut()
        self._relay.join(self._limits)

    def forked(self) -> None:
        """Close our copies; the thread is not here."""
        super().forked()
        self._relay.forked()


class Relay:
    """The thread, its loop, and its end of the sockets; subclasses say what runs."""

    def __init__(self, theirs: socket.socket, limits: Limits, name: str) -> None:
        theirs.setblocking(False)
        self._socket = theirs
        self._limits = limits
        self._partial: list[bytes] = []
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._is_ending = False
        self._failure: BaseException | None = None
        self._has_begun = Bell()
        self._is_over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # What runs on the loop...

    def _begin(self) -> None:
        """Open what is served; what it raises comes out of `start`."""
        raise NotImplementedError

    def _pass_on(self, lines: bytes) -> None:
        """Take whole lines of the connection's."""
        raise NotImplementedError

    def _closing(self) -> Awaitable[None]:
        """Return what closes what was opened."""
        raise NotImplementedError

    # From the connection's side...

    def start(self) -> None:
        """Start serving; raise what `_begin` raises."""
        self._thread.start()
        self._has_begun.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def join(self, limits: Limits) -> None:
        """Wait for the thread's end, which the end of the stream has begun."""
        if self._thread.ident is None:
            self._socket.close()
        elif self._thread is not threading.current_thread():
            self._thread.join(limits.close_grace + limits.terminate_grace)

    def forked(self) -> None:
        """Close the copy of the socket."""
        self._socket.close()

    # In the thread...

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._socket.close()
            self._has_begun.ring()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_over = asyncio.Event()
        try:
            self._begin()
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            self._failure = error
            return
        try:
            self._loop.add_reader(self._socket, self._readable)
            self._has_begun.ring()
            await self._is_over.wait()
        finally:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            await self._closing()
            await _cancel_the_rest()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._is_over.set()
            return
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            self._partial.append(whole + newline)
            self._pass_on(b"".join(self._partial))
            self._partial.clear()
        if rest:
            self._partial.append(rest)

    def _send(self, data: bytes) -> None:
        """Give bytes to the connection; what the socket does not take waits."""
        if not self._unsent:
            self._loop.add_writer(self._socket, self._writable)
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)
        self._writable()

    def _writable(self) -> None:
        try:
            while self._unsent:
                data = self._unsent[0]
                count = self._socket.send(data)
                self._unsent_bytes -= count
                if count < len(data):
                    self._unsent[0] = data[count:]
                    break
                self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._is_over.set()
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._socket)
            if self._is_ending:
                self._is_over.set()
        elif self._unsent_bytes > self._limits.unwritten:
            self._is_over.set()  # nobody reads, and there is no end to it

    def _end(self) -> None:
        """End, once the connection has taken what there is for it."""
        self._is_ending = True
        if not self._unsent:
            self._is_over.set()


async def _cancel_the_rest() -> None:
    """Cancel the tasks that are left and wait for them, but not for ever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks, timeout=CLEANING_UP_S)
