"""Connections: name resolution, attempts in parallel, TLS contexts, error messages.

The trusted authorities are those of the first available source: the context in `ssl`,
the target's `ca_file`, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, the system's store, and
certifi's list if the system has none. The client certificate is added to each but the
context in `ssl`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError
from mcpwire.wire.urls import address_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcpwire.transports.http.target import ClientCert, Http

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


# TLS contexts


def ssl_context(target: Http) -> ssl.SSLContext:
    """Return the context for connections to a target; read its files again."""
    if target.ssl is not None:
        return target.ssl
    try:
        return _make_context(target)
    except ValueError as error:
        raise ConnectError(str(error), target=str(target)) from error


def check_files(target: Http) -> None:
    """Load the target's certificate files; raise a `ValueError` if one is unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if target.ca_file is not None:
        _trust_file(context, target.ca_file, "ca_file")
    if target.client_cert is not None:
        _load_client_cert(context, target.client_cert)


def _make_context(target: Http) -> ssl.SSLContext:
    # Not `ssl.create_default_context`: its settings depend on the Python version.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not target.http2:
        context.set_alpn_protocols(["http/1.1"])
    if target.ca_file is not None:
        _trust_file(context, target.ca_file, "ca_file")
    elif not (target.trust_env and _trust_environment(context)):
        _trust_system(context)
    if target.client_cert is not None:
        _load_client_cert(context, target.client_cert)
    keys = os.environ.get("SSLKEYLOGFILE")
    if keys and target.trust_env:
        try:
            context.keylog_filename = keys
        except OSError as error:
            text = f"cannot write SSLKEYLOGFILE {keys!r}: {_reason(error)}"
            raise ValueError(text) from error
    return context


def _trust_file(context: ssl.SSLContext, path: str, option: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ValueError(f"{option} {path!r} holds no certificate as PEM") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {option} {path!r}: {_reason(error)}") from error


def _trust_environment(context: ssl.SSLContext) -> bool:
    """Trust the paths in OpenSSL's two variables; return whether one is set."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        _trust_file(context, file, "SSL_CERT_FILE")
    if folder:
        _trust_folders(context, folder)
    return bool(file or folder)


def _trust_folders(context: ssl.SSLContext, folders: str) -> None:
    # OpenSSL accepts several, reads them at the handshake, and ignores missing ones.
    if not any(Path(folder).is_dir() for folder in folders.split(os.pathsep)):
        raise ValueError(f"cannot read SSL_CERT_DIR {folders!r}: no such folder")
    context.load_verify_locations(capath=folders)


def _trust_system(context: ssl.SSLContext) -> None:
    """Trust the system's store, not the environment's; without a store, certifi's."""
    if os.name == "nt":  # its store is not a file
        context.load_default_certs()
        return
    paths = ssl.get_default_verify_paths()
    file, folder = Path(paths.openssl_cafile), Path(paths.openssl_capath)
    if file.is_file():
        _trust_file(context, str(file), "the system's store")
    if folder.is_dir() and any(folder.iterdir()):
        context.load_verify_locations(capath=folder)
    elif not context.cert_store_stats()["x509_ca"]:
        import certifi  # comes with httpx

        context.load_verify_locations(cafile=certifi.where())


def _load_client_cert(context: ssl.SSLContext, cert: ClientCert) -> None:
    """Load the client certificate, without a prompt for the password of its key."""
    parts = (cert,) if isinstance(cert, str) else cert
    paths = [str(part) for part in parts[:2]]
    for path in paths:
        try:
            Path(path).open("rb").close()
        except (OSError, ValueError) as error:
            raise ValueError(
                f"cannot read client_cert {path!r}: {_reason(error)}"
            ) from error
    password = parts[2] if len(parts) == 3 else _no_password
    try:
        context.load_cert_chain(paths[0], (*paths, None)[1], password)
    except (ssl.SSLError, _NoPassword) as error:
        raise ValueError(
            f"cannot use client_cert {paths!r}: {_reason(error)}"
        ) from error


class _NoPassword(Exception):
    """The key is encrypted, and no password was given."""


def _no_password() -> str:
    # Without this function, OpenSSL prompts at the terminal.
    raise _NoPassword("its key needs a password")


def _reason(error: Exception) -> str:
    """Return the message of an error, without its number and path."""
    message: str = getattr(error, "strerror", None) or str(error)
    if "PEM lib" in message:  # OpenSSL's text for all these cases
        return "it holds no certificate and key as PEM, or not with that password"
    return message.partition(" (_ssl.c")[0]


# Errors


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
        failed = "tls"
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
