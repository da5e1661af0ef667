"""One blocking connection to an HTTP server: a non-blocking socket, and its owner.

It is owned by one thread at a time, from when it is taken out of the pool until its
response is complete; `Connection.owner` says by which exchange. Only the owner reads,
writes and closes. Another thread may only `wake` it, under the engine's mutex, which
closing takes as well: so nobody shuts down a descriptor that is re-used already.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from math import inf
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn

from mcpwire.errors import ConnectionClosed, MCPError
from mcpwire.protocol.http.framing import ResponseReader
from mcpwire.sync._http._connecting import Patience, connect
from mcpwire.transports.http._sockets import (
    acknowledged,
    connect_error,
    ended_by_fin,
    is_certificate_refusal,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["Connection", "Unseen"]

READ_BYTES: Final = 65_536

WRITE_BYTES: Final = 1_048_576
"""The most that one write is given."""

FINISHING_READS: Final = 4
"""How much of the rest of a body is read on the way to something else, in reads."""

LONGEST_POLL_S: Final = 1.0
"""Nobody waits in the system for longer at a time: deadlines move, and a signal that
comes in the moment before is heard only afterwards."""

_LONGEST_READ: Final = struct.pack("ll", int(LONGEST_POLL_S), 0)


class Unseen(Exception):
    """The request provably did not reach the server's program.

    Attributes:
        is_stale: Nothing was sent: the connection had ended while it was idle.
    """

    def __init__(self, why: str, *, is_stale: bool = False) -> None:
        super().__init__(why)
        self.is_stale = is_stale


class Connection:
    """A connection to the target's origin.

    Attributes:
        reader: Cuts the responses out of what comes.
        socket: ``None`` before it is open and after it is closed.
        owner: The exchange that owns it; 0 in the pool.
        error: What an abort ends the exchange with.
        begun_at: What was written before this exchange.
        may_be_seen: Whether its request may have reached the server: it is being sent,
            and another thread cannot know how far the system is with that.
        written: Bytes of requests handed to the operating system.
        until: When it is not to be trusted any more, in the pool.
    """

    __slots__ = (
        "__weakref__",
        "_acknowledged",
        "_at_once",
        "_buffer",
        "_held",
        "_mutex",
        "_poll",
        "_poller",
        "_receive",
        "_send",
        "_socket",
        "_target",
        "_view",
        "_would_block",
        "begun_at",
        "error",
        "has_unwritten",
        "is_secure",
        "may_be_seen",
        "owner",
        "reader",
        "socket",
        "until",
        "written",
    )

    _poll: Callable[[float], list[tuple[int, int]]]

    def __init__(self, target: Http, limits: Limits, mutex: RLock) -> None:
        self._mutex = mutex
        self._held: list[socket.socket] = []
        self.socket: socket.socket | None = None
        self.is_secure = False
        self.reader = ResponseReader(limits)
        self.owner = 0
        self.error: MCPError | None = None
        self.written = 0
        self.may_be_seen = False
        self.until = 0.0
        self.has_unwritten = False
        """Whether the last request was not written to its end."""
        self._target = target
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self.begun_at = 0
        self._acknowledged = 0
        self._at_once = 0
        """What makes a call on the socket wait for nothing."""
        self._would_block: tuple[type[OSError], ...] = (
            BlockingIOError,
            InterruptedError,
        )

    def __del__(self) -> None:
        # Whoever is interrupted between taking it from a list and writing that down
        # leaves it to nobody; and whoever is while it is made, without some attributes.
        with contextlib.suppress(AttributeError):
            self.close()

    @property
    def sent(self) -> int:
        """How much of the current request was written."""
        return self.written - self.begun_at

    # The beginning...

    def open(
        self, context: ssl.SSLContext | None, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Connect.

        Raises:
            ConnectError: No connection came about.
            MCPError: The exchange was aborted, or its time is over.
        """
        patience = Patience(self, self._target, reply, deadline)
        sock = connect(self._target, context, self._held, patience)
        if context is not None:
            import ssl

            self.is_secure = True
            self._would_block += (ssl.SSLWantReadError, ssl.SSLWantWriteError)
        else:
            # The system waits within the read: one call in place of two.
            sock.setblocking(True)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LONGEST_READ)
            self._at_once = socket.MSG_DONTWAIT
        self._receive = sock.recv_into
        self._send = sock.send
        self._poller = select.poll()
        self._poller.register(sock, select.POLLIN)
        self._poll = self._poller.poll
        self.socket = self._socket = sock
        if self.error is not None:  # whoever set it may not have seen the socket
            raise self.error

    # One exchange...

    def run(
        self,
        first: bytes,
        rest: memoryview | None,
        reply: Fed,
        deadline: Deadline | None,
    ) -> None:
        """Send a request and feed its reply until that is over.

        Raises:
            Unseen: It may be sent again, elsewhere.
            ConnectError: The server's TLS refuses us.
            ConnectionClosed: The connection ended before the reply was over.
            MCPError: What the reply raised, or an abort was given.
        """
        self.begun_at = written = self.written
        if written and self._poll(0) and not self._is_sound():
            raise Unseen("the connection ended while it was idle", is_stale=True)
        reader = self.reader
        reader.expect(reply)
        self._acknowledged = acknowledged(self._socket) if self.is_secure else 0
        self.may_be_seen = True
        try:
            self.written += self._send(first, self._at_once)
        except OSError as error:
            if not isinstance(error, self._would_block):
                self._write_failed(error, reply)
        if rest is not None or self.written - written != len(first):
            self._write_rest(first, rest, reply, deadline)
        # Here and not in a function of its own: it is one call less for each request.
        while not (reply.is_over or reader.is_complete):
            left = inf if deadline is None else deadline.at - monotonic()
            if left <= 0:
                raise reply.out_of_time(monotonic())
            try:
                if left >= LONGEST_POLL_S and not self.is_secure:
                    count = self._receive(self._buffer)
                else:
                    self._wait(left)
                    count = self._receive(self._buffer, READ_BYTES, self._at_once)
            except OSError as error:
                self._not_read(error, reply)
                continue
            if count:
                reader.feed(self._view[:count])
            else:
                self._ended()

    def _not_read(self, error: OSError, reply: Fed) -> None:
        """Return where a read only was in vain; raise what it means if not."""
        if not isinstance(error, self._would_block):
            self._read_failed(error)
        self._look_at_abort(reply)

    def _look_at_abort(self, reply: Fed) -> None:
        """Raise what an abort was given that was itself interrupted before it woke us.

        A channel writes it down before it tells the engine.
        """
        error: MCPError | None = self.error or getattr(reply, "aborted", None)
        if error is not None:
            raise error

    def _wait(self, seconds: float) -> None:
        """Wait until something can be read, which no poll shows of what TLS holds."""
        if not (self.is_secure and self._socket.pending()):  # type: ignore[attr-defined]  # an SSLSocket
            self._poll(min(seconds, LONGEST_POLL_S) * 1000)

    def _is_sound(self) -> bool:
        """Tell whether an idle connection lives although something came on it.

        That is its end, or bytes of the server that belong to no request and make its
        next answer doubtful; but TLS may talk to itself: tickets, new keys.
        """
        try:
            self._receive_at_once()
        except self._would_block:
            return True
        except OSError:
            return False
        return False

    def finish(self, wait_s: float = 0.0) -> bool:
        """Read on in a response whose reply is over; return whether it is complete.

        Sets `until` to zero where nothing good can come of it any more.
        """
        reader = self.reader
        self._poll(wait_s * 1000)
        try:
            for _ in range(FINISHING_READS):
                if reader.is_complete:
                    break
                count = self._receive_at_once()
                if not count:
                    reader.eof()
                    self.until = 0.0
                    return False
                reader.feed(self._view[:count])
        except self._would_block:
            return False
        except (OSError, MCPError):  # nobody waits for what this would have been
            self.until = 0.0
            return False
        return reader.is_complete

    # Writing...

    def _write_rest(
        self,
        first: bytes,
        rest: memoryview | None,
        reply: Fed,
        deadline: Deadline | None,
    ) -> None:
        """Write what the system did not take at once, and what stands behind it."""
        self._write_on(memoryview(first)[self.sent :], reply, deadline)
        if rest is not None:
            self._write_on(rest, reply, deadline)

    def _write_on(
        self, data: memoryview, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Write what is left, and hear what the server says meanwhile.

        It may answer before it has read all, and then read no more.
        """
        if self.has_unwritten:
            return
        self.has_unwritten = True
        reader = self.reader
        self._poller.modify(self._socket, select.POLLIN | select.POLLOUT)
        while data:
            for _, events in self._poll(_slice(reply, deadline) * 1000):
                if events & ~select.POLLOUT:
                    self._read_once()
            if reply.is_over or reader.is_complete:
                return
            self._look_at_abort(reply)
            try:
                count = self._send(data[:WRITE_BYTES], self._at_once)
            except self._would_block:
                continue
            except OSError as error:
                self._write_failed(error, reply)
                return
            self.written += count
            data = data[count:]
        self._poller.modify(self._socket, select.POLLIN)
        self.has_unwritten = False

    def _write_failed(self, error: OSError, reply: Fed) -> None:
        """Hear what the server said before it went; return where that is anything."""
        if self.error is not None:
            raise self.error
        self.has_unwritten = True
        self._read_once()
        if not self.reader.has_begun:
            # It has not got all of it, so nobody can have acted on it.
            raise Unseen(f"writing failed: {error.strerror}") from error

    # Reading...

    def _receive_at_once(self) -> int:
        return self._receive(self._buffer, READ_BYTES, self._at_once)

    def _read_once(self) -> None:
        try:
            count = self._receive_at_once()
        except self._would_block:
            return
        except OSError as error:
            self._read_failed(error)
        if count:
            self.reader.feed(self._view[:count])
        else:
            self._ended()

    def _ended(self) -> None:
        """Take note of the end of the stream; return where that ends a response."""
        if self.error is not None:
            raise self.error
        reader = self.reader
        if reader.eof():
            return
        why = f"the server closed the connection {reader.place}"
        if not reader.has_begun and self._is_unseen():
            raise Unseen(why)
        raise self._closed(why)

    def _is_unseen(self) -> bool:
        """Tell whether the server cannot have got the whole request."""
        if self.has_unwritten:
            return True
        before = 1 + self.begun_at
        if self.is_secure:
            # What ended there is what TLS carries: by FIN, or by RST, which proves
            # nothing.
            before = self._acknowledged
            if not (before and ended_by_fin(self._socket)):
                return False
        return acknowledged(self._socket) == before

    def _read_failed(self, error: OSError) -> NoReturn:
        """Raise what it means that reading fails."""
        if self.error is not None:
            raise self.error from error
        reader = self.reader
        if self.is_secure:
            import ssl

            if isinstance(error, ssl.SSLEOFError) and not reader.has_begun:
                self._ended()
            if self.begun_at == 0 and is_certificate_refusal(error):
                raise connect_error(self._target, error) from error
        if self.has_unwritten and not reader.has_begun:
            raise Unseen(f"writing failed: {error.strerror}") from error
        # An RST proves nothing: the request may have been read and acted on.
        why = f"the connection broke ({error.strerror or error}) {reader.place}"
        raise self._closed(why) from error

    def _closed(self, why: str) -> ConnectionClosed:
        target = str(self._target)
        return ConnectionClosed(f"{target}: {why}", target=target, sent=True)

    # From other threads, and the end; all but the last inside the mutex.

    def wake(self) -> None:
        """Make the owner's poll return and its connection end."""
        sock = self.socket
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not the method of `SSLSocket`: it would let the owner read on without
                # TLS.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the sockets; safe to call twice."""
        with self._mutex:
            held = self._held
            if self.is_secure and self.socket is not None:
                with contextlib.suppress(OSError, ValueError):
                    # Says goodbye, and waits for none: it would block.
                    self.socket.unwrap()  # type: ignore[attr-defined]  # an SSLSocket
            self.socket = None
            while held:
                held[-1].close()
                held.pop()

    def let_go(self, error: MCPError) -> None:
        """Close our copies, in a forked process; the connection is the parent's."""
        self._mutex = RLock()  # whoever held the other one is not in this process
        self.error = error
        self.is_secure = False
        self.close()


def _slice(reply: Fed, deadline: Deadline | None) -> float:
    """Return how many seconds to wait at most; raise what it means to be late."""
    if deadline is None:
        return LONGEST_POLL_S
    now = monotonic()
    left = deadline.at - now
    if left <= 0:
        raise reply.out_of_time(now)
    return min(left, LONGEST_POLL_S)
