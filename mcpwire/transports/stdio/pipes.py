"""A duplex channel over two file descriptors: its own small reads and writes.

asyncio's transports ask for 256 KiB per read, which costs three memory system calls per
answer wherever the heap lies badly; 64 KiB is what a pipe holds. Both ends are
non-blocking, reading goes on whatever happens to writing, and nothing is a task.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import TransportError
from mcpwire.transports._duplex import Duplex

if TYPE_CHECKING:
    import asyncio

    from mcpwire.transports.base import Inbound

__all__ = ["LAST_WORDS_S", "READ_BYTES", "PipeDuplex", "forget_descriptor"]

READ_BYTES: Final = 65_536
"""What a pipe holds on Linux, so more per read would not be filled."""

LAST_WORDS_S: Final = 0.1
"""How long a peer that no longer reads may still take to end its own output."""

WRITE_BYTES: Final = 1_048_576
"""The most one write is given; a longer message is passed on slice by slice."""

SHARED_BYTES: Final = 16_384
"""Lines up to this size wait in one buffer: each by itself would cost ten times its
bytes, and a peer that asks much and reads nothing chooses how many there are."""


def forget_descriptor(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    """Stop watching a descriptor, also when the loop is gone already."""
    if not loop.is_closed():
        loop.remove_reader(fd)
        loop.remove_writer(fd)


class PipeDuplex(Duplex):
    """A duplex channel that reads one descriptor and writes another.

    It owns both: closing the channel closes them.
    """

    def __init__(
        self, inbound: Inbound, read_fd: int, write_fd: int, **options: Any
    ) -> None:
        super().__init__(inbound, **options)
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._unwritten: deque[memoryview] = deque()
        self._shared = bytearray()  # comes after `_unwritten`; empty while that is
        self._write_failed = False
        self._start_reading()

    def _start_reading(self) -> None:
        """Make both ends non-blocking and hear of what comes."""
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._loop.add_reader(self._read_fd, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._stream_ended(f"reading failed: {error.strerror}", error)
            return
        if data:
            # After the end it is read only so that the peer can end too.
            if self._dead is None:
                self.receive(data)
        else:
            self._stream_ended("the peer closed its output")

    def _write(self, data: bytes) -> None:
        if self._unwritten:
            if len(data) <= SHARED_BYTES:
                self._shared += data
            else:
                self._seal()
                self._unwritten.append(memoryview(data))
            return
        if self._write_failed:
            return
        try:
            count = os.write(self._write_fd, data)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError as error:
            self._write_broke(error)
            return
        self._written += count
        if count != len(data):
            self._unwritten.append(memoryview(data)[count:])
            self._writing_waits()

    def _seal(self) -> None:
        """Put the lines that wait together in line with the rest."""
        if self._shared:
            self._unwritten.append(memoryview(self._shared))
            self._shared = bytearray()

    def _writable(self) -> None:
        unwritten = self._unwritten
        try:
            while unwritten:
                data = unwritten[0]
                count = os.write(self._write_fd, data[:WRITE_BYTES])
                self._written += count
                if count == len(data):
                    unwritten.popleft()
                    if not unwritten:
                        self._seal()
                else:
                    unwritten[0] = data[count:]
                    if count < WRITE_BYTES:
                        return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._write_broke(error)
            return
        self._writing_done()

    def _writing_waits(self) -> None:
        """The operating system takes no more for now."""
        self._loop.add_writer(self._write_fd, self._writable)

    def _writing_done(self) -> None:
        """Everything queued has been taken by the operating system."""
        self._loop.remove_writer(self._write_fd)

    def _write_broke(self, error: OSError) -> None:
        """Stop writing; what the peer wrote before it went may still be read."""
        self._write_failed = True
        if self._unwritten:
            self._forget_unwritten()
            self._loop.remove_writer(self._write_fd)
        self._loop.call_later(
            LAST_WORDS_S,
            self._stream_ended,
            f"the peer closed its input: {error.strerror}",
            error,
        )

    def _forget_unwritten(self) -> None:
        self._unwritten.clear()
        self._shared = bytearray()

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        """Nothing more will come; a subclass may know why."""
        self._stop_reading()
        self._lose(TransportError(why, target=self.target), cause)

    def _stop_reading(self) -> None:
        if self._read_fd >= 0:
            forget_descriptor(self._loop, self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1

    def _stop_writing(self) -> None:
        if self._write_fd >= 0:
            self._forget_unwritten()
            forget_descriptor(self._loop, self._write_fd)
            os.close(self._write_fd)
            self._write_fd = -1
            self._write_failed = True

    def forked(self) -> None:
        """Close our copies and leave the loop alone: its epoll is the parent's too."""
        super().forked()
        self._forget_unwritten()
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1
        self._write_failed = True

    def abandon(self) -> None:
        """Close both descriptors now, from anywhere, without a loop to wait on."""
        super().abandon()
        self._stop_writing()
        self._stop_reading()

    async def aclose(self) -> None:
        """Write what the peer takes at once, then close both descriptors."""
        await super().aclose()
        self._stop_writing()
        self._stop_reading()
