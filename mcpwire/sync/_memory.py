"""A blocking connection to a server object in this process.

A server object runs on asyncio, so it gets a loop of its own, in a thread of its own,
for as long as the connection lives. This side has no loop: the bytes go through a pair
of sockets, and what is true of a child's pipes is true of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.sync._pipes import BlockingPipes
from mcpwire.transports.stdio.spawning import READ_BYTES

if TYPE_CHECKING:
    from mcpwire.errors import TransportError
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.transports.targets import InMemory

__all__ = ["BlockingMemory"]

NAME: Final = "mcpwire-memory"

CLEANING_UP_S: Final = 1.0
"""How long the server's tasks may take to end after they were cancelled."""


class BlockingMemory(BlockingPipes):
    """A connection to a server object, which runs beside it in a thread."""

    __slots__ = ("_host",)

    def __init__(
        self, inbound: Inbound, ours: socket.socket, host: _Host, limits: Limits
    ) -> None:
        self._host = host
        # Two descriptors, for each is polled, and closed, by itself.
        read_fd = ours.detach()
        super().__init__(
            inbound, read_fd, os.dup(read_fd), limits=limits, target="memory"
        )

    @classmethod
    def open(
        cls, server: InMemory, inbound: Inbound, *, limits: Limits = DEFAULT_LIMITS
    ) -> BlockingMemory:
        """Serve one connection in a thread, and connect to it.

        Raises whatever the server object raises.
        """
        ours, theirs = socket.socketpair()
        host = _Host(server, theirs, limits)
        try:
            host.start()
            return cls(inbound, ours, host, limits)
        except BaseException:
            ours.close()
            host.join(limits)
            raise

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        super()._stream_ended(why if cause is not None else "the peer closed it", cause)

    def _shut(self) -> None:
        super()._shut()
        self._host.join(self._limits)

    def forked(self) -> None:
        """Close our copies; the thread is not here."""
        super().forked()
        self._host.forked()


class _Host:
    """The thread and the loop of one server, and its end of the sockets."""

    def __init__(self, server: InMemory, theirs: socket.socket, limits: Limits) -> None:
        theirs.setblocking(False)
        self._server = server
        self._socket = theirs
        self._limits = limits
        self._near: MemoryChannel | None = None
        self._partial: list[bytes] = []
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._failure: BaseException | None = None
        self._has_begun = threading.Event()
        self._is_over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)

    # From the connection's side...

    def start(self) -> None:
        """Start serving; raise what the server object raises."""
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
            self._has_begun.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_over = asyncio.Event()
        try:
            near = self._server.open_in_memory(self, self._limits)
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            self._failure = error
            return
        self._near = near
        near.receive = self._send  # type: ignore[method-assign]  # a conduit of bytes
        try:
            self._loop.add_reader(self._socket, self._readable)
            self._has_begun.set()
            await self._is_over.wait()
        finally:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            await near.aclose()
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
        if newline and self._near is not None:
            # What is delivered in memory are whole lines, whoever made them.
            self._partial.append(whole + newline)
            self._near._write(b"".join(self._partial))  # noqa: SLF001 - our own end
            self._partial.clear()
        if rest:
            self._partial.append(rest)

    def _send(self, data: bytes) -> None:
        """Pass on what the server wrote; what the socket does not take waits."""
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
        elif self._unsent_bytes > self._limits.unwritten:
            self._is_over.set()  # nobody reads, and there is no end to it

    # What the near end hears (`Inbound`): bytes pass it by, so only of its end.

    def notification(self, *_: Any) -> None: ...

    def request(self, *_: Any) -> None: ...

    def cancelled(self, *_: Any) -> None: ...

    def lost(self, error: TransportError) -> None:
        """End with the server; what it wrote before goes out first, if it is taken."""
        del error
        self._is_over.set()


async def _cancel_the_rest() -> None:
    """Cancel the server's tasks and wait for them, but not for ever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks, timeout=CLEANING_UP_S)
