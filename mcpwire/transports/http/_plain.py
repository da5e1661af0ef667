"""A transport over TCP without TLS, in place of asyncio's own.

A call over HTTP is one small write and one small read, and asyncio's transport spends
five Python calls on these: checks for protocols of other kinds, a buffer that is asked
for each time, what sending a file needs. Here the socket is read straight into the
connection's own buffer, at most once per turn of the loop so that others have theirs.

To the protocol it is what asyncio's is: `connection_lost` comes once, from the loop and
not out of a call of the protocol's, and nothing comes after it; the end of the stream,
an error of the socket and one of the protocol close it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

__all__ = ["PlainTransport", "can_watch"]

HIGH_WATER_BYTES: Final = 65_536
"""With more than that unwritten, the protocol is to pause; asyncio's default, too."""

LOW_WATER_BYTES: Final = 16_384
"""With no more than that unwritten, it may go on."""

_LATER: Final = (BlockingIOError, InterruptedError)


def can_watch(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a loop watches sockets for us."""
    return type(loop).add_reader is not asyncio.AbstractEventLoop.add_reader


class PlainTransport(asyncio.Transport):
    """Moves bytes between a connected, non-blocking socket and a buffered protocol.

    It belongs to the protocol, and reads, as soon as it is made.
    """

    __slots__ = (
        "_fd",
        "_is_closing",
        "_is_full",
        "_is_lost",
        "_loop",
        "_protocol",
        "_receive",
        "_send",
        "_socket",
        "_unwritten",
        "_updated",
        "_view",
    )

    _protocol: asyncio.BufferedProtocol

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        protocol: asyncio.BufferedProtocol,
    ) -> None:
        super().__init__({"socket": sock})
        self._loop = loop
        self._socket = sock
        self._fd = sock.fileno()
        self._receive = sock.recv_into
        self._send = sock.send
        self._unwritten = bytearray()
        self._is_closing = self._is_full = self._is_lost = False
        self.set_protocol(protocol)
        protocol.connection_made(self)
        if not self._is_closing:
            loop.add_reader(self._fd, self._read)

    def __repr__(self) -> str:
        """Return one readable line."""
        state = "closing" if self._is_closing else "open"
        return f"<{type(self).__name__} fd={self._fd} {state}>"

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Read for that protocol from now on, into the one buffer that it has."""
        assert isinstance(protocol, asyncio.BufferedProtocol), "it brings no buffer"
        self._protocol = protocol
        self._updated = protocol.buffer_updated
        self._view = protocol.get_buffer(-1)

    # Reading...

    def read_into(self, view: memoryview) -> None:
        """Read into that from now on."""
        self._view = view

    def _read(self) -> None:
        if self._is_closing:  # a loop may have noted it down before
            return
        try:
            count = self._receive(self._view)
        except _LATER:
            return
        except OSError as error:
            self._lose(error)
            return
        try:
            if count:
                self._updated(count)
            else:
                self._protocol.eof_received()
                self.close()
        except Exception as error:  # noqa: BLE001 - a bug of the protocol's: it is told
            self._fail(error)

    # Writing...

    def put(self, data: bytes | memoryview) -> bool:
        """Write, and tell whether that can still do anything; never blocks."""
        if self._is_closing:
            return False
        if not self._unwritten:
            try:
                count = self._send(data)
            except _LATER:
                count = 0
            except OSError as error:
                self._lose(error)
                return False
            if count == len(data):
                return True
            data = memoryview(data)[count:]
            self._loop.add_writer(self._fd, self._flush)
        self._unwritten += data
        if len(self._unwritten) > HIGH_WATER_BYTES and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write; what the system does not take now is kept."""
        self.put(memoryview(data))

    def _flush(self) -> None:
        if self._is_lost:  # as in `_read`
            return
        try:
            count = self._send(self._unwritten)
        except _LATER:
            return
        except OSError as error:
            self._lose(error)
            return
        del self._unwritten[:count]
        if self._is_full and len(self._unwritten) <= LOW_WATER_BYTES:
            self._is_full = False
            try:
                self._protocol.resume_writing()  # which may write more
            except Exception as error:  # noqa: BLE001 - as in `_read`
                self._fail(error)
        if not self._unwritten and not self._is_lost:
            self._loop.remove_writer(self._fd)
            if self._is_closing:
                self._lose(None)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the system has not taken yet."""
        return len(self._unwritten)

    # The end...

    def is_closing(self) -> bool:
        """Tell whether it is closed, or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Read no more, and close as soon as everything is written."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.remove_reader(self._fd)
            if not self._unwritten:
                self._lose(None)

    def abort(self) -> None:
        """Close without writing what is left."""
        self._lose(None)

    def _fail(self, error: Exception) -> None:
        self._loop.call_exception_handler(
            {
                "message": "an HTTP connection failed by itself",
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        """Have the protocol told, once and from the loop."""
        if self._is_lost:
            return
        self._is_lost = True
        if self._unwritten:
            self._unwritten.clear()
            self._loop.remove_writer(self._fd)
        if not self._is_closing:
            self._is_closing = True
            self._loop.remove_reader(self._fd)
        self._loop.call_soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()
            # They hold each other: without this only the collector could free them.
            del self._protocol, self._updated
