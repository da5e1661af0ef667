"""The interface of HTTP engines, and the choice of an engine for a target.

An engine sends one request and passes the response to a sink. It connects to one
origin, follows no redirects, stores no cookies, and is independent of MCP. `direct` is
the default; `httpx_engine` supports proxies, HTTP/2 and a user's httpx client.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.h1 import ResponseSink
    from mcpwire.transports.http.target import Http

IDLE_TIMEOUT_S: Final = 4.0
"""Seconds for which an idle connection is kept: many servers close it after 5 s."""

MAX_TAIL_S: Final = 4.0
"""Maximum seconds for the rest of a body after its reply is over."""

MAX_TAIL_BYTES: Final = 65_536
"""Maximum bytes of the rest of a body after its reply is over."""

_NEEDS_HTTPX: Final = ("http_client", "proxy", "http2")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Engine(Protocol):
    """An HTTP client for one origin."""

    target: str
    """The URL as text without secrets."""

    @property
    def bytes_sent(self) -> int:
        """Number of bytes that the operating system has accepted so far."""

    @property
    def bytes_received(self) -> int:
        """Number of bytes received so far."""

    def exchange(
        self, request: Request, reply: ResponseSink
    ) -> Coroutine[Any, Any, None]:
        """Send a request and pass the response to `reply` until the reply is over.

        A request is sent again only if nothing of it could be written. The rest of the
        response is passed to the reply after the return. An error of the reply closes
        the connection and is raised. Cancellation closes it unless HTTP/2 shares it.

        Raises:
            ConnectError: The connection attempt failed; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent` is
                whether the server may have received the request.
            RemoteProtocolError: The response is not acceptable HTTP.
            MCPError: The error that `abort` was called with.
        """

    def abort(self, reply: ResponseSink, error: MCPError) -> bool:
        """End the exchange of a reply; return whether one was running.

        The exchange raises `error`, unless its reply is over.
        """

    async def aclose(self) -> None:
        """Close all connections, within a time limit."""

    def abandon(self) -> None:
        """Close the sockets at once without waiting, even without a running loop."""

    def after_fork(self) -> None:
        """Close this process's copies of the sockets after a fork."""


def open_engine(target: Http, limits: Limits) -> Engine:
    """Return a new engine for a target."""
    if choose_engine(target) == "direct":
        from mcpwire.transports.http.direct import DirectEngine

        return DirectEngine(target, limits)
    from mcpwire.transports.http.httpx_engine import HttpxEngine

    return HttpxEngine(target, limits)


def choose_engine(target: Http) -> Literal["direct", "httpx"]:
    """Return the name of the engine for a target."""
    from importlib.util import find_spec

    needs_httpx = any(getattr(target, name) for name in _NEEDS_HTTPX)
    is_free = target.engine == "auto" and not needs_httpx and proxy_url(target) is None
    if target.engine != "direct" and not is_free:
        return "httpx"
    if find_spec("httptools") is not None:
        return "direct"
    if target.engine == "direct":
        raise ValueError("engine='direct' needs the package httptools")
    if target.public_only:
        raise ValueError("public_only needs the package httptools")
    return "httpx"


def proxy_url(target: Http) -> str | None:
    """Return the URL of a target's proxy, from its option or the environment."""
    if target.proxy is not None:
        return target.proxy
    if target.http_client is not None or not target.trust_env:
        return None
    # Other systems also have proxy settings outside the environment.
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
    """Return whether a host is an address in a network such as ``10.0.0.0/8``."""
    from ipaddress import ip_address, ip_network

    with suppress(ValueError):  # a name
        address = ip_address(host)
        for entry in no_proxy.split(","):
            with suppress(ValueError):  # not a network
                if "/" in entry and address in ip_network(entry.strip(), strict=False):
                    return True
    return False
