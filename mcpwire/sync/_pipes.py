"""A blocking connection over two descriptors: one poll and one read per answer.

Both ends are non-blocking. The leader polls for reading, for writing while bytes are
unwritten, and for a nudge: another thread has left something for it to do. Only who
leads closes descriptors, for another's poll would go on with a number that is re-used.
"""

from __future__ import annotations

import os
import select
from math import inf
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import TransportError
from mcpwire.sync._duplex import BlockingDuplex
from mcpwire.sync._lead import READ_BYTES
from mcpwire.transports.stdio.spawning import LAST_WORDS_S

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
        "_is_full",
        "_is_nudged",
        "_nudge_fd",
        "_nudged_fd",
        "_poller",
        "_to_close",
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
        self._is_full = False
        """Whether the leader waits until the peer has read."""
        self._to_close = -1
        """What the writer is to close when it is through."""
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
        # Who wrote may be through, and not yet have come to what others lined up.
        if self._unwritten or self._shared or self._writer:
            self._line_up(data)
            if not (self._writer or self._is_full):
                self._write_out()  # who wrote was through in this moment
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
            self._wait_for_room()

    def _line_up(self, data: bytes) -> None:
        """Let bytes wait until those before them are written."""
        if len(data) <= SHARED_BYTES:
            self._shared += data
        else:
            self._seal()
            self._unwritten.append(memoryview(data))

    def _wait_for_room(self) -> None:
        """Have the leader write the rest once the peer has read."""
        if not self._is_full:
            self._poller.register(self._write_fd, select.POLLOUT)
            self._is_full = True
            self._wake_leader()

    def _write_given(self, ident: int) -> None:
        """Write a request, and what others sent meanwhile: they only line it up."""
        while True:
            data, failure = self._given, None
            try:
                count = os.write(self._write_fd, data)
            except (BlockingIOError, InterruptedError):
                count = 0
            except OSError as error:
                count, failure = 0, error
            if count == len(data):
                self._written += count
                self._given = b""
                self._writer = 0
                # Looked at after that: who lines up looks at it the other way round.
                if not (
                    self._shared
                    or self._unwritten
                    or self._drains
                    or self._to_close >= 0
                ):
                    return
            with self._mutex:
                self._holder = ident
                if self._torn:
                    self._poison()
                if self._writer == ident:
                    self._written += count
                    self._given = b""
                    self._writer = 0
                    self._give_rest(memoryview(data)[count:], failure)
                self._go_on_writing(ident)
                goes_on = self._writer == ident
                self._holder = 0
            if not goes_on:
                return

    def _give_rest(self, rest: memoryview, failure: OSError | None) -> None:
        """Keep what the system did not take."""
        if failure is not None:
            if self._dead is None:
                self._write_broke(failure)
        elif not self._write_failed:
            self._unwritten.appendleft(rest)
            self._wait_for_room()

    def _go_on_writing(self, ident: int) -> None:
        """Take what was lined up, unless somebody else is at it."""
        self._close_late()
        if self._writer or self._is_full or self._write_failed:
            return
        if self._unwritten or self._shared:
            if self._unwritten:
                self._given = self._unwritten.popleft()
                if len(self._given) > WRITE_BYTES:
                    self._unwritten.appendleft(self._given[WRITE_BYTES:])
                    self._given = self._given[:WRITE_BYTES]
            else:
                self._given, self._shared = self._shared, bytearray()
            self._writer = ident
        else:
            self._all_written()

    def _stop_giving(self, ident: int) -> None:
        if self._writer == ident:
            self._torn = True  # nobody knows how much was written
            self._writer = 0
        elif not (self._writer or self._is_full) and (self._unwritten or self._shared):
            self._write_out()
        self._close_late()

    def _close_late(self) -> None:
        """Close what was to be closed while somebody wrote."""
        if not self._writer:
            fd, self._to_close = self._to_close, -1
            if fd >= 0:
                os.close(fd)

    def _seal(self) -> None:
        """Put the lines that wait together in line with the rest."""
        if self._shared:
            self._unwritten.append(memoryview(self._shared))
            self._shared = bytearray()

    def _write_out(self) -> None:
        unwritten = self._unwritten
        if not unwritten:
            self._seal()
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
                        self._wait_for_room()
                        return
        except (BlockingIOError, InterruptedError):
            self._wait_for_room()
            return
        except OSError as error:
            self._write_broke(error)
            return
        self._has_room()
        self._all_written()

    def _write_broke(self, error: OSError) -> None:
        """Stop writing; what the peer wrote before it went may still be read."""
        self._write_failed = True
        self._forget_unwritten()
        if self._ending is None:
            self._end_soon(f"the peer closed its input: {error.strerror}", error)

    def _has_room(self) -> None:
        if self._is_full:
            self._is_full = False
            self._unwatch(self._write_fd)

    def _forget_unwritten(self) -> None:
        self._unwritten.clear()
        self._has_room()
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
            if self._writer not in {0, get_ident()}:
                # Its number must not be used anew while that thread writes.
                self._to_close, self._write_fd = self._write_fd, -1
                self._close_late()  # unless it is through by now
                return
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
        self._writer = 0  # that thread is not here
        self._close_late()
        self._close_descriptors()

    def abandon(self) -> None:
        """Close everything now, from anywhere, without waiting."""
        super().abandon()
        self._nudge()  # a thread that reads on must not go on for ever
        self._close_descriptors()
