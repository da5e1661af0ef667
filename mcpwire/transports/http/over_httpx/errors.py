"""What the exceptions of httpx mean; told by their names, for `httpx2` has the same.

Nothing of what they say is passed on that may hold a header, a query or a user name.
"""

from __future__ import annotations

import errno
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
    ProtocolError,
    RemoteProtocolError,
)
from mcpwire.transports.http._sockets import connect_error, is_certificate_refusal
from mcpwire.transports.http.engine import proxy_of
from mcpwire.transports.http.over_httpx.responses import head_too_large
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.limits import Limits
    from mcpwire.transports.http.target import Http

__all__ = ["Facts", "Translator", "shown_cause"]

_NOT_CONNECTED: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"}
    | {"UnsupportedProtocol"}
)
_SAID_PLAINLY: Final[dict[str, tuple[type[ProtocolError], str]]] = {
    "LocalProtocolError": (
        LocalProtocolError,
        "the request cannot be sent: its head is no HTTP",
    ),
    "DecodingError": (
        RemoteProtocolError,
        "the body of the response cannot be decoded",
    ),
}
_REFUSED_STREAM: Final = 7
"""RFC 9113, 7: the peer did nothing of the request."""

_TOO_LARGE: Final = 431
_CLOSED: Final = re.compile(
    r"Server disconnected|peer closed connection|incomplete chunked"
)
_SHOWN: Final = 100


class Facts:
    """What is known of an exchange when it fails.

    Attributes:
        is_traced: Whether the transport tells what it does.
        has_begun: Whether it has begun to send, as far as it tells.
        is_unseen: Whether no byte of the request has arrived, provably.
        has_head: Whether the response has begun.
        is_unwanted: Whether nobody waits any more, and it must not begin to send.
    """

    __slots__ = ("has_begun", "has_head", "is_traced", "is_unseen", "is_unwanted")

    def __init__(self) -> None:
        self.is_traced = self.has_begun = self.is_unseen = self.has_head = False
        self.is_unwanted = False

    @property
    def may_be_sent(self) -> bool:
        """Whether the peer may have seen the request."""
        return (self.has_begun or not self.is_traced) and not self.is_unseen


class Translator:
    """Puts the failures of one engine into our errors.

    Args:
        target: Where to.
        limits: `Limits.head` is named where it was exceeded.
    """

    def __init__(self, target: Http, limits: Limits) -> None:
        self._http = target
        self._target = str(target)
        self._limits = limits
        self._proxy = proxy_of(target)

    def __call__(self, error: Exception, facts: Facts) -> MCPError:
        """Return our error for one of httpx's."""
        names = {cls.__name__ for cls in type(error).__mro__}
        if names & _NOT_CONNECTED or not (facts.has_begun or not facts.is_traced):
            return self._not_connected(error, names)
        if _comes_from(error, "h2"):
            return RemoteProtocolError("the response is not acceptable HTTP/2")
        for name, (cls, text) in _SAID_PLAINLY.items():
            if name in names:
                return cls(text)
        if "HTTPStatusError" in names:
            return self._refused_by_hook(error)
        if "RemoteProtocolError" in names:
            return self._bad_answer(error, facts)
        return self._gone(error, facts)

    def _not_connected(self, error: Exception, names: set[str]) -> ConnectError:
        if "ConnectTimeout" in names:
            limit = self._http.connect_timeout
            within = "in time" if limit is None else f"within {limit:g} s"
            return self._refused(
                f"cannot connect to {self._http.parsed.authority!r} {within}",
                errno.ETIMEDOUT,
                "timeout",
            )
        if "PoolTimeout" in names:
            return self._refused("the HTTP client has no connection left")
        if "UnsupportedProtocol" in names:
            return self._refused("the HTTP client does not speak this scheme")
        if "ProxyError" in names:
            return self._refused(f"the proxy refuses: {_plain(error)}")
        cause = _root(error)
        if cause is None:
            return self._refused(
                f"cannot connect to {self._http.parsed.authority!r}: "
                "the connection ended before anything was sent"
            )
        return self._as_ours(cause)

    def _as_ours(self, cause: OSError | UnicodeError) -> ConnectError:
        ours = connect_error(self._http, cause)
        return self._refused(str(ours), ours.errno, ours.reason)

    def _refused(
        self, what: str, number: int | None = None, reason: str | None = None
    ) -> ConnectError:
        if self._proxy is not None:
            what += f" (through the proxy '{mask_url(self._proxy)}')"
        return ConnectError(what, target=self._target, errno=number, reason=reason)

    def _refused_by_hook(self, error: Any) -> HTTPError:
        response = error.response
        return HTTPError(
            f"{self._target}: the HTTP client's hook refuses status "
            f"{response.status_code}",
            status=response.status_code,
            headers={name.lower(): value for name, value in response.headers.items()},
            target=self._target,
        )

    def _bad_answer(self, error: Exception, facts: Facts) -> MCPError:
        if any(
            getattr(one, "error_status_hint", None) == _TOO_LARGE
            for one in _chain(error)
        ):
            return head_too_large(self._limits)
        frame = _http2_frame(error)
        if frame is not None or _CLOSED.match(str(error)):
            return self._gone(error, facts, frame)
        # What follows the colon is what came, and whatever is in it.
        text = str(error).partition(":")[0][:_SHOWN]
        return RemoteProtocolError(f"the response is not acceptable HTTP: {text}")

    def _gone(self, error: Exception, facts: Facts, frame: Any = None) -> MCPError:
        code = None if frame is None else int(frame.error_code)
        # Not so where the whole connection ends: httpcore sends those again itself.
        is_refused = code == _REFUSED_STREAM and type(frame).__name__ == "StreamReset"
        cause = _root(error)
        if code is not None:
            what = f"the server ended the stream with code {code}"
        elif cause is None:
            what = "the connection ended"
        elif not facts.has_head and is_certificate_refusal(cause):
            return self._as_ours(cause)
        else:
            what = f"the connection broke ({_said(cause)})"
        place = "within the body" if facts.has_head else "before the response"
        return ConnectionClosed(
            f"{self._target}: {what} {place}",
            target=self._target,
            sent=facts.may_be_sent and not is_refused,
        )


def shown_cause(ours: MCPError, error: Exception) -> Exception | None:
    """Return what may stand below our error in a traceback."""
    # The one quotes a header of ours, the other the whole URL.
    return None if isinstance(ours, LocalProtocolError | HTTPError) else error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Give an error and all that led to it, outermost first."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        # httpcore drops causes on its way up, and keeps them as arguments.
        related = [one.__cause__, one.__context__, *one.args]
        related += getattr(one, "exceptions", ())
        waiting += [each for each in related if isinstance(each, BaseException)]


def _root(error: BaseException) -> OSError | UnicodeError | None:
    """Return what the system, TLS or the resolver said, if one of them did."""
    for kinds in ((socket.gaierror, UnicodeError), ssl.SSLError):
        for one in _chain(error):
            if isinstance(one, kinds):
                assert isinstance(one, OSError | UnicodeError)
                return one
    for one in _chain(error):
        if isinstance(one, OSError) and one.errno is not None:
            # asyncio has words of its own for some.
            return OSError(one.errno, os.strerror(one.errno))
    return None


def _said(cause: Exception) -> str:
    if isinstance(cause, ssl.SSLError):
        return f"TLS: {(cause.reason or 'unknown').lower().replace('_', ' ')}"
    number = getattr(cause, "errno", None)
    return os.strerror(number) if number else type(cause).__name__


def _plain(error: Exception) -> str:
    """Return the beginning of what an error says, in printable ASCII."""
    text = str(error)[:_SHOWN]
    return text.encode("unicode_escape").decode("ascii") or type(error).__name__


def _comes_from(error: Exception, package: str) -> bool:
    modules = (type(one).__module__ for one in _chain(error))
    return any(name.partition(".")[0] == package for name in modules)


def _http2_frame(error: Exception) -> Any:
    """Return the event by which the peer ended a stream, or all of them."""
    for one in _chain(error):
        for argument in one.args:
            if getattr(argument, "error_code", None) is not None:
                return argument
    return None
