"""TCP connections: name resolution, attempts in parallel, and error messages."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError
from mcpwire.wire.urls import address_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.transports.http.target import Http

    Address = tuple[int, int, int, str, tuple[Any, ...]]

ATTEMPT_DELAY_S: Final = 0.25
"""The Connection Attempt Delay of RFC 8305 section 5, in seconds."""

_CERTIFICATE_ALERTS: Final = (
    "CERTIFICATE",  # required, bad, unknown, expired, revoked, unsupported
    "UNKNOWN_CA",
    "ACCESS_DENIED",
)

_HINTS: Final = {
    "WRONG_VERSION_NUMBER": "the server seems to speak plain HTTP there",
    "HTTP_REQUEST": "the server seems to speak plain HTTP there",
    "UNEXPECTED_EOF_WHILE_READING": "the server closed the connection",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server requires a client certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server may require a client certificate",
}


async def connect(target: Http) -> socket.socket:
    """Return a socket connected to the target's origin; safe to cancel."""
    loop = asyncio.get_running_loop()
    host, port = target.parsed.host, target.parsed.port
    addresses: Sequence[Address]
    try:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:  # a name, not an address
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if target.public_only:
        addresses = [address for address in addresses if _is_public(address)]
        if not addresses:
            authority = target.parsed.authority
            raise ConnectError(
                f"cannot connect to {authority!r}: it has no public address",
                target=str(target),
            )
    return await _race_connections(addresses)


def _is_public(address: Address) -> bool:
    return address_class(address[4][0]) == "public"


def interleave(addresses: Iterable[Address]) -> list[Address]:
    """Order addresses so that the families alternate (RFC 8305 section 4)."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    rounds = zip_longest(*families.values())
    return [address for group in rounds for address in group if address is not None]


async def _race_connections(addresses: Sequence[Address]) -> socket.socket:
    """Return the socket of the first successful connection attempt.

    RFC 8305 section 5: the next one starts after `ATTEMPT_DELAY_S`, or after a failure.
    """
    if len(addresses) == 1:
        return await _open_socket(addresses[0])
    untried = deque(interleave(addresses))
    running: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError("it has no address")
    try:
        while untried or running:
            if untried:
                running.add(asyncio.create_task(_open_socket(untried.popleft())))
            ended, _ = await asyncio.wait(
                running,
                timeout=ATTEMPT_DELAY_S if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in ended:
                running.discard(attempt)
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                failure = error
        raise failure
    finally:
        # Not awaited: a cancellation during the wait would lose the connected socket.
        for attempt in running:
            attempt.add_done_callback(_close_result)
            attempt.cancel()


async def _open_socket(address: Address) -> socket.socket:
    family, kind, protocol, _, socket_address = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, socket_address)
        # Small requests are sent without delay; keep-alive detects a dead peer.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_result(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def is_certificate_refusal(error: BaseException | None) -> bool:
    """Return whether a TLS alert rejects the client certificate, or its absence.

    With TLS 1.3 the alert arrives after the client has completed its handshake.
    """
    reason = getattr(error, "reason", None) or ""
    return "_ALERT_" in reason and any(word in reason for word in _CERTIFICATE_ALERTS)


def describe_error(error: BaseException) -> str:
    """Return the system's message of an error, else its text or type."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def timeout_error(target: Http) -> ConnectError:
    """Return the error for a connection attempt that exceeds `connect_timeout`."""
    limit = target.connect_timeout
    within = "in time" if limit is None else f"within {limit:g} s"
    return ConnectError(
        f"cannot connect to {target.parsed.authority!r} {within}",
        target=str(target),
        errno=errno.ETIMEDOUT,
        reason="timeout",
    )


def connect_error(target: Http, error: BaseException) -> ConnectError:
    """Return the error for a failed connection attempt; `reason` is the failed step."""
    url = target.parsed
    number: int | None = None
    reason = getattr(error, "reason", None)
    if isinstance(error, socket.gaierror | UnicodeError):
        failed = "dns"
        detail = getattr(error, "strerror", None) or error
        message = f"cannot resolve {url.host!r}: {detail}"
    elif verify_message := getattr(error, "verify_message", None):
        failed = "tls"
        message = (
            f"TLS: cannot trust {url.authority!r}: {verify_message.removesuffix('.')}"
        )
    elif reason:
        # A server that closes the connection, as at a restart, may accept the next one.
        is_closed = reason == "UNEXPECTED_EOF_WHILE_READING"
        failed = "unreachable" if is_closed else "tls"
        detail = reason.lower().replace("_", " ")
        message = f"TLS handshake with {url.authority!r} failed: {detail}"
    else:
        number = getattr(error, "errno", None)
        failed = "unreachable"
        if isinstance(error, ConnectionRefusedError):
            failed = "refused"
        elif isinstance(error, TimeoutError):
            failed = "timeout"
        # asyncio replaces the system's message by its own, which has the address.
        detail = os.strerror(number) if number else describe_error(error)
        message = f"cannot connect to {url.authority!r}: {detail}"
    if reason in _HINTS:
        message += f" ({_HINTS[reason]})"
    return ConnectError(message, target=str(target), errno=number, reason=failed)
