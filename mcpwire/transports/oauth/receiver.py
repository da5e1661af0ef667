"""Where the browser comes back to: a port of this machine that hears one answer.

Any program on this machine, and any page in the browser, can knock here. Only who knows
the `state` of the login is heard, and once; everybody else is turned away and changes
nothing (RFC 8252, 8.3 and 8.10; 2026-07-28 basic/authorization/security-considerations,
"Open Redirection"). A thread serves it: ::

    bound ──── wait ───► listening ──── the one with the state ────► answered ─► closed
                             │  ▲                                               ▲
                             └──┘ anybody else: 4xx       close(), time is over ┘
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
from mcpwire.transports._affinity import let_go_after_fork
from mcpwire.wire.urls import Url, is_loopback, parse_url

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["LoopbackReceiver"]

PATH: Final = "/callback"

LONGEST_REQUEST: Final = 32 * 1024
"""Codes of some servers are several KiB long, and browsers send cookies along."""

CONNECTION_S: Final = 10.0
"""How long a connection may take to say what it wants; browsers open spare ones."""

LEAVE_S: Final = 1.0
"""How long a browser may take to read the page and leave."""

CONNECTIONS: Final = 16
"""As many at once; one more takes the place of the oldest."""

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


class _Said(NamedTuple):
    """An answer of ours, which holds nothing of what was asked."""

    status: str
    text: str
    extra: str = ""

    def encode(self) -> bytes:
        page = _PAGE.format(self.text)
        head = f"HTTP/1.1 {self.status}\r\n{_FIELDS}{self.extra}"
        return f"{head}content-length: {len(page)}\r\n\r\n{page}".encode("ascii")


_DONE: Final = _Said("200 OK", "You are logged in and can close this window.")
_NOT_DONE: Final = _Said(
    "200 OK", "The login was not completed. You can close this window."
)
_BAD: Final = _Said("400 Bad Request", "This is not the login that is waited for.")
_NOT_FOUND: Final = _Said("404 Not Found", "There is nothing here.")
_NOT_ALLOWED: Final = _Said(
    "405 Method Not Allowed", "There is nothing here.", "allow: GET\r\n"
)
_TOO_LARGE: Final = _Said("431 Request Header Fields Too Large", "That is too much.")


class LoopbackReceiver:
    """Waits on this machine for the way back from one login.

    The port is taken at once, so that the redirect URI holds; nobody is heard before
    somebody waits.

    Args:
        port: The port; ``None``: any that is free.
        preferred: The redirect URI of before, whose port is taken where it is free: an
            authorization server may compare the whole.

    Raises:
        AuthError: The port cannot be had.
    """

    def __init__(
        self, *, port: int | None = None, preferred: str | None = None
    ) -> None:
        self._listener = _bind(port, preferred)
        host, self.port = self._listener.getsockname()[:2]
        at = f"[{host}]" if ":" in host else host
        self._authority = f"{at}:{self.port}"
        self.redirect_uri = f"http://{self._authority}{PATH}"
        """Where the browser is to be sent."""
        self._mutex = threading.Lock()
        self._service: _Service | None = None
        self._is_closed = False
        let_go_after_fork(self)

    async def wait(self, state: str) -> dict[str, str]:
        """Wait for the way back; return its parameters. May be cancelled.

        Raises:
            ConsentDenied: The receiver was closed meanwhile.
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
            assert self._service is None, "a receiver waits once"
            self._service = _Service(self._listener, self._authority, state)
            return self._service.answer

    def forked(self) -> None:
        """Let go of our copy of the port; the parent keeps its own."""
        self._listener.close()

    def close(self) -> None:
        """Listen no more; whoever waits is told. From any thread, and twice."""
        with self._mutex:
            self._is_closed = True
            service = self._service
        if service is None:
            self._listener.close()
        else:
            service.stop()


class _Service:
    """The thread that listens until the answer is there."""

    def __init__(self, listener: socket.socket, authority: str, state: str) -> None:
        from concurrent.futures import Future

        self.answer: Future[dict[str, str]] = Future()
        # From here on nobody who waits can cancel it under the thread's hands.
        self.answer.set_running_or_notify_cancel()
        self._listener = listener
        self._judge = _Judge(authority, state)
        self._guests: dict[socket.socket, _Guest] = {}
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (listener, self._wake):
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._run, name="mcpwire-receiver", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for that."""
        with contextlib.suppress(OSError):  # this was done before
            self._waker.send(b"!")
        self._thread.join()
        self._wake.close()
        self._waker.close()

    def _run(self) -> None:
        try:
            while not self.answer.done() and self._turn():
                pass
        finally:
            self._end()

    def _turn(self) -> bool:
        """Serve whoever has something to say; return whether to go on."""
        now = monotonic()
        waits = [guest.until - now for guest in self._guests.values()]
        for key, _ in self._selector.select(max(min(waits, default=60.0), 0.0)):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is self._wake:
                return False
            if sock is self._listener:
                self._welcome()
            elif sock in self._guests:  # not seen off in this very turn
                self._hear(sock)
            if self.answer.done():
                break
        now = monotonic()
        for sock, guest in list(self._guests.items()):
            if guest.until <= now:
                self._see_off(sock)
        return True

    def _welcome(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # who knocked has left
            return
        sock.setblocking(False)
        if len(self._guests) == CONNECTIONS:
            self._see_off(next(iter(self._guests)))
        self._guests[sock] = _Guest(monotonic() + CONNECTION_S)
        self._selector.register(sock, selectors.EVENT_READ)

    def _hear(self, sock: socket.socket) -> None:
        guest = self._guests[sock]
        try:
            data = sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._see_off(sock)
        elif not guest.is_served and guest.has_all(data):
            self._serve(sock, guest)

    def _serve(self, sock: socket.socket, guest: _Guest) -> None:
        said, params = self._judge(bytes(guest.heard))
        guest.is_served = True
        guest.until = monotonic() + LEAVE_S
        try:
            sock.send(said.encode())  # a page fits into what the system takes at once
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._see_off(sock)
        if params is not None:
            self.answer.set_result(params)

    def _see_off(self, sock: socket.socket) -> None:
        del self._guests[sock]
        self._selector.unregister(sock)
        sock.close()

    def _end(self) -> None:
        for sock in list(self._guests):
            self._see_off(sock)
        self._selector.close()
        self._listener.close()
        if not self.answer.done():
            self.answer.set_exception(_closed())


class _Guest:
    """A connection, and what it has said so far."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.heard = bytearray()
        self.is_served = False

    def has_all(self, data: bytes) -> bool:
        """Take in what came; tell whether it is a request, or too much for one."""
        self.heard += data
        return b"\r\n\r\n" in self.heard or len(self.heard) > LONGEST_REQUEST


class _Judge:
    """Tells the one way back from everything else."""

    def __init__(self, authority: str, state: str) -> None:
        # A browser leaves the port out where it is the usual one.
        self._hosts = {authority.encode(), authority.removesuffix(":80").encode()}
        self._state = state.encode()

    def __call__(self, heard: bytes) -> tuple[_Said, dict[str, str] | None]:
        """Return what to say, and the parameters if this is it."""
        if len(heard) > LONGEST_REQUEST:
            return _TOO_LARGE, None
        line, *fields = heard.partition(b"\r\n\r\n")[0].split(b"\r\n")
        verb, _, rest = line.partition(b" ")
        target, _, version = rest.partition(b" ")
        path, _, query = target.partition(b"?")
        if not version.startswith(b"HTTP/1.") or not self._is_for_us(fields):
            return _BAD, None
        if path != PATH.encode():
            return _NOT_FOUND, None
        if verb != b"GET":
            return _NOT_ALLOWED, None
        return self._judge(_parameters(query))

    def _is_for_us(self, fields: list[bytes]) -> bool:
        # Another name that leads here is a page that pretends to be this machine.
        pairs = (field.partition(b":") for field in fields)
        hosts = [value.strip() for name, _, value in pairs if name.lower() == b"host"]
        return len(hosts) == 1 and hosts[0] in self._hosts

    def _judge(self, params: dict[str, str]) -> tuple[_Said, dict[str, str] | None]:
        # 2026-07-28 basic/authorization/security-considerations, "Open Redirection":
        # what has another state is looked at no further.
        is_ours = compare_digest(params.get("state", "").encode(), self._state)
        if not is_ours or params.keys().isdisjoint({"code", "error"}):
            return _BAD, None
        return (_NOT_DONE if "error" in params else _DONE), params


def _parameters(query: bytes) -> dict[str, str]:
    """Return what a query says.

    What stands there twice says nothing (RFC 6749, 3.1).
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        return {}
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _bind(port: int | None, preferred: str | None) -> socket.socket:
    """Return a listener on this machine that nobody else can reach.

    Raises:
        AuthError: The port cannot be had.
    """
    before = _port_of(preferred) if port is None else None
    if before is not None:
        try:
            return _listener(before)
        except OSError:  # any other will do
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
    # On POSIX this reuses ports whose last connections linger, and shares none.
    return socket.create_server((host, port), family=family, backlog=4 * CONNECTIONS)


def _port_of(redirect_uri: str | None) -> int | None:
    """Return the port of a redirect URI that was ours."""
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
