"""A TCP proxy between client and server that does to the line what networks do.

    with cutting_proxy(server.port) as proxy:
        ...  # connect to proxy.url_of(server.url)
        proxy.cut(reset=True)

What is set with `after` holds for every connection from then on and counts its bytes;
the functions without it act on the connections that are open.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = "127.0.0.1"
READ_SIZE: Final = 65536
STOP_S: Final = 30.0

UP: Final = "up"
"""From the client to the server."""
DOWN: Final = "down"


class Line:
    """One connection through the proxy: two sockets, a direction per dictionary key."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.sources = {UP: client, DOWN: server}
        self.sinks = {UP: server, DOWN: client}
        self.is_closed = False
        self.open_ways = {UP, DOWN}

    def close(self, *, reset: bool) -> None:
        """Close both connections, by FIN or by RST."""
        self.is_closed = True
        for sock in self.sources.values():
            with contextlib.suppress(OSError):
                if reset:
                    option = struct.pack("ii", 1, 0)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
                else:
                    sock.shutdown(socket.SHUT_WR)
            sock.close()


class CuttingProxy:
    """Passes bytes on, until told otherwise; one thread serves all connections."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.lines: list[Line] = []
        self._is_black_hole = False
        self._orders: list[Any] = []
        self._lock = threading.Lock()
        self._is_stopping = False
        self._wake, self._waker = socket.socketpair()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def url_of(self, url: str) -> str:
        """Return a URL of the server as one through the proxy."""
        return urlsplit(url)._replace(netloc=f"{HOST}:{self.port}").geturl()

    # What a test orders; done when the call returns...

    def cut(self, *, reset: bool = False) -> None:
        """End every open connection, on both sides."""
        self._order(lambda: [self._close(line, reset) for line in tuple(self.lines)])

    def black_hole(self) -> None:
        """Pass nothing on any more, and keep the connections."""
        self._is_black_hole = True
        self._order(lambda: None)

    def heal(self) -> None:
        """Be an honest proxy again for all that is to come."""
        self._is_black_hole = False
        self._order(lambda: None)

    def _order(self, function: Any) -> None:
        done = threading.Event()
        with self._lock:
            self._orders.append((function, done))
        self._waker.send(b"!")
        assert done.wait(STOP_S), "the proxy does not answer"

    # ... and how it runs.

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._turn()
        finally:
            for line in tuple(self.lines):
                self._close(line, reset=False)
            self._listener.close()
            self._wake.close()

    def _turn(self) -> None:
        ways = {}
        if not self._is_black_hole:
            ways = {
                line.sources[way]: (line, way)
                for line in self.lines
                for way in line.open_ways
            }
        ready, _, _ = select.select([self._wake, self._listener, *ways], [], [])
        for sock in ready:
            if sock is self._wake:
                self._obey()
            elif sock is self._listener:
                self._accept()
            elif not ways[sock][0].is_closed:
                self._pass_on(*ways[sock])

    def _obey(self) -> None:
        self._wake.recv(READ_SIZE)
        with self._lock:
            orders, self._orders = self._orders, []
        for function, done in orders:
            function()
            done.set()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection((HOST, self.upstream_port), STOP_S)
        except OSError:
            client.close()
            return
        for sock in (client, server):
            sock.settimeout(STOP_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines.append(Line(client, server))

    def _pass_on(self, line: Line, way: str) -> None:
        try:
            data = line.sources[way].recv(READ_SIZE)
            line.sinks[way].sendall(data)
        except OSError:
            self._close(line, reset=True)
            return
        if not data:
            self._half_close(line, way)

    def _half_close(self, line: Line, way: str) -> None:
        line.open_ways.discard(way)
        with contextlib.suppress(OSError):
            line.sinks[way].shutdown(socket.SHUT_WR)
        if not line.open_ways:
            self._close(line, reset=False)

    def _close(self, line: Line, reset: bool) -> None:  # noqa: FBT001 - private
        line.close(reset=reset)
        self.lines.remove(line)

    def stop(self) -> None:
        """End it with all its connections."""
        self._is_stopping = True
        with contextlib.suppress(OSError):  # it may have seen that at once, and ended
            self._waker.send(b"!")
        self._thread.join(STOP_S)
        self._waker.close()
        assert not self._thread.is_alive(), "the proxy does not end"


@contextlib.contextmanager
def cutting_proxy(upstream_port: int) -> Iterator[CuttingProxy]:
    """Pass connections on to a port of this machine; see the module's text."""
    proxy = CuttingProxy(upstream_port)
    try:
        yield proxy
    finally:
        proxy.stop()
