"""What both direct engines know of sockets; nothing here waits.

How a connection is set up, how long an idle one is trusted, what the kernel says of
bytes nobody acknowledged, and how failures to connect are put into words.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError
from mcpwire.wire.urls import address_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.target import Http

    Address = tuple[int, int, int, str, tuple[Any, ...]]

__all__ = [
    "FIRST_BYTES",
    "HEAD_START_S",
    "IDLE_S",
    "RESENDS",
    "TAIL_BYTES",
    "TAIL_S",
    "acknowledged",
    "allowed",
    "connect_error",
    "encode",
    "interleave",
    "is_certificate_refusal",
    "prepare",
    "server_name",
]

IDLE_S: Final = 4.0
"""How long an idle connection is trusted: servers commonly close theirs after 5 s."""

TAIL_S: Final = 4.0
"""How long the rest of a body may take whose reply is over."""

TAIL_BYTES: Final = 65_536
"""How long the rest of a body may be whose reply is over."""

RESENDS: Final = 3
"""How often one request is sent again that provably never reached the server."""

HEAD_START_S: Final = 0.25
"""How long an address is tried alone (RFC 8305 section 5, Connection Attempt Delay)."""

FIRST_BYTES: Final = 65_536
"""A body up to this size is copied to leave with its head in one write."""

_TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)
_BYTES_ACKED: Final = slice(120, 128)
"""Where Linux keeps `tcpi_bytes_acked`, a part of its stable interface."""

_NODELAY: Final = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
_KEEPALIVE: Final = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def prepare(sock: socket.socket) -> None:
    """Send small requests at once, and have a dead peer noticed some day."""
    sock.setsockopt(*_NODELAY)
    sock.setsockopt(*_KEEPALIVE)


def encode(request: Request) -> tuple[bytes, memoryview | None]:
    """Return what is written first, and what is left of a large body."""
    body = request.body
    if body is None:
        return request.start + b"\r\n", None
    start = b"%bcontent-length: %d\r\n\r\n" % (request.start, len(body))
    if len(body) <= FIRST_BYTES:
        return start + body, None
    view = memoryview(body)
    return start + view[:FIRST_BYTES], view[FIRST_BYTES:]


def acknowledged(sock: socket.socket) -> int:
    """Return how many bytes the peer's kernel acknowledged, the SYN among them.

    Zero where the system does not tell, which a connection never has otherwise: on a
    connection of ours the number is one more than the bytes that arrived.
    """
    return int.from_bytes(_tcp_info(sock)[_BYTES_ACKED], sys.byteorder)


def _tcp_info(sock: socket.socket) -> bytes:
    if _TCP_INFO is None:
        return b""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_ACKED.stop)
    except OSError:
        return b""


def interleave(addresses: Iterable[Address]) -> list[Address]:
    """Order addresses so that the families take turns (RFC 8305 section 4)."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    ordered = [
        (turn, index, address)
        for index, family in enumerate(families.values())
        for turn, address in enumerate(family)
    ]
    return [address for _, _, address in sorted(ordered, key=lambda item: item[:2])]


def server_name(target: Http) -> str:
    """Return the name that TLS asks for and checks (RFC 6066: no dot at its end)."""
    return target.parsed.host.removesuffix(".")


def is_certificate_refusal(error: BaseException) -> bool:
    """Tell whether the server's TLS refuses us for our certificate, or its absence.

    With TLS 1.3 it says so only after our side of the handshake is done.
    """
    reason = getattr(error, "reason", None) or ""
    return "_ALERT_" in reason and any(word in reason for word in _CERTIFICATE_ALERTS)


_CERTIFICATE_ALERTS: Final = (
    "CERTIFICATE",  # required, bad, unknown, expired, revoked, unsupported
    "UNKNOWN_CA",
    "ACCESS_DENIED",
)

_HINTS: Final = {
    "WRONG_VERSION_NUMBER": "the server seems to speak plain HTTP there",
    "HTTP_REQUEST": "the server seems to speak plain HTTP there",
    "UNEXPECTED_EOF_WHILE_READING": "the server closed the connection",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server wants a client certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server may want a client certificate",
}


_FAILED: Final[dict[type[BaseException], str]] = {
    ConnectionRefusedError: "refused",
    TimeoutError: "timeout",
}


def allowed(target: Http, addresses: Sequence[Address]) -> Sequence[Address]:
    """Return those of a host's addresses that may be connected to.

    Raises:
        ConnectError: None may.
    """
    if not target.public_only:
        return addresses
    found = [each for each in addresses if address_class(each[4][0]) == "public"]
    if not found:
        raise ConnectError(
            f"cannot connect to {target.parsed.authority!r}: it has no public address",
            target=str(target),
        )
    return found


def connect_error(target: Http, error: BaseException) -> ConnectError:
    """Put a failure to connect into words: what was tried, which check failed."""
    url = target.parsed
    reason = getattr(error, "reason", None)
    failed = "tls"
    if isinstance(error, socket.gaierror):
        failed = "dns"
        what = f"cannot resolve {url.host!r}: {error.strerror}"
    elif isinstance(error, UnicodeError):
        failed = "dns"
        what = f"cannot resolve {url.host!r}: {error}"
    elif message := getattr(error, "verify_message", None):
        what = f"TLS: cannot trust {url.authority!r}: {message.removesuffix('.')}"
    elif reason:
        said = reason.lower().replace("_", " ")
        what = f"TLS handshake with {url.authority!r} failed: {said}"
    else:
        # asyncio puts its own words, and the address, where the system's should be.
        number = getattr(error, "errno", None)
        own = getattr(error, "strerror", None) or str(error) or type(error).__name__
        said = os.strerror(number) if number else own
        failed = _FAILED.get(type(error), "unreachable")
        what = f"cannot connect to {url.authority!r}: {said}"
    if reason in _HINTS:
        what += f" ({_HINTS[reason]})"
    # TLS and the resolver number their errors otherwise.
    is_system = reason is None and not isinstance(error, socket.gaierror)
    errno = getattr(error, "errno", None) if is_system else None
    return ConnectError(what, target=str(target), errno=errno, reason=failed)
