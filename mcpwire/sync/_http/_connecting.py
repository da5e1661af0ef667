"""How a blocking connection comes about: resolve, connect, shake hands.

Each step waits in short slices and asks `patience` before each: that tells how long to
wait at most, and raises once the time is over or somebody ended the exchange. The
resolver cannot be interrupted, so a thread of its own waits for it.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError, MCPError
from mcpwire.transports.http._sockets import (
    HEAD_START_S,
    allowed,
    connect_error,
    interleave,
    prepare,
    server_name,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.sync._http._connection import Connection
    from mcpwire.transports.http._sockets import Address
    from mcpwire.transports.http.engine import Fed
    from mcpwire.transports.http.target import Http

__all__ = ["Patience", "connect"]

SLICE_S: Final = 0.25
"""The longest wait at a time: so soon an abort is noticed while connecting."""

_UNDER_WAY: Final = {0, errno.EINPROGRESS}


class Patience:
    """How long connecting may go on waiting.

    Attributes:
        step: What is being done, for the message.
    """

    def __init__(
        self,
        connection: Connection,
        target: Http,
        reply: Fed,
        deadline: Deadline | None,
    ) -> None:
        self.step = "connecting"
        self._connection = connection
        self._target = target
        self._reply = reply
        self._deadline = deadline
        timeout = target.connect_timeout
        self._until = None if timeout is None else monotonic() + timeout

    def __call__(self) -> float:
        """Return how many seconds to wait at most.

        Raises:
            MCPError: The exchange was ended by somebody, or its time is over.
            ConnectError: The time to connect is over.
        """
        error = self._connection.error or getattr(self._reply, "aborted", None)
        if error is not None:
            raise error
        now = monotonic()
        wait = SLICE_S
        if self._deadline is not None:
            wait = min(wait, self._deadline.at - now)
            if wait <= 0:
                raise self._reply.out_of_time(now)
        if self._until is not None:
            wait = min(wait, self._until - now)
            if wait <= 0:
                raise self._too_late()
        return wait

    def _too_late(self) -> MCPError:
        where = self._target.parsed.authority
        limit = self._target.connect_timeout
        return ConnectError(
            f"cannot connect to {where!r}: {self.step} took longer than {limit:g} s",
            target=str(self._target),
            errno=errno.ETIMEDOUT,
            reason="timeout",
        )


def connect(
    target: Http,
    context: ssl.SSLContext | None,
    held: list[socket.socket],
    patience: Patience,
) -> socket.socket:
    """Return a non-blocking socket to the target, over TLS where a context is given.

    Args:
        target: Where to.
        context: For TLS.
        held: Takes each socket as long as it is open; the one returned stays in it.
        patience: Limits the time.

    Raises:
        ConnectError: No connection came about; names the check that failed.
        MCPError: What `patience` raised.
    """
    try:
        patience.step = "resolving the name"
        addresses = _resolve(target.parsed.host, target.parsed.port, patience)
        patience.step = "connecting"
        sock = _race(interleave(allowed(target, addresses)), held, patience)
        if context is not None:
            patience.step = "the TLS handshake"
            sock = _shake_hands(sock, context, server_name(target), held, patience)
    except MCPError:
        raise  # among them one that is an OSError, too
    except (OSError, UnicodeError, RuntimeError) as error:
        raise connect_error(target, error) from error
    return sock


# Resolving...


def _resolve(host: str, port: int, patience: Callable[[], float]) -> Sequence[Address]:
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(
            host, port, type=kind, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        pass  # a name
    answers: list[Sequence[Address]] = []
    errors: list[BaseException] = []
    done = threading.Lock()
    done.acquire()

    def ask() -> None:
        try:
            answers.append(socket.getaddrinfo(host, port, type=kind))
        except (OSError, UnicodeError) as error:
            errors.append(error)
        finally:
            done.release()

    threading.Thread(target=ask, name="mcpwire-resolver", daemon=True).start()
    while not done.acquire(timeout=patience()):
        pass
    if errors:
        raise errors[0]
    return answers[0]


# Connecting...


def _race(
    addresses: list[Address], held: list[socket.socket], patience: Callable[[], float]
) -> socket.socket:
    """Connect to the first address that answers; each gets a head start."""
    untried = deque(addresses)
    race = _Race(held)
    next_at = 0.0
    while untried or race.runners:
        wait = patience()
        if untried:
            now = monotonic()
            if now >= next_at or not race.runners:
                race.start(untried.popleft())
                next_at = now + HEAD_START_S
            if untried:
                wait = min(wait, next_at - now)
        winner = race.wait(wait)
        if winner is not None:
            race.end()
            return winner
    raise race.failure()


class _Held(socket.socket):
    """A socket that is written down before there is any.

    An interrupt that comes between opening a socket and writing it down would leave it
    to the garbage collector.
    """

    __slots__ = ()

    def __init__(self, held: list[socket.socket]) -> None:
        held.append(self)

    def open(self, family: int, kind: int, protocol: int) -> None:
        """Become one."""
        super().__init__(family, kind, protocol)

    def close(self) -> None:
        """Close it, also one that never came to be."""
        try:
            super().close()
        except AttributeError:  # interrupted while it became one
            socket.SocketType.close(self)


class _Race:
    """Several attempts to connect at once."""

    def __init__(self, held: list[socket.socket]) -> None:
        self.runners: dict[int, socket.socket] = {}
        self._held = held
        self._poll = select.poll()
        self._failures: list[OSError] = []

    def start(self, address: Address) -> None:
        family, kind, protocol, _, where = address
        sock = _Held(self._held)
        try:
            sock.open(family, kind, protocol)
        except OSError as error:  # a family that this machine does not have
            self._failures.append(error)
            self._held.remove(sock)
            return
        sock.setblocking(False)
        prepare(sock)
        code = sock.connect_ex(where)
        if code in _UNDER_WAY:
            self.runners[sock.fileno()] = sock
            self._poll.register(sock, select.POLLOUT)
        else:
            self._failed(sock, code)

    def wait(self, seconds: float) -> socket.socket | None:
        """Return one that is connected, if any is soon."""
        for fd, _ in self._poll.poll(max(seconds, 0) * 1000) if self.runners else ():
            sock = self.runners.pop(fd)
            self._poll.unregister(fd)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not code:
                return sock
            self._failed(sock, code)
        return None

    def end(self) -> None:
        """Close those that came too late."""
        for sock in self.runners.values():
            sock.close()
            self._held.remove(sock)

    def failure(self) -> OSError:
        """Return what to say where none came through: of each kind once."""
        if not self._failures:
            return OSError("it has no address")
        texts = dict.fromkeys(error.strerror for error in self._failures)
        return OSError(self._failures[-1].errno, "; ".join(map(str, texts)))

    def _failed(self, sock: socket.socket, code: int) -> None:
        self._failures.append(OSError(code, os.strerror(code)))
        sock.close()
        self._held.remove(sock)


# TLS...


def _shake_hands(
    sock: socket.socket,
    context: ssl.SSLContext,
    name: str,
    held: list[socket.socket],
    patience: Callable[[], float],
) -> socket.socket:
    import ssl

    # A body may end with the stream: only with an alert is that the end the server
    # meant (RFC 9112 section 9.8), so a stream that ends without one raises.
    secure = context.wrap_socket(
        sock,
        server_hostname=name,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,
    )
    held[:] = [secure]
    poll = select.poll()
    poll.register(secure, 0)
    waits_for: dict[type[Any], int] = {
        ssl.SSLWantReadError: select.POLLIN,
        ssl.SSLWantWriteError: select.POLLOUT,
    }
    while True:
        wait = patience()
        try:
            secure.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as want:
            poll.modify(secure, waits_for[type(want)])
            poll.poll(wait * 1000)
        else:
            return secure
