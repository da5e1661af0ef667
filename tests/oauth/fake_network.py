"""A simulated internet: names, addresses and their ports; connections are recorded.

    internet.names["login.example"] = [["198.51.100.7"]]
    internet.hosts["198.51.100.7"] = server.port

A name has a list of answers: each lookup takes the next one, and the last one stays. A
connection to an address without a host is refused.
"""

import asyncio
import errno
import socket
import ssl
import threading
from typing import Any, Final

import pytest
import trustme

from mcpwire.limits import Limits
from mcpwire.transports.oauth.fetch import Fetcher

BOUND_S: Final = 50.0
SERVER_ADDRESS: Final = "93.184.216.34"
LOGIN_ADDRESS: Final = "151.101.1.69"

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_getaddrinfo = socket.getaddrinfo


class Internet:
    """Names and hosts of a test; see the module."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        self.hosts: dict[str, int] = {}
        self.asked: list[str] = []
        """The names that were looked up."""
        self.connects: list[str] = []
        """The addresses of all connection attempts."""
        self.is_slow = threading.Event()
        """Set: lookups block until `goes_on` is set."""
        self.goes_on = threading.Event()

    def getaddrinfo(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.names:
            kind, flags = socket.SOCK_STREAM, socket.AI_NUMERICHOST
            return _getaddrinfo(host, port, type=kind, flags=flags)
        self.asked.append(name)
        if self.is_slow.is_set():
            self.goes_on.wait(BOUND_S)
        answers = self.names[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            found
            for address in addresses
            for found in _getaddrinfo(address, port, type=socket.SOCK_STREAM)
        ]

    def connect(self, sock: socket.socket, address: Any) -> None:
        if sock.family == socket.AF_UNIX:
            return _connect(sock, address)
        there = self._note(address)
        if there is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return _connect(sock, there)

    def connect_ex(self, sock: socket.socket, address: Any) -> int:
        if sock.family == socket.AF_UNIX:
            return _connect_ex(sock, address)
        there = self._note(address)
        return errno.ECONNREFUSED if there is None else _connect_ex(sock, there)

    def _note(self, address: Any) -> tuple[str, int] | None:
        self.connects.append(address[0])
        port = self.hosts.get(address[0])
        return None if port is None else ("127.0.0.1", port)


AUTHORITY: Final = trustme.CA()
"""The only trusted authority there; no server has a certificate of it."""


@pytest.fixture
def internet(monkeypatch, tmp_path_factory):
    made = Internet()
    # Reading the certificates of the real authorities takes 50 ms each time.
    store = tmp_path_factory.mktemp("authorities")
    AUTHORITY.cert_pem.write_to_path(store / "cert.pem")
    paths = ssl.get_default_verify_paths()._replace(
        openssl_cafile=str(store / "cert.pem"), openssl_capath=str(store / "none")
    )
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)

    def connect(sock: socket.socket, address: Any) -> None:
        made.connect(sock, address)

    def connect_ex(sock: socket.socket, address: Any) -> int:
        return made.connect_ex(sock, address)

    monkeypatch.setattr(socket.socket, "connect", connect, raising=False)
    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex, raising=False)
    yield made
    made.goes_on.set()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Fetches:
    """A fetcher with an event loop per fetch, for tests that wait for each one."""

    def __init__(self, target: Any, limits: Limits | None = None) -> None:
        self.fetcher = Fetcher(target, limits or Limits())

    def fetch(self, step: Any) -> Any:
        return asyncio.run(asyncio.wait_for(self.fetcher.fetch(step), BOUND_S))
