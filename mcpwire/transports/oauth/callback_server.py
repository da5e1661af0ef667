"""Receive the browser's redirect at the end of a login, on a port of this machine.

Any program on this machine, and any page in the browser, can connect here. Only the
request with the `state` of the login is accepted, and once; every other one is refused
and changes nothing (RFC 8252, 8.3 and 8.10; 2026-07-28
basic/authorization/security-considerations, "Open Redirection"). A thread serves it: ::

    bound ──── wait ───► listening ──── request with the state ────► answered ─► closed
                             │  ▲                                               ▲
                             └──┘ any other request: 4xx       close(), timeout ┘
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import threading
from hmac import compare_digest
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl

from mcpwire.auth.errors import ConsentDenied
from mcpwire.errors import AuthError
from mcpwire.transports.base import let_go_after_fork
from mcpwire.wire.urls import Url, is_loopback, parse_url

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["CallbackServer", "query_parameters"]

PATH: Final = "/callback"

LONGEST_REQUEST: Final = 32 * 1024
"""Codes of some servers are several KiB long, and browsers send cookies along."""

CONNECTION_S: Final = 10.0
"""How long a connection may take to send its request; browsers open spare ones."""

LEAVE_S: Final = 1.0
"""How long a browser may take to read the page and close."""

CONNECTIONS: Final = 16
"""The most connections at once; one more replaces the oldest."""

_MOST_PARAMETERS: Final = 64
_READ: Final = 8 * 1024

_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})

_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title>"
    "<p>{0}</p></html>\n"
)
_FIELDS: Final = (
    "content-type: text/html; charset=utf-8\r\n"
    "cache-control: no-store\r\n"
    "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "referrer-policy: no-referrer\r\n"
    "x-content-type-options: nosniff\r\n"
    "connection: close\r\n"
)


class _Response(NamedTuple):
    """A response; it repeats nothing of the request."""

    status: str
    text: str
    extra: str = ""

    def encode(self) -> bytes:
        page = _PAGE.format(self.text)
        head = f"HTTP/1.1 {self.status}\r\n{_FIELDS}{self.extra}"
        return f"{head}content-length: {len(page)}\r\n\r\n{page}".encode("ascii")


_DONE: Final = _Response("200 OK", "You are logged in and can close this window.")
_NOT_DONE: Final = _Response(
    "200 OK", "The login was not completed. You can close this window."
)
_BAD: Final = _Response("400 Bad Request", "This is not the login that is waited for.")
_NOT_FOUND: Final = _Response("404 Not Found", "There is nothing here.")
_NOT_ALLOWED: Final = _Response(
    "405 Method Not Allowed", "There is nothing here.", "allow: GET\r\n"
)
_TOO_LARGE: Final = _Response(
    "431 Request Header Fields Too Large", "That is too much."
)


class CallbackServer:
    """Receives the redirect of one login on this machine.

    The port is bound at once, so that the redirect URI stays valid; requests are
    answered while `wait` waits.

    Args:
        port: The port; ``None``: any free one.
        preferred: An earlier redirect URI. Its port is used if it is free: an
            authorization server may compare the whole URI.

    Raises:
        AuthError: The port cannot be bound.
    """

    def __init__(
        self, *, port: int | None = None, preferred: str | None = None
    ) -> None:
        self._listener = _bind(port, preferred)
        host, self.port = self._listener.getsockname()[:2]
        at = f"[{host}]" if ":" in host else host
        self._authority = f"{at}:{self.port}"
        self.redirect_uri = f"http://{self._authority}{PATH}"
        self._mutex = threading.Lock()
        self._serving: _ServingThread | None = None
        self._is_closed = False
        let_go_after_fork(self)

    async def wait(self, state: str) -> dict[str, str]:
        """Wait for the redirect and return its parameters.

        Raises:
            ConsentDenied: The server was closed meanwhile.
        """
        import asyncio

        try:
            return await asyncio.wrap_future(self._listen(state))
        finally:
            self.close()

    def _listen(self, state: str) -> Future[dict[str, str]]:
        with self._mutex:
            if self._is_closed:
                raise _closed()
            assert self._serving is None, "a callback server waits once"
            self._serving = _ServingThread(self._listener, self._authority, state)
            return self._serving.answer

    def forked(self) -> None:
        """Close the copy of the listener in a child; the parent keeps its own."""
        self._listener.close()

    def close(self) -> None:
        """Stop listening and end `wait`; from any thread, more than once."""
        with self._mutex:
            self._is_closed = True
            serving = self._serving
        if serving is None:
            self._listener.close()
        else:
            serving.stop()


class _ServingThread:
    """The thread that serves connections until the redirect has come."""

    def __init__(self, listener: socket.socket, authority: str, state: str) -> None:
        from concurrent.futures import Future

        self.answer: Future[dict[str, str]] = Future()
        # From here on a waiting task cannot cancel it under the thread's hands.
        self.answer.set_running_or_notify_cancel()
        self._listener = listener
        self._validate = _Validator(authority, state)
        self._connections: dict[socket.socket, _Connection] = {}
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (listener, self._wake):
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._run, name="mcpwire-callbacks", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for its end."""
        with contextlib.suppress(OSError):  # closed by an earlier call
            self._waker.send(b"!")
        self._thread.join()
        self._wake.close()
        self._waker.close()

    def _run(self) -> None:
        try:
            while not self.answer.done() and self._serve_ready():
                pass
        finally:
            self._end()

    def _serve_ready(self) -> bool:
        """Serve the ready connections once; return whether to go on."""
        now = monotonic()
        waits = [connection.until - now for connection in self._connections.values()]
        for key, _ in self._selector.select(max(min(waits, default=60.0), 0.0)):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is self._wake:
                return False
            if sock is self._listener:
                self._accept()
            elif sock in self._connections:  # not dropped in this very round
                self._read(sock)
            if self.answer.done():
                break
        now = monotonic()
        for sock, connection in list(self._connections.items()):
            if connection.until <= now:
                self._drop(sock)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the connection is closed already
            return
        sock.setblocking(False)
        if len(self._connections) == CONNECTIONS:
            self._drop(next(iter(self._connections)))
        self._connections[sock] = _Connection(monotonic() + CONNECTION_S)
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, sock: socket.socket) -> None:
        connection = self._connections[sock]
        try:
            data = sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(sock)
        elif not connection.is_served and connection.has_all(data):
            self._serve(sock, connection)

    def _serve(self, sock: socket.socket, connection: _Connection) -> None:
        response, params = self._validate(bytes(connection.received))
        connection.is_served = True
        connection.until = monotonic() + LEAVE_S
        try:
            sock.send(response.encode())  # a page fits into the send buffer
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(sock)
        if params is not None:
            self.answer.set_result(params)

    def _drop(self, sock: socket.socket) -> None:
        del self._connections[sock]
        self._selector.unregister(sock)
        sock.close()

    def _end(self) -> None:
        for sock in list(self._connections):
            self._drop(sock)
        self._selector.close()
        self._listener.close()
        if not self.answer.done():
            self.answer.set_exception(_closed())


class _Connection:
    """A connection and the bytes it has sent so far."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.received = bytearray()
        self.is_served = False

    def has_all(self, data: bytes) -> bool:
        """Add data; return whether it is a request, or too long for one."""
        self.received += data
        return b"\r\n\r\n" in self.received or len(self.received) > LONGEST_REQUEST


class _Validator:
    """Tells the redirect of the login from every other request."""

    def __init__(self, authority: str, state: str) -> None:
        # A browser leaves the port out where it is the usual one.
        self._hosts = {authority.encode(), authority.removesuffix(":80").encode()}
        self._state = state.encode()

    def __call__(self, received: bytes) -> tuple[_Response, dict[str, str] | None]:
        """Return the response, and the parameters if this is the redirect."""
        if len(received) > LONGEST_REQUEST:
            return _TOO_LARGE, None
        line, *fields = received.partition(b"\r\n\r\n")[0].split(b"\r\n")
        verb, _, rest = line.partition(b" ")
        target, _, version = rest.partition(b" ")
        path, _, query = target.partition(b"?")
        if not version.startswith(b"HTTP/1.") or not self._is_for_us(fields):
            return _BAD, None
        if path != PATH.encode():
            return _NOT_FOUND, None
        if verb != b"GET":
            return _NOT_ALLOWED, None
        return self._check(_parameters(query))

    def _is_for_us(self, fields: list[bytes]) -> bool:
        # Another host name here is DNS rebinding by a page.
        pairs = (field.partition(b":") for field in fields)
        hosts = [value.strip() for name, _, value in pairs if name.lower() == b"host"]
        return len(hosts) == 1 and hosts[0] in self._hosts

    def _check(self, params: dict[str, str]) -> tuple[_Response, dict[str, str] | None]:
        # 2026-07-28 basic/authorization/security-considerations, "Open Redirection":
        # a response with another state is not read any further.
        is_ours = compare_digest(params.get("state", "").encode(), self._state)
        if not is_ours or params.keys().isdisjoint({"code", "error"}):
            return _BAD, None
        return (_NOT_DONE if "error" in params else _DONE), params


def query_parameters(query: str, errors: str = "replace") -> dict[str, str]:
    """Return the parameters of a query; ValueError for too many.

    A parameter that occurs twice is ignored (RFC 6749 section 3.1).
    """
    pairs = parse_qsl(
        query, keep_blank_values=True, errors=errors, max_num_fields=_MOST_PARAMETERS
    )
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _parameters(query: bytes) -> dict[str, str]:
    try:
        return query_parameters(query.decode("ascii"), errors="strict")
    except ValueError:
        return {}


def _bind(port: int | None, preferred: str | None) -> socket.socket:
    """Return a listener that only this machine can reach."""
    before = _port_of(preferred) if port is None else None
    if before is not None:
        try:
            return _listener(before)
        except OSError:  # any other port will do
            pass
    try:
        return _listener(port or 0)
    except OSError as error:
        where = f"port {port}" if port is not None else "a port"
        raise AuthError(
            f"cannot listen on {where} of this machine for the way back from logging "
            f"in: {os.strerror(error.errno or 0)}"
        ) from error


def _listener(port: int) -> socket.socket:
    try:
        return _listener_at(socket.AF_INET, "127.0.0.1", port)
    except OSError as error:
        if error.errno not in _NO_SUCH_ADDRESS:
            raise
    return _listener_at(socket.AF_INET6, "::1", port)


def _listener_at(family: int, host: str, port: int) -> socket.socket:
    # On POSIX this reuses ports in TIME_WAIT, and shares none.
    return socket.create_server((host, port), family=family, backlog=4 * CONNECTIONS)


def _port_of(redirect_uri: str | None) -> int | None:
    """Return the port of an earlier redirect URI of ours."""
    if redirect_uri is None:
        return None
    try:
        url: Url = parse_url(redirect_uri)
    except ValueError:
        return None
    is_ours = url.scheme == "http" and is_loopback(url.host) and url.target == PATH
    return url.port if is_ours else None


def _closed() -> ConsentDenied:
    return ConsentDenied("the login was given up", error="closed")
