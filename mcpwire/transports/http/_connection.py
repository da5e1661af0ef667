"""One asyncio connection to an HTTP server: bytes out, responses in, one at a time.

Nothing here decides whether a request may be sent again: a connection only says, when
it ends, whether its request provably never reached the server's program. ::

    idle ──send──► waiting ──reply is over──► lingering ──body complete──► idle
                      └──────────── body complete ──────────────────────────┘

It reads into a buffer of its own: asyncio's streams ask for 256 KiB at a time.
"""

from __future__ import annotations

import asyncio
import select
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import ConnectionClosed, MCPError
from mcpwire.protocol.http.framing import ResponseReader
from mcpwire.transports.http._sockets import (
    acknowledged,
    connect_error,
    is_certificate_refusal,
    prepare,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.limits import Limits
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["Connection", "Owner"]

READ_BYTES: Final = 65_536

FIRST_READ_BYTES: Final = 8_192
"""What is read at once until so much came: most servers never say more, and a client
that waits holds no more for it."""

WRITE_BYTES: Final = 262_144
"""The most one write is given: asyncio copies what the system does not take."""

ALWAYS_TAKEN_BYTES: Final = 4_096
"""What the system takes of a request at once: no buffer of a socket is smaller, and it
is empty when a request begins."""

LAST_READS: Final = 1_024
"""How often a connection is read whose writing has failed: 64 MiB."""


class Owner(Protocol):
    """The engine, as its connections see it."""

    written: int

    view: memoryview
    """Where all of them read to: what came is taken before the next one reads."""

    def opened(self, connection: Connection) -> None:
        """Take note of it from here on."""

    def completed(self, connection: Connection) -> bool:
        """Take it back: its response is complete; tell whether all are idle now."""

    def lingers(self, connection: Connection) -> None:
        """Have an eye on it: its reply is over, and its response is not."""

    def clogs(self, connection: Connection) -> None:
        """Take note that the system did not take all that was written."""

    def ended(self, connection: Connection) -> None:
        """Give it to nobody any more."""

    def lost(self, connection: Connection) -> None:
        """Forget it: its socket is closed now."""


class Connection(asyncio.BufferedProtocol):
    """A connection to the target's origin.

    Attributes:
        reply: Who is fed; ``None`` while it is idle.
        waiter: Resolved once the reply is over: true, or false where the request
            provably never reached the server's program. ``None`` if nobody waits.
        until: When it is not to be trusted any more, idle or lingering.
        was_waited_for: Whether somebody has waited for the end of its response.
        poll: Returns what is readable, without waiting.
    """

    __slots__ = (
        "__weakref__",
        "_begun_at",
        "_is_paused",
        "_is_secure",
        "_loop",
        "_owner",
        "_put",
        "_target",
        "_unsent",
        "_view",
        "_written",
        "poll",
        "reader",
        "reply",
        "tail_left",
        "transport",
        "until",
        "waiter",
        "was_waited_for",
    )

    poll: Callable[[float], list[Any]]
    _put: Callable[[bytes], bool]
    transport: asyncio.Transport

    def __init__(self, owner: Owner, target: Http, limits: Limits) -> None:
        self._owner = owner
        self._target = target
        self._is_secure = target.parsed.scheme == "https"
        self._view = owner.view
        self._unsent: memoryview | None = None
        self._is_paused = False
        self._written = 0
        self._begun_at = 0
        self.reader = ResponseReader(limits)
        self.reply: Fed | None = None
        self.waiter: asyncio.Future[bool] | None = None
        self.until = 0.0
        self.tail_left = 0
        self.was_waited_for = False

    # One exchange...

    def send(
        self,
        first: bytes,
        rest: memoryview | None,
        reply: Fed,
        waiter: asyncio.Future[bool],
    ) -> None:
        """Send a request, and resolve the waiter when its reply is over."""
        self.reply = reply
        self.waiter = waiter
        self.reader.expect(reply)
        if self._is_secure:
            self._begun_at = acknowledged(self._socket)
        else:
            self._begun_at = self._written + 1  # the SYN counts as one
        if not self._put(first):  # the system took none of it
            self._wake(result=False)
            self.abort()
            return
        self._written += len(first)
        self._owner.written += len(first)
        if rest is not None or len(first) > ALWAYS_TAKEN_BYTES:
            self._unsent = rest
            self._pump()
            if self.unwritten:
                self._owner.clogs(self)

    def _pump(self) -> None:
        transport = self.transport
        while (
            self._unsent is not None
            and not self._is_paused
            and not transport.is_closing()
        ):
            chunk, rest = self._unsent[:WRITE_BYTES], self._unsent[WRITE_BYTES:]
            self._unsent = rest or None
            transport.write(chunk)
            self._written += len(chunk)
            self._owner.written += len(chunk)

    @property
    def unwritten(self) -> int:
        """How many bytes wait for the server to read."""
        return self.buffered + (len(self._unsent) if self._unsent is not None else 0)

    @property
    def buffered(self) -> int:
        """How many of them asyncio holds."""
        return self.transport.get_write_buffer_size()

    @property
    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")

    def close(self) -> None:
        """Close it while it is idle, with the goodbye that TLS has."""
        self.transport.close()

    def abort(self) -> None:
        """Close it at once; whoever waits is told when it is closed."""
        self._unsent = None
        self._owner.ended(self)
        if self._is_secure:
            # Its layer may be in the middle of handing something over, and would find
            # itself in a state that it does not expect.
            self._loop.call_soon(self.transport.abort)
        else:
            self.transport.abort()

    def fail(self, error: BaseException | None = None) -> None:
        """Close it at once, and raise that to whoever waits."""
        self._wake(error)
        self.abort()

    def close_socket(self) -> None:
        """Close the descriptor and touch nothing else: the loop is not ours any more.

        Closing shuts nothing down, so what a fork copied stays open in the other
        process.
        """
        self._own_socket().close()

    def _own_socket(self) -> Any:
        # The wrapper of asyncio can neither read nor close, and a second object for the
        # same descriptor would close whatever has its number by then.
        wrapped = self._socket
        return getattr(wrapped, "_sock", wrapped)

    def _wake(self, error: BaseException | None = None, *, result: bool = True) -> None:
        waiter, self.waiter = self.waiter, None
        self.reply = None
        if waiter is None or waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(result)

    def _complete(self) -> None:
        waiter, self.waiter = self.waiter, None
        self.reply = None
        self._owner.completed(self)  # first: the next request may want it
        if waiter is not None and not waiter.done():
            waiter.set_result(True)

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        """Begin; the transport is ours, or asyncio's, over TLS or not."""
        self.transport = transport
        self._put = getattr(transport, "put", None) or partial(_put, transport)
        self._loop = asyncio.get_running_loop()
        sock = self._socket
        prepare(sock)
        self.poll = _poller(sock.fileno())
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read to; a memoryview, which the TLS layer slices."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Read what came."""
        reply = self.reply
        if reply is None:  # bytes that nobody asked for
            self.abort()
            return
        reader = self.reader
        view = self._view
        if nbytes == FIRST_READ_BYTES:
            self._widen()
        try:
            reader.feed(view[:nbytes])
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise
            return
        if reader.is_complete:
            # As in `_complete`, without a call more for each response.
            waiter, self.waiter = self.waiter, None
            self.reply = None
            self._owner.completed(self)
            if waiter is None or waiter.done():
                return
            waiter.set_result(True)
        else:
            self._read_on(reply, nbytes)

    def _read_on(self, reply: Fed, nbytes: int) -> None:
        """Take note of a read that did not bring the end of the response."""
        if self.waiter is None:
            self.tail_left -= nbytes
            if self.tail_left < 0:
                self.abort()  # nobody wants it, and a new connection costs less
        elif reply.is_over:
            waiter, self.waiter = self.waiter, None
            self._owner.lingers(self)
            if not waiter.done():
                waiter.set_result(True)

    def _widen(self) -> None:
        """Read more at once from now on: there is much to come."""
        owner = self._owner
        if len(owner.view) < READ_BYTES:
            owner.view = memoryview(bytearray(READ_BYTES))
        self._view = owner.view
        # asyncio's transport asks for it each time; ours is told.
        read_into = getattr(self.transport, "read_into", None)
        if read_into is not None:
            read_into(self._view)

    def eof_received(self) -> None:
        """Take note that the server sends no more; the transport closes itself."""
        try:
            is_clean = not self._is_secure or self._read_last()
            is_complete = self.reply is not None and is_clean and self.reader.eof()
        except Exception as error:  # noqa: BLE001 - a reply's error goes to its waiter
            self._wake(error)
        else:
            if is_complete:
                self._complete()
            elif self.reply is not None and self._is_unseen():
                self._wake(result=False)
            else:
                self._wake(self._closed("the server closed the connection"))
        self._owner.ended(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits, and let go."""
        if self.waiter is not None and (exc is not None or self._is_secure):
            self._read_last()
        if self.waiter is not None:
            self._wake(self._lost(exc))
        self.reply = None
        self._unsent = None
        self._owner.lost(self)

    def pause_writing(self) -> None:
        """Write no more: the server does not read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Write on."""
        self._is_paused = False
        self._pump()

    # How it ended.

    def _is_unseen(self) -> bool:
        """Tell whether no byte of the request arrived; asked after a FIN only."""
        if self.reader.has_begun:
            return False
        # What is known is where the request begins in the stream of all our bytes.
        return 0 < acknowledged(self._socket) <= self._begun_at

    def _read_last(self) -> bool:
        """Read what has come and was not handed over; return whether it ends properly.

        A server may answer before it has read all, and close: then our writing fails,
        and the answer counts. Behind an RST the stream ends as well: that proves
        nothing. Over TLS, asyncio drops what it has not handed over when the stream
        ends, and does not tell an end with a goodbye from any other; without one a body
        may have been cut short by anybody (RFC 9112 section 9.8).
        """
        receive = self._receiver()
        try:
            for _ in range(LAST_READS):
                if self.reply is None:
                    return False
                count = receive()
                if not count:
                    return self._is_secure
                self.buffer_updated(count)
        except OSError:  # nothing more; an `SSLError` is one
            return False
        return False

    def _receiver(self) -> Callable[[], int]:
        if self._is_secure:
            read = self.transport.get_extra_info("ssl_object").read
            return lambda: read(len(self._view), self._view)
        sock = self._own_socket()
        return lambda: sock.recv_into(self._view)

    def _lost(self, error: BaseException | None) -> MCPError:
        if error is None:
            return self._closed("the connection ended")
        if not self.reader.has_begun and is_certificate_refusal(error):
            refused = connect_error(self._target, error)
            refused.__cause__ = error
            return refused
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        lost = self._closed(f"the connection broke ({said})")
        lost.__cause__ = error
        return lost

    def _closed(self, what: str) -> ConnectionClosed:
        target = str(self._target)
        place = self.reader.place
        return ConnectionClosed(f"{target}: {what} {place}", target=target, sent=True)


def _put(transport: asyncio.Transport, data: bytes) -> bool:
    """Write, and tell whether that can still do anything."""
    transport.write(data)
    return not transport.is_closing()


def _poller(fd: int) -> Callable[[float], list[Any]]:
    """Return a function that tells without waiting whether that can be read."""
    if not hasattr(select, "poll"):  # Windows
        return lambda _: select.select([fd], [], [], 0)[0]
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return poll.poll
