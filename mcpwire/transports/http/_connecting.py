"""How an asyncio connection comes about: resolve, connect, shake hands, in time."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwire.errors import ConnectError
from mcpwire.transports.http._plain import PlainTransport, can_watch
from mcpwire.transports.http._sockets import (
    HEAD_START_S,
    allowed,
    connect_error,
    interleave,
    server_name,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from mcpwire.transports.http._connection import Connection
    from mcpwire.transports.http._sockets import Address
    from mcpwire.transports.http.target import Http

__all__ = ["connect"]

GOODBYE_S: Final = 2.0
"""How long a server may take to answer the goodbye of TLS."""


async def connect(
    target: Http,
    context: ssl.SSLContext | None,
    factory: Callable[[], Connection],
) -> Connection:
    """Return a new connection to the target.

    Cancelling it leaves nothing open.

    Raises:
        ConnectError: No connection came about; names the check that failed.
    """
    try:
        async with asyncio.timeout(target.connect_timeout):
            return await _create(target, context, factory)
    except TimeoutError as error:
        # The system's own comes as one, too.
        raise _too_late(target, error) from error
    except (OSError, UnicodeError) as error:
        raise connect_error(target, error) from error


async def _create(
    target: Http,
    context: ssl.SSLContext | None,
    factory: Callable[[], Connection],
) -> Connection:
    loop = asyncio.get_running_loop()
    addresses = await _resolve(loop, target.parsed.host, target.parsed.port)
    sock = await _race(loop, allowed(target, addresses))
    if context is None and can_watch(loop):
        connection = factory()
        try:
            PlainTransport(loop, sock, connection)
        except BaseException:  # an option that some system refuses once it has ended
            sock.close()
            raise
        return connection
    if context is None:
        _, connection = await loop.create_connection(factory, sock=sock)
        return connection
    _, connection = await loop.create_connection(
        factory,
        sock=sock,
        ssl=context,
        server_hostname=server_name(target),
        ssl_shutdown_timeout=GOODBYE_S,
    )
    return connection


async def _resolve(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> Sequence[Address]:
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(
            host, port, type=kind, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:  # a name
        return await loop.getaddrinfo(host, port, type=kind)


async def _race(
    loop: asyncio.AbstractEventLoop, addresses: Sequence[Address]
) -> socket.socket:
    """Connect to the first address that answers; each gets a head start.

    RFC 8305 section 5: the next one begins when that is over, or as soon as one fails.
    """
    if len(addresses) == 1:
        return await _attempt(loop, addresses[0])
    untried = deque(interleave(addresses))
    running: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError("it has no address")
    try:
        while untried or running:
            if untried:
                running.add(loop.create_task(_attempt(loop, untried.popleft())))
            ended, _ = await asyncio.wait(
                running,
                timeout=HEAD_START_S if untried else None,
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
        # Nobody waits for their ends here: a cancellation meanwhile would lose the one
        # that has come through.
        for attempt in running:
            attempt.add_done_callback(_close_late)
            attempt.cancel()


async def _attempt(loop: asyncio.AbstractEventLoop, address: Address) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _too_late(target: Http, error: TimeoutError) -> ConnectError:
    if error.errno is not None:
        return connect_error(target, error)
    where = target.parsed.authority
    return ConnectError(
        f"cannot connect to {where!r} within {target.connect_timeout:g} s",
        target=str(target),
        errno=errno.ETIMEDOUT,
        reason="timeout",
    )
