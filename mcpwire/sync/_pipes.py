"""A blocking connection over two descriptors: one poll and one read per answer.

Both ends are non-blocking. The leader polls for reading, for writing while bytes are
unwritten, and for a nudge: another thread has left something for it to do. Only who
leads closes descriptors, for another's poll would go on with a number that is re-used.
"""

from __future__ import annotations

import os
import select
from collections import deque
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import TransportError
from mcpwire.sync._duplex import BlockingDuplex
from mcpwire.transports.stdio.spawning import LAST_WORDS_S, READ_BYTES

if TYPE_CHECKING:
    from mcpwire.sync._lead import Event
    from mcpwire.transports.base import Inbound

__all__ = ["BlockingPipes"]

WRITE_BYTES: Final = 1_048_576
"""The most one write is given; a longer message is passed on slice by slice."""

SHARED_BYTES: Final = 16_384
"""Lines up to this size wait in one buffer; see `mcpwire.transports.stdio.pipes`."""


class BlockingPipes(BlockingDuplex):
    """A connection that reads one descriptor and writes another, and owns both."""

    __slots__ = (
        "_ending",
        "_is_nudged",
        "_nudge_fd",
        "_nudged_fd",
        "_poller",
        "_read_fd",
        "_shared",
        "_unwritten",
        "_write_failed",
        "_write_fd",
    )

    def __init__(
        self, inbound: Inbound, read_fd: int, write_fd: int, **options: Any
    ) -> None:
        super().__init__(inbound, **options)
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._nudged_fd, self._nudge_fd = os.pipe()
        self._is_nudged = False
        self._unwritten: deque[memoryview] = deque()
        self._shared = bytearray()  # comes after `_unwritten`; empty while that is
        self._write_failed = False
        self._ending: tuple[str, BaseException | None] | None = None
        self._poller = select.poll()
        self._poll = self._poller.poll
        for fd in (read_fd, write_fd, self._nudge_fd, self._nudged_fd):
            os.set_blocking(fd, False)
        self._poller.register(read_fd, select.POLLIN)
        self._poller.register(self._nudged_fd, select.POLLIN)

    # The leader's turn...

    def _take_in(self, events: list[Event]) -> None:
        for fd, _ in events:
            if self._dead is not None:
                return
            if fd == self._read_fd:
                try:
                    data = os.read(fd, READ_BYTES)
                except OSError as error:
                    self._read_failed(error)
                    continue
                if data:
                    self.receive(data)
                else:
                    self._stream_ended("the peer closed its output")
            elif fd == self._write_fd:
                self._write_out()
            elif fd == self._nudged_fd:
                self._is_nudged = False
                os.read(fd, READ_BYTES)
            else:
                self._see(fd)
        if self._has_dates:
            self._look_at_dates()
        if not events and self._dead is None:
            self._nothing_came()

    def _look_at_dates(self) -> None:
        """Do what is due."""
        if self._ends_at != inf and monotonic() >= self._ends_at:
            self._give_up_ending()
        self._end_begun()
        self._has_dates = self._ends_at != inf or any(
            call.deadline is not None for call in self._begun.values()
        )

    def _nothing_came(self) -> None:
        """Do what is to be done where polling was in vain."""

    def _unwatch(self, fd: int) -> None:
        """Poll that descriptor no more; safe to call twice."""
        try:
            self._poller.unregister(fd)
        except KeyError:
            return  # an interrupt came before it was registered, or after this

    def _see(self, fd: int) -> None:
        """Take in an event of a subclass's descriptor."""

    def _nudge(self) -> None:
        if not self._is_nudged and self._nudge_fd >= 0:
            os.write(self._nudge_fd, b"!")
            self._is_nudged = True

    def _read_failed(self, error: OSError) -> None:
        if not isinstance(error, (BlockingIOError, InterruptedError)):
            self._stream_ended(f"reading failed: {error.strerror}", error)

    # Writing...

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
            self._poller.register(self._write_fd, select.POLLOUT)
            self._wake_leader()

    def _seal(self) -> None:
        """Put the lines that wait together in line with the rest."""
        if self._shared:
            self._unwritten.append(memoryview(self._shared))
            self._shared = bytearray()

    def _write_out(self) -> None:
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
        self._unwatch(self._write_fd)
        self._all_written()

    def _write_broke(self, error: OSError) -> None:
        """Stop writing; what the peer wrote before it went may still be read."""
        self._write_failed = True
        self._forget_unwritten()
        if self._ending is None:
            self._end_soon(f"the peer closed its input: {error.strerror}", error)

    def _forget_unwritten(self) -> None:
        if self._unwritten:
            self._unwritten.clear()
            self._unwatch(self._write_fd)
        self._shared = bytearray()

    # The end...

    def _check_alive(self) -> None:
        if self._ending is not None and self._dead is None and self._read_fd < 0:
            # The end was seen, and nobody had the time to wait for more of it.
            self._give_up_ending()
        super()._check_alive()

    def _end_soon(self, why: str, cause: BaseException | None = None) -> None:
        """Let the peer's last words come in, but not for long."""
        self._ending = (why, cause)
        self._ends_at = monotonic() + LAST_WORDS_S
        self._has_dates = True
        self._wake_leader()

    def _stream_ended(self, why: str, cause: BaseException | None = None) -> None:
        """Nothing more will come; a subclass may know why."""
        self._stop_reading()
        self._end(why, cause)

    def _end(self, why: str, cause: BaseException | None = None) -> None:
        self._lose(TransportError(why, target=self.target), cause)

    def _give_up_ending(self) -> None:
        """The time for last words is over."""
        assert self._ending is not None
        self._stop_reading()
        self._end(*self._ending)

    def _hang_up(self) -> None:
        self._stop_writing()

    def _stop_reading(self) -> None:
        fd, self._read_fd = self._read_fd, -1
        if fd >= 0:
            os.close(fd)
            self._unwatch(fd)

    def _stop_writing(self) -> None:
        if self._write_fd >= 0:
            self._forget_unwritten()
            self._write_failed = True
            fd, self._write_fd = self._write_fd, -1
            os.close(fd)

    def _close_descriptors(self) -> None:
        self._stop_writing()
        self._stop_reading()
        # One at a time, and no call between taking it and closing it: an interrupt must
        # not lose those that are still open.
        fd, self._nudged_fd = self._nudged_fd, -1
        if fd >= 0:
            os.close(fd)
        fd, self._nudge_fd = self._nudge_fd, -1
        if fd >= 0:
            os.close(fd)

    def _shut(self) -> None:
        with self._mutex:
            self._close_descriptors()

    def forked(self) -> None:
        """Close our copies of the descriptors; the parent keeps its own."""
        super().forked()
        self._close_descriptors()

    def abandon(self) -> None:
        """Close everything now, from anywhere, without waiting."""
        super().abandon()
        self._nudge()  # a thread that reads on must not go on for ever
        self._close_descriptors()
