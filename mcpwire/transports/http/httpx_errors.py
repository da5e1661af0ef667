"""Translation of httpx exceptions to `MCPError`.

The messages contain no text of httpx that may include a header, query or user name.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    ConnectError,
    ConnectionClosed,
    HTTPError,
    LocalProtocolError,
    MCPError,
    MessageTooLarge,
    RemoteProtocolError,
)
from mcpwire.transports.http.connecting import (
    connect_error,
    is_certificate_refusal,
    timeout_error,
)
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.limits import Limits
    from mcpwire.transports.http.httpx_engine import HttpxEngine

_NOT_CONNECTED: Final = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        "UnsupportedProtocol",
    }
)
_REFUSED_STREAM: Final = 7
"""RFC 9113 section 7: the peer did not process the request."""

_HEAD_TOO_LARGE: Final = 431
_CLOSED: Final = re.compile(
    r"Server disconnected|peer closed connection|incomplete chunked"
)
_MAX_SHOWN_CHARACTERS: Final = 100


def translate(engine: HttpxEngine, exchange: Any, error: Exception) -> MCPError:
    """Return the `MCPError` for an exception of httpx."""
    # By name, as the classes of `httpx2` have the same names.
    names = {cls.__name__ for cls in type(error).__mro__}
    chain = list(_causes(error))
    if names & _NOT_CONNECTED or not exchange.may_be_sent:
        return _not_connected_error(engine, error, names)
    frame = _http2_frame(chain)
    refusal = _request_error(engine, error, names, chain)
    if refusal is not None:
        return refusal
    cause = _root_cause(chain)
    if frame is None and not exchange.has_head and is_certificate_refusal(cause):
        return _not_connected_error(engine, error, names)
    # Not if the whole connection ends: then httpcore sends the request again itself.
    is_refused = (
        getattr(frame, "error_code", None) == _REFUSED_STREAM
        and type(frame).__name__ == "StreamReset"
    )
    place = "within the body" if exchange.has_head else "before the response"
    if not (exchange.has_head or is_refused):
        place += ": the request may have run"
    return ConnectionClosed(
        f"{engine.target}: {_describe_end(frame, cause)} {place}",
        target=engine.target,
        sent=not is_refused,
    )


def _request_error(
    engine: HttpxEngine, error: Exception, names: set[str], chain: list[BaseException]
) -> MCPError | None:
    """Return the error if the cause is not the end of the connection, else ``None``."""
    if any(type(cause).__module__.partition(".")[0] == "h2" for cause in chain):
        return RemoteProtocolError("the response is not acceptable HTTP/2")
    if "LocalProtocolError" in names:
        return LocalProtocolError("the request cannot be sent: its head is not HTTP")
    if "HTTPStatusError" in names:
        return _hook_error(engine, error)
    text = None
    if "DecodingError" in names:
        text = "the body of the response cannot be decoded"
    elif "RemoteProtocolError" in names:
        if any(
            getattr(cause, "error_status_hint", 0) == _HEAD_TOO_LARGE for cause in chain
        ):
            return head_too_large_error(engine.limits)
        if _http2_frame(chain) is None and not _CLOSED.match(str(error)):
            # The text after the colon contains received data.
            detail = str(error).partition(":")[0][:_MAX_SHOWN_CHARACTERS]
            text = f"the response is not acceptable HTTP: {detail}"
    return None if text is None else RemoteProtocolError(text)


def head_too_large_error(limits: Limits) -> MessageTooLarge:
    """Return the error for a head that exceeds its limit."""
    return MessageTooLarge(
        f"the head of the response is over the limit of {limits.head} bytes",
        limit=limits.head,
    )


def _not_connected_error(
    engine: HttpxEngine, error: Exception, names: set[str]
) -> ConnectError:
    connect_failure = _connect_error(engine, error, names)
    if engine.proxy is None:
        return connect_failure
    return ConnectError(
        f"{connect_failure} (through the proxy '{mask_url(engine.proxy)}')",
        target=connect_failure.target,
        errno=connect_failure.errno,
        reason=connect_failure.reason,
    )


def _connect_error(
    engine: HttpxEngine, error: Exception, names: set[str]
) -> ConnectError:
    if "ConnectTimeout" in names:
        return timeout_error(engine.http)
    if "PoolTimeout" in names:
        message = "the HTTP client has no connection left"
    elif "UnsupportedProtocol" in names:
        message = "the HTTP client does not speak this scheme"
    elif "ProxyError" in names:
        text = (
            str(error)[:_MAX_SHOWN_CHARACTERS].encode("unicode_escape").decode("ascii")
        )
        message = f"the proxy refuses: {text or type(error).__name__}"
    elif (cause := _root_cause(list(_causes(error)))) is not None:
        return connect_error(engine.http, cause)
    else:
        message = (
            f"cannot connect to {engine.http.parsed.authority!r}: "
            "the connection ended before anything was sent"
        )
    return ConnectError(message, target=engine.target)


def _hook_error(engine: HttpxEngine, error: Any) -> HTTPError:
    response = error.response
    return HTTPError(
        f"{engine.target}: the HTTP client's hook refuses status "
        f"{response.status_code}",
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        target=engine.target,
    )


def _describe_end(frame: Any, cause: Exception | None) -> str:
    if frame is not None:
        return f"the server ended the stream with code {int(frame.error_code)}"
    if cause is None:
        return "the connection ended"
    if isinstance(cause, ssl.SSLError):
        detail = (cause.reason or "unknown").lower().replace("_", " ")
        return f"the connection broke (TLS: {detail})"
    number = getattr(cause, "errno", None)
    detail = os.strerror(number) if number else type(cause).__name__
    return f"the connection broke ({detail})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all errors that led to it, outermost first."""
    queue: list[BaseException] = [error]
    seen: set[int] = set()
    while queue:
        current = queue.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        # httpcore removes causes when it re-raises, and keeps them as arguments.
        related = [current.__cause__, current.__context__, *current.args]
        related += getattr(current, "exceptions", ())
        queue += [cause for cause in related if isinstance(cause, BaseException)]


def _root_cause(chain: list[BaseException]) -> OSError | UnicodeError | None:
    """Return the error of the resolver, of TLS or of the system, if there is one."""
    for kinds in ((socket.gaierror, UnicodeError), ssl.SSLError):
        for cause in chain:
            if isinstance(cause, kinds):
                assert isinstance(cause, OSError | UnicodeError)
                return cause
    for cause in chain:
        if isinstance(cause, OSError) and cause.errno is not None:
            # asyncio replaces the message of some.
            return OSError(cause.errno, os.strerror(cause.errno))
    return None


def _http2_frame(chain: list[BaseException]) -> Any:
    """Return the event with which the peer ended a stream or the connection."""
    for cause in chain:
        for argument in cause.args:
            if getattr(argument, "error_code", None) is not None:
                return argument
    return None
