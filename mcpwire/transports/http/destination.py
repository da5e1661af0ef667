"""Credentials go to the very URL that they are for: scheme, host, port, path and query.

What a redirect asks for is checked before the next request. A client of the user's may
send its request elsewhere than it was told: its hooks, auth and transports may rewrite
the URL. So the request is checked behind its hooks, and again in httpcore, before the
first byte of its head is written. ::

    send ─► auth ─► hooks ─► `check` ─► transports ─► httpcore ─► `check_trace` ─► bytes

A transport that does not use httpcore, or asks it with a new request that lacks the
extensions of ours, is checked by the first of them alone.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.target import is_credential
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcpwire.auth.errors import UrlRefused
    from mcpwire.transports.http.target import Http

__all__ = ["Destination", "misdirected", "redirected"]

SECRET_BYTES: Final = 8
"""A value of this length is known again under any name; a shorter one may be chance."""

_PORTS: Final = {b"http": 80, b"https": 443}


def misdirected(http: Http, url: str) -> UrlRefused:
    """Build the error for credentials that would go to another URL than theirs."""
    from mcpwire.auth.errors import UrlRefused

    masked = mask_url(url)
    return UrlRefused(
        f"{http}: no token or other credential is sent to '{masked}'",
        url=masked,
        rule="a token goes to the very URL that it is for",
    )


def redirected(http: Http, request: Request, target: str) -> Request:
    """Return a request as a redirect within the origin asks for it.

    Raises:
        UrlRefused: It has credentials, and they are for another path or query.
    """
    if target != request.target and _credentials(request):
        raise misdirected(http, f"{http.parsed.origin}{target}")
    line, end, rest = request.start.partition(b"\r\n")
    verb, _, version = line.split(b" ")
    line = b" ".join((verb, target.encode("ascii"), version))
    return Request(line + end + rest, request.body)


def _credentials(request: Request) -> frozenset[tuple[bytes, bytes]]:
    """Return the fields that are likely to carry a secret."""
    return frozenset(
        field for field in request.fields if is_credential(field[0].decode("latin-1"))
    )


class Destination:
    """Where the credentials of one request of a user's httpx client may go."""

    def __init__(self, http: Http, request: Request, url: Any) -> None:
        self._http = http
        self._credentials = _credentials(request)
        # A hook may move them to headers of another name.
        self._secrets = [v for _, v in self._credentials if len(v) >= SECRET_BYTES]
        parts = (url.raw_scheme, url.raw_host, url.port, url.raw_path)
        self._urls = {_absolute(*parts)}
        if url.port is None:
            self._urls.add(b"%b://%b%b" % (url.raw_scheme, url.raw_host, url.raw_path))
        self._hosts = [value for name, value in request.fields if name == b"host"]

    @contextlib.contextmanager
    def watch(self, client: Any) -> Iterator[None]:
        """Check what the client sends meanwhile in this context, behind its hooks."""
        if not self._credentials:
            yield
            return
        check = _check_async if hasattr(client, "aclose") else _check
        hooks = client.event_hooks["request"]
        if check not in hooks[-1:]:
            # One that stands further ahead stays: a request may be on its way there.
            hooks.append(check)
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def check(self, request: Any) -> None:
        """Check a request of httpx.

        Raises:
            UrlRefused: It has our credentials, and they are for another URL.
        """
        url = request.url
        target = request.extensions.get("target", url.raw_path)
        found = _absolute(url.raw_scheme, url.raw_host, url.port, target)
        self._check(found, request.headers.raw)

    def check_trace(self, request: Any) -> None:
        """Check a request of httpcore; see `check`."""
        url = request.url
        found = _absolute(url.scheme, url.host, url.port, url.target)
        if not url.target.startswith(b"/"):  # for a proxy, which is asked for a URL
            found = url.target
        self._check(found, request.headers)

    def _check(self, found: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        fields = [(name.lower(), value) for name, value in headers]
        if self._credentials.isdisjoint(fields) and not any(
            secret in value for _, value in fields for secret in self._secrets
        ):
            return  # a request of the client's own, such as for a token
        hosts = [value for name, value in fields if name == b"host"]
        if found in self._urls:
            if hosts == self._hosts:
                return
            scheme, _, rest = found.partition(b"://")
            path = b"/" + rest.partition(b"/")[2]
            found = scheme + b"://" + b",".join(hosts) + path
        raise misdirected(self._http, found.decode("latin-1"))


def _absolute(scheme: bytes, host: bytes, port: int | None, target: bytes) -> bytes:
    if port is None:
        port = _PORTS.get(scheme)
    return b"%b://%b:%d%b" % (scheme, host, port or 0, target)


_current: ContextVar[Destination | None] = ContextVar("_current", default=None)
"""Where the request may go that is sent in this context."""


def _check(request: Any) -> None:
    destination = _current.get()
    if destination is not None:
        destination.check(request)


async def _check_async(request: Any) -> None:
    _check(request)
