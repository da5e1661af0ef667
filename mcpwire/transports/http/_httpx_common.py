"""What the two httpx engines share: which target needs one, its transport, and heads.

A user's client is asked as a whole, with its auth, hooks and proxies. Without one the
engines talk to a transport of httpx directly: a client of httpx around it would keep
cookies, add headers of its own, and write each URL with its query into the log.

`httpx2` has the same interface under another name, so names are looked up in the module
that a client comes from.
"""

from __future__ import annotations

import os
import re
import sys
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal

from mcpwire.errors import MessageTooLarge, RemoteProtocolError
from mcpwire.transports.http._sockets import IDLE_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import ModuleType

    from mcpwire.limits import Limits
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http.target import Http

__all__ = [
    "FRESH_S",
    "Requests",
    "body_of",
    "check_client",
    "choose_engine",
    "failures_of",
    "head_too_large",
    "is_http2",
    "length_of",
    "library_of",
    "make_transport",
    "proxy_applies",
    "proxy_of",
    "read_head",
]

FRESH_S: Final = 0.02
"""How long the next exchange waits for such a rest, to have its connection."""

_KEPT_IDLE: Final = 64
"""httpcore counts busy connections here too, so it is no small number."""

_NEEDS_HTTPX: Final = ("http_client", "proxy", "http2")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


# Which engine...


def choose_engine(target: Http) -> Literal["direct", "httpx"]:
    """Say who moves the bytes of a target.

    Raises:
        ValueError: ``engine="direct"`` cannot do it.
    """
    needed = [name for name in _NEEDS_HTTPX if getattr(target, name)]
    if target.engine == "httpx":
        return "httpx"
    if target.engine == "direct":
        if needed:
            raise ValueError(
                f"engine='direct' cannot do {needed[0]}=: leave engine out"
            )
        if not _has_httptools():
            raise ValueError("engine='direct' needs the package httptools")
        return "direct"
    if needed or proxy_applies(target) or not _has_httptools():
        return "httpx"
    return "direct"


def _has_httptools() -> bool:
    from importlib.util import find_spec

    return find_spec("httptools") is not None


def proxy_applies(target: Http) -> bool:
    """Tell whether requests to a target go through a proxy."""
    return proxy_of(target) is not None


def proxy_of(target: Http) -> str | None:
    """Return the URL of a target's proxy: its own, or the environment's."""
    if target.proxy is not None:
        return target.proxy
    if target.http_client is not None or not target.trust_env:
        return None
    # Elsewhere the system has settings for it beside the environment.
    if sys.platform.startswith("linux") and not any(
        name.lower().endswith("_proxy") for name in os.environ
    ):
        return None
    return _system_proxy(target.parsed.scheme, target.parsed.host, target.parsed.port)


def _system_proxy(scheme: str, host: str, port: int) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy:
        return None
    places = (host, f"{host}:{port}", f"[{host}]", f"[{host}]:{port}")
    if any(proxy_bypass(place) for place in places):
        return None
    if _in_networks(host, proxies.get("no", "")):
        return None
    return proxy if _SCHEME.match(proxy) else f"http://{proxy}"


def _in_networks(host: str, no_proxy: str) -> bool:
    """Tell whether an address is in one of the networks, such as ``10.0.0.0/8``."""
    from ipaddress import ip_address, ip_network

    try:
        address = ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        if "/" in entry:
            try:
                network = ip_network(entry.strip(), strict=False)
            except ValueError:  # names may stand there too
                continue
            if address in network:
                return True
    return False


# ... a client of the user's, or a transport of ours...


def library_of(client: Any) -> ModuleType:
    """Return the module that a client comes from: httpx, or one like it.

    Raises:
        ValueError: It comes from no such module.
    """
    for cls in type(client).__mro__:
        module = sys.modules.get(cls.__module__.partition(".")[0])
        if hasattr(module, "HTTPError") and hasattr(module, "AsyncHTTPTransport"):
            assert module is not None
            return module
    raise ValueError(f"http_client must be an httpx client, got {_kind(client)}")


def failures_of(library: ModuleType) -> tuple[type[Exception], ...]:
    """Return what a library raises on purpose; asked for when something was raised."""
    import ssl

    h2 = sys.modules.get("h2.exceptions")
    # httpcore lets some of the others through.
    found: tuple[type[Exception], ...] = (library.HTTPError, ssl.SSLError)
    return found if h2 is None else (*found, h2.H2Error)


def check_client(client: Any, *, asynchronous: bool) -> None:
    """Check that a client awaits where it must and nowhere else.

    Raises:
        ValueError: It is of the other kind.
    """
    if hasattr(client, "aclose") is not asynchronous:
        wanted = "AsyncClient" if asynchronous else "Client"
        raise ValueError(f"http_client must be an httpx.{wanted}, got {_kind(client)}")


def _kind(client: Any) -> str:
    cls = type(client)
    return f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"


def make_transport(target: Http, make: Callable[..., Any], library: ModuleType) -> Any:
    """Make the transport of a target that has no client of the user's.

    Args:
        target: Where to.
        make: The class of the transport.
        library: httpx.

    Raises:
        ConnectError: A file of the TLS options cannot be used.
        ValueError: A package is missing.
    """
    context = _context(target)
    proxy = proxy_of(target)
    if proxy is not None and proxy[:6].lower() == "https:":
        proxy = library.Proxy(proxy, ssl_context=context)
    try:
        return make(
            verify=context,
            http2=target.http2,
            limits=library.Limits(
                max_connections=None,
                max_keepalive_connections=_KEPT_IDLE,
                keepalive_expiry=IDLE_S,
            ),
            proxy=proxy,
            trust_env=False,
        )
    except ImportError as error:  # of h2 the target knows that it is there
        raise ValueError(
            "a SOCKS proxy needs the package socksio: install 'httpx[socks]'"
        ) from error


def _context(target: Http) -> ssl.SSLContext:
    proxy = proxy_of(target)
    if target.parsed.scheme == "https" or (proxy or "")[:6].lower() == "https:":
        from mcpwire.transports.http.tls import ssl_context

        return ssl_context(target)
    import ssl

    # Never used, and quick to make: it trusts nobody.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Requests:
    """Builds the requests of httpx.

    Args:
        target: Where they go.
        library: httpx.
        client: The user's, which adds what it has to add.
    """

    def __init__(self, target: Http, library: ModuleType, client: Any) -> None:
        self._library = library
        self._client = client
        self._origin = target.parsed.origin
        self._path = ""
        self._url: Any = None

    def build(
        self, request: Request, trace: Callable[..., Any], connect_timeout: float | None
    ) -> Any:
        """Build a request; time limits other than connecting are the caller's."""
        path = request.target
        if path != self._path:
            self._url = self._library.URL(self._origin + path)
            self._path = path
        make = self._library.Request if self._client is None else self._build
        return make(
            request.verb,
            self._url,
            headers=request.fields,
            content=request.body,
            extensions={
                "trace": trace,
                "timeout": {
                    "connect": connect_timeout,
                    "read": None,
                    "write": None,
                    "pool": None,
                },
            },
        )

    def _build(self, *args: Any, **options: Any) -> Any:
        return self._client.build_request(*args, **options)


# ... and what comes back.


def is_http2(response: Any) -> bool:
    """Tell whether a response came over HTTP/2."""
    return bool(response.extensions.get("http_version") == b"HTTP/2")


def body_of(response: Any, prefix: str, *, is_encoded: bool) -> Any:
    """Return the iterator over what is left of a body.

    Args:
        response: httpx's.
        prefix: ``"a"`` for the asynchronous one.
        is_encoded: Whether it must be decoded.
    """
    # A hook of the user's client may have read it already.
    kind = "bytes" if is_encoded or response.is_stream_consumed else "raw"
    return getattr(response, f"{prefix}iter_{kind}")()


def length_of(response: Any, status: int, fields: dict[bytes, bytes]) -> float:
    """Return how many bytes of a body bring its end with them; infinite for none."""
    if is_http2(response):  # the end comes in a frame of its own
        return inf
    if status in {204, 304}:
        return 0
    length = fields.get(b"content-length", b"")
    return int(length) if length.isdigit() else inf


def read_head(
    response: Any, limits: Limits, *, decodes: bool
) -> tuple[int, dict[bytes, bytes], bool]:
    """Return status, fields and whether the body is to be decoded.

    Args:
        response: httpx's.
        limits: `Limits.head` bounds it.
        decodes: Whether a body may come encoded: we never ask for it, but a user's
            client may.

    Raises:
        RemoteProtocolError: It is not acceptable HTTP.
        MessageTooLarge: It is over its limit.
    """
    raw = response.headers.raw
    size = sum(len(name) + len(value) + 4 for name, value in raw)
    if size > limits.head:
        raise head_too_large(limits)
    fields: dict[bytes, bytes] = {}
    for given, value in raw:
        name = given.lower()
        known = fields.get(name)
        fields[name] = value if known is None else b"%b, %b" % (known, value)
    status = response.status_code
    if status < 200:
        raise RemoteProtocolError(f"status {status} is no answer to this request")
    # RFC 9112, 6.3: two lengths may be an attempt to smuggle.
    if b"content-length" in fields and b"transfer-encoding" in fields:
        raise RemoteProtocolError("the response has two lengths")
    is_encoded = fields.get(b"content-encoding", b"identity").lower() != b"identity"
    if is_encoded:
        if not decodes:
            raise RemoteProtocolError(
                "the response is encoded although that was not accepted: "
                f"{fields[b'content-encoding'][:40].decode('latin-1')!r}"
            )
        # They tell of the bytes that came, not of those that are passed on.
        del fields[b"content-encoding"]
        fields.pop(b"content-length", None)
    return status, fields, is_encoded


def head_too_large(limits: Limits) -> MessageTooLarge:
    """Build the error for a head that is over its limit."""
    return MessageTooLarge(
        f"the head of the response is longer than {limits.head} bytes (Limits.head)",
        limit=limits.head,
    )
