"""How an asyncio connection comes about: resolve, connect, shake hands, in time."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import ConnectError
from mcpwire.transports.http._sockets import HEAD_START_S, connect_error, server_name

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from mcpwire.transports.http._connection import Connection
    from mcpwire.transports.http.target import Http

__all__ = ["connect"]

GOODBYE_S: Final = 2.0
"""How long a server may take to answer the goodbye of TLS."""

_CODES: Final = re.compile(r"\[Errno (\d+)\]")


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
        raise connect_error(target, _one_error(error)) from error


async def _create(
    target: Http,
    context: ssl.SSLContext | None,
    factory: Callable[[], Connection],
) -> Connection:
    url = target.parsed
    options: dict[str, Any] = {}
    if context is not None:
        options["ssl"] = context
        options["server_hostname"] = server_name(target)
        options["ssl_shutdown_timeout"] = GOODBYE_S
    if ":" not in url.host and not url.host[-1].isdigit():
        # A name: it may have several addresses, which run a race.
        options["happy_eyeballs_delay"] = HEAD_START_S
        options["interleave"] = 1
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(factory, url.host, url.port, **options)
    return connection


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


def _one_error(error: BaseException) -> BaseException:
    """Return an error to connect as the system words it, not asyncio.

    Of several addresses asyncio makes one error whose text holds them all.
    """
    text = str(error)
    if not isinstance(error, OSError) or "Connect call failed" not in text:
        return error
    codes = [int(code) for code in _CODES.findall(text)]
    said = dict.fromkeys(os.strerror(code) for code in codes)
    return OSError(codes[-1], "; ".join(said)) if codes else error
