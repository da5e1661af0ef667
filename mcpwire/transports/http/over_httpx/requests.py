"""What is asked: a transport of httpx, or the user's client, and their requests.

A user's client is asked as a whole, with its auth, hooks and proxies. Without one the
engines talk to a transport of httpx directly: a client of httpx around it would keep
cookies, add headers of its own, and write each URL with its query into the log.

`httpx2` has the same interface under another name, so names are looked up in the module
that a client comes from.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from mcpwire.transports.http._sockets import IDLE_S
from mcpwire.transports.http.destination import Destination
from mcpwire.transports.http.engine import proxy_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import ModuleType

    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.target import Http

__all__ = ["Requests", "check_client", "failures_of", "library_of", "make_transport"]

_KEPT_IDLE: Final = 64
"""httpcore counts busy connections here too, so it is no small number."""


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


def check_client(client: Any) -> None:
    """Check that a client is asynchronous.

    Raises:
        ValueError: It is not.
    """
    if not hasattr(client, "aclose"):
        raise ValueError(
            f"http_client must be an httpx.AsyncClient, got {_kind(client)}"
        )


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
        self._http = target
        self._origin = target.parsed.origin
        self._path = ""
        self._url: Any = None

    def build(self, request: Request, tap: Any, connect_timeout: float | None) -> Any:
        """Build a request; time limits other than connecting are the caller's.

        A user's client may change it: `tap` is told where its credentials may go.
        """
        path = request.target
        if path != self._path:
            self._url = self._library.URL(self._origin + path)
            self._path = path
        make = self._library.Request
        if self._client is not None:
            make = self._client.build_request
            tap.destination = Destination(self._http, request, self._url)
        return make(
            request.verb,
            self._url,
            headers=request.fields,
            content=request.body,
            extensions={
                "trace": tap.trace,
                "timeout": {
                    "connect": connect_timeout,
                    "read": None,
                    "write": None,
                    "pool": None,
                },
            },
        )
