"""An HTTP proxy of the usual kind: absolute URLs, CONNECT, and an optional password.

with http_proxy() as proxy:
    ...  # proxy.url; proxy.asked: the request lines that it received
"""

import base64
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from raw_server import READ_SIZE, Connection, RawRequest, RawServer, raw_server

REFUSED: Final = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
)
ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
STOP_S: Final = 30.0


class HttpProxy:
    def __init__(self, user: str | None) -> None:
        self.asked: list[str] = []
        self.server: RawServer | None = None
        self._word = user and f"Basic {base64.b64encode(user.encode()).decode()}"

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.origin

    def serve(self, conn: Connection) -> None:
        while (request := conn.receive(timeout=None)) is not None:
            self.asked.append(f"{request.verb} {request.target}")
            if self._word and request.headers.get("proxy-authorization") != self._word:
                conn.send(REFUSED)
            elif request.verb == "CONNECT":
                host, _, port = request.target.rpartition(":")
                with socket.create_connection((host, int(port)), STOP_S) as far:
                    conn.send(ESTABLISHED)
                    _pass_on(conn, far)
                return
            else:
                _forward(conn, request)


def _forward(conn: Connection, request: RawRequest) -> None:
    """Forward a request to the server; the response ends with the connection."""
    url = urlsplit(request.target)
    path = url._replace(scheme="", netloc="").geturl() or "/"
    fields = [(n, v) for n, v in request.fields if not n.startswith("proxy-")]
    lines = [f"{request.verb} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in fields)]
    assert url.hostname is not None
    with socket.create_connection((url.hostname, url.port or 80), STOP_S) as far:
        far.sendall("\r\n".join([*lines, "connection: close", "", ""]).encode())
        far.sendall(request.body)
        _pass_on(conn, far)


def _pass_on(conn: Connection, far: socket.socket) -> None:
    """Pass bytes in both directions until one side ends."""

    def upwards() -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(READ_SIZE):
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)

    near = conn.sock
    near.setblocking(True)
    thread = threading.Thread(target=upwards, daemon=True)
    thread.start()
    with contextlib.suppress(OSError):
        while data := far.recv(READ_SIZE):
            near.sendall(data)
    with contextlib.suppress(OSError):
        near.shutdown(socket.SHUT_RDWR)
    thread.join(STOP_S)


@contextlib.contextmanager
def http_proxy(user: str | None = None, **options: Any) -> Iterator[HttpProxy]:
    """Run a proxy; it requires `user` (``name:password``) if given."""
    proxy = HttpProxy(user)
    with raw_server(proxy.serve, **options) as proxy.server:
        yield proxy
