"""The direct engine without a loop: requests go over the sockets of a small pool.

::

    idle ──take──► run: send, poll, read ──complete──► idle
      ▲  or connect       │                └─the rest is late─► tails ──► idle
      └── closed after 4 s└─ lost, aborted, interrupted ─► closed

Any number of threads share it. Each exchange owns one connection; nothing is locked on
its way but by the steps of lists and dicts that are atomic. `_running` says which
exchange still goes: whoever pops its entry, the thread that is through with it or one
that aborts it, has the say over its connection. A connection goes back to a list as the
last thing an exchange does, so that none which was left half-read is ever in one.
"""

from __future__ import annotations

from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from mcpwire.errors import ConnectionClosed, LocalProtocolError
from mcpwire.sync._http._connection import Connection, Unseen
from mcpwire.transports._fork import let_go_after_fork
from mcpwire.transports.http._sockets import (
    FIRST_BYTES,
    IDLE_S,
    RESENDS,
    TAIL_S,
    encode,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["BlockingEngine"]

TAILS: Final = 8
"""How many connections are kept whose responses are answered and not complete."""

TAIL_WAIT_S: Final = 0.02
"""How long the end of such a response is waited for before a new connection is opened
in its place: most servers send it right behind the answer."""

VAIN_WAITS: Final = 3
"""After so many in a row this server is known not to."""


class BlockingEngine:
    """Performs HTTP requests to one origin in the threads that ask for them.

    Attributes:
        target: The URL as text without secrets.
        connections: How many connections were opened so far.
        bytes_sent: How many bytes were handed to the operating system so far.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self.target = str(target)
        self.connections = 0
        self.bytes_sent = 0
        self._http = target
        self._limits = limits
        self._context: ssl.SSLContext | None = None
        self._mutex = RLock()
        """Held for ending connections of others, and for closing; never on the way of
        an exchange. A finaliser may come while its own thread holds it."""
        self._running: dict[int, Connection] = {}
        """By the id of the reply."""
        self._idle: list[Connection] = []
        self._tails: list[Connection] = []
        self._vain_waits = 0
        self._all: WeakSet[Connection] = WeakSet()
        self._refusal: Callable[[], MCPError] | None = None
        let_go_after_fork(self)

    def exchange(self, request: Request, reply: Fed, deadline: Deadline | None) -> None:
        """Send a request and feed its reply until that is over.

        See `mcpwire.transports.http.engine`. Interrupting it closes the connection.

        Raises:
            ConnectError: No connection came about; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent`
                tells whether the request may have been seen.
            RemoteProtocolError: What came back is no acceptable HTTP, or the reply
                refused it.
            LocalProtocolError: This process was forked off the one that connected.
            MCPError: The deadline has passed, or what `abort` was given.
        """
        now = monotonic()
        if deadline is not None and deadline.at <= now:
            raise reply.out_of_time(now)
        body = request.body
        if body is not None and len(body) <= FIRST_BYTES:
            # As `encode` does it, without a call for each request.
            first = b"%bcontent-length: %d\r\n\r\n%b" % (request.start, len(body), body)
            rest = None
        else:
            first, rest = encode(request)
        key = id(reply)
        connection: Connection | None = None
        unseen = 0
        try:
            while True:
                connection = self._take(reply, connection, now, is_new=unseen > 0)
                try:
                    if connection.socket is None:
                        self._open(connection, reply, deadline)
                    connection.run(first, rest, reply, deadline)
                    break
                except Unseen as why:
                    unseen += not why.is_stale
                    if unseen > RESENDS:
                        raise self._ended_unread(why) from why
            self._give_back(key, connection, reply)
        except BaseException:
            # Twice, for an interrupt may come while the first is at work.
            try:
                self._drop(key, connection)
            except BaseException:
                self._drop(key, connection)
                raise
            raise

    # Taking...

    def _take(
        self, reply: Fed, lost: Connection | None, now: float, *, is_new: bool
    ) -> Connection:
        """Return a connection for an exchange, perhaps in place of one it lost."""
        try:
            connection = None if is_new or self._tails else self._idle.pop()
        except IndexError:  # there is none, or another thread was quicker
            connection = None
        if connection is None or connection.until <= now:
            connection = self._look_for(connection, now, is_new=is_new)
        connection.owner = key = id(reply)
        connection.may_be_seen = False
        if lost is None:
            self._running[key] = connection
        else:
            self._replace(key, lost, connection)
        # Whoever refuses from here on finds the entry; whoever did before is seen.
        if self._refusal is not None:
            self._close_unused()  # what was looked at here while they were closed
            raise self._refusal()
        # A channel writes an abort down there before it tells the engine.
        error: MCPError | None = getattr(reply, "aborted", None)
        if error is not None:
            raise error
        return connection

    def _replace(self, key: int, lost: Connection, connection: Connection) -> None:
        """Run an exchange on, unless it was aborted, on another connection."""
        self._settle(lost)
        with self._mutex:
            is_wanted = self._running.get(key) is lost
            if is_wanted:
                self._running[key] = connection
        if not is_wanted:
            connection.close()
            raise self._why_aborted(lost)

    def _look_for(
        self, dead: Connection | None, now: float, *, is_new: bool
    ) -> Connection:
        """Return a connection where the one used last will not do."""
        if dead is not None:
            dead.close()
        if is_new:  # where one was as good as dead, the other idle ones may be, too
            return self._new()
        if self._tails:
            self._look_at_tails(now)
        idle = self._idle
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread was quicker
                break
            if now < connection.until:
                return connection
            connection.close()
        if self._tails and self._vain_waits < VAIN_WAITS:
            finished = self._wait_for_tail()
            if finished is not None:
                return finished
        return self._new()

    def _new(self) -> Connection:
        connection = Connection(self._http, self._limits, self._mutex)
        self._all.add(connection)
        return connection

    def _open(
        self, connection: Connection, reply: Fed, deadline: Deadline | None
    ) -> None:
        if self._context is None and self._http.parsed.scheme == "https":
            from mcpwire.transports.http.tls import ssl_context

            self._context = ssl_context(self._http)
        connection.open(self._context, reply, deadline)
        self.connections += 1

    # ... and giving back.

    def _give_back(self, key: int, connection: Connection, reply: Fed) -> None:
        """Keep a connection for the next exchange, if it can be used again."""
        if self._running.pop(key, None) is not connection:
            raise self._why_aborted(connection)
        self.bytes_sent += connection.written - connection.begun_at
        reader = connection.reader
        now = monotonic()
        if connection.has_unwritten:
            connection.close()
        elif reader.is_complete:
            if reader.may_reuse:
                connection.until = now + min(IDLE_S, reader.keep_alive_s)
                connection.owner = 0
                self._idle.append(connection)
            else:
                connection.close()
        elif getattr(reply, "error", None) is not None:
            connection.close()  # what failed the call may have no end
        else:
            self._keep_tail(connection, now)
        if self._refusal is not None:
            self._close_unused()
        elif len(self._idle) > 1:
            self._close_old(now)

    def _close_old(self, now: float) -> None:
        idle = self._idle
        try:
            while idle[0].until <= now:
                oldest = idle.pop(0)
                if oldest.until > now:  # another thread closed the one looked at
                    idle.insert(0, oldest)
                else:
                    oldest.close()
        except IndexError:
            return

    def _close_unused(self) -> None:
        for pool in (self._idle, self._tails):
            while pool:
                try:
                    connection = pool.pop()
                except IndexError:
                    break
                connection.close()

    # Responses that are answered and not complete...

    def _keep_tail(self, connection: Connection, now: float) -> None:
        connection.until = now + TAIL_S
        connection.owner = 0
        self._tails.append(connection)
        if len(self._tails) > TAILS:
            try:
                oldest = self._tails.pop(0)
            except IndexError:
                return
            oldest.close()

    def _look_at_tails(self, now: float) -> None:
        """Make those idle that are complete by now, and close those that are late."""
        for _ in range(len(self._tails)):
            try:
                connection = self._tails.pop(0)
            except IndexError:
                return
            if self._is_finished(connection):
                connection.until = now + min(IDLE_S, connection.reader.keep_alive_s)
                self._idle.append(connection)
            elif now < connection.until:
                self._tails.append(connection)
            else:
                connection.close()

    def _wait_for_tail(self) -> Connection | None:
        """Return the latest one if it is complete in a moment."""
        try:
            connection = self._tails.pop()
        except IndexError:
            return None
        if self._is_finished(connection, TAIL_WAIT_S):
            self._vain_waits = 0
            return connection
        self._vain_waits += 1
        self._tails.append(connection)
        return None

    @staticmethod
    def _is_finished(connection: Connection, wait_s: float = 0.0) -> bool:
        try:
            return connection.finish(wait_s) and connection.reader.may_reuse
        except BaseException:
            connection.close()
            raise

    # The end of an exchange that has no answer...

    def _settle(self, lost: Connection) -> None:
        self.bytes_sent += lost.sent
        lost.close()

    def _drop(self, key: int, connection: Connection | None) -> None:
        """Close the connection of an exchange that failed, if it still is its own."""
        for dropped in (self._running.pop(key, None), connection):
            if dropped is not None and dropped.owner == key:
                self._settle(dropped)
                dropped.owner = 0

    def _why_aborted(self, connection: Connection) -> MCPError:
        with self._mutex:  # whoever aborts writes it down in there
            error = connection.error
        return error or self._closed(is_seen=connection.may_be_seen)

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran.

        From any thread. While a connection is being opened, it takes a moment until
        the thread that waits for it notices.
        """
        with self._mutex:
            connection = self._running.pop(id(reply), None)
            if connection is None:
                return False
            connection.error = error
            connection.wake()
        return True

    # ... and of everything.

    def close(self) -> None:
        """Close every connection; exchanges still open raise `ConnectionClosed`."""
        self._refuse(self._closed)
        for key in list(self._running):
            with self._mutex:
                connection = self._running.pop(key, None)
                if connection is not None:
                    connection.error = self._closed(is_seen=connection.may_be_seen)
                    connection.wake()
        self._close_unused()

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""
        self.close()

    def forked(self) -> None:
        """Close our copies of the sockets; the parent keeps its own."""
        self._refuse(self._forked)
        self._mutex = RLock()
        for connection in list(self._all):
            connection.let_go(self._forked())

    def _refuse(self, why: Callable[[], MCPError]) -> None:
        if self._refusal is None:
            self._refusal = why

    def _closed(self, *, is_seen: bool = False) -> MCPError:
        return ConnectionClosed(
            f"{self.target}: closed by this side", target=self.target, sent=is_seen
        )

    def _ended_unread(self, why: Unseen) -> MCPError:
        return ConnectionClosed(
            f"{self.target}: it ends every connection unread: {why}",
            target=self.target,
            sent=False,
        )

    @staticmethod
    def _forked() -> MCPError:
        return LocalProtocolError(
            "this connection belongs to the process that this one was forked from; "
            "connect a client of your own"
        )
