"""Fixtures for tests over HTTP: long timeouts, a silent port, a clean environment."""

import socket
from collections.abc import Iterator

import pytest

from mcpwire.transports.http import direct, httpx_engine
from mcpwire.transports.http import streamable as channel

LONG_S = 60.0
"""Longer than a test, so that a loaded machine cannot reach it."""

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """Ignore the certificates and proxies of the environment."""
    for name in (*CERTIFICATES, *PROXIES, *map(str.lower, PROXIES)):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kept_for_long(monkeypatch):
    """Keep idle connections reusable also on a loaded machine."""
    for module in (direct, httpx_engine):
        monkeypatch.setattr(module, "IDLE_TIMEOUT_S", LONG_S)


@pytest.fixture
def patient_close(monkeypatch):
    """Make a close that waits for the peer wait for longer than any test takes.

    So a test notices such a wait, and a loaded machine has time for the TLS close.
    """
    for module in (channel, direct, httpx_engine):
        monkeypatch.setattr(module, "CLOSE_TIMEOUT_S", LONG_S)


@pytest.fixture
def black_hole() -> Iterator[int]:
    """Yield a port with a full accept queue, so that further connects hang."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [socket.socket() for _ in range(8)]
    for sock in fillers:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
    yield listener.getsockname()[1]
    for sock in (listener, *fillers):
        sock.close()
