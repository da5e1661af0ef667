"""The interface of HTTP engines, and the choice between the two that there are.

An engine sends one request and passes the response to a sink. It talks to one origin,
follows no redirect, keeps no cookie, and knows nothing of MCP. `direct` is our own;
`httpx_engine` serves proxies, HTTP/2 and httpx clients of the user's.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.h1 import ResponseSink
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import Authorizer

__all__ = [
    "IDLE_S",
    "TAIL_BYTES",
    "TAIL_S",
    "Engine",
    "choose_engine",
    "open_engine",
    "proxy_applies",
    "proxy_of",
]

IDLE_S: Final = 4.0
"""How long an idle connection is trusted: servers commonly close theirs after 5 s."""

TAIL_S: Final = 4.0
"""How long the rest of a body may take after the answer has come."""

TAIL_BYTES: Final = 65_536
"""How long that rest may be."""

_NEEDS_HTTPX: Final = ("http_client", "proxy", "http2")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Engine(Protocol):
    """Performs HTTP requests to one origin."""

    target: str
    """The URL as text without secrets."""

    @property
    def bytes_sent(self) -> int:
        """How many bytes were handed to the operating system so far."""

    @property
    def bytes_received(self) -> int:
        """How many bytes have come so far."""

    def exchange(
        self, request: Request, reply: ResponseSink, deadline: Deadline | None
    ) -> Coroutine[Any, Any, None]:
        """Send a request and pass the response to its reply until that is over.

        A request is sent again only if nothing of it could be written. What is left of
        a response is passed on all the same. What the reply raises closes the
        connection and is raised here. Cancelling it closes the connection it runs on.

        Raises:
            ConnectError: No connection came about; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent`
                tells whether the request may have been seen.
            RemoteProtocolError: What came back is not acceptable HTTP.
            MCPError: What `abort` was given.
        """

    def abort(self, reply: ResponseSink, error: MCPError) -> bool:
        """End the exchange of that reply; return whether one ran.

        It raises the error, unless the reply is over.
        """

    async def aclose(self) -> None:
        """Close every connection; bounded in time."""

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""

    def forked(self) -> None:
        """Close the copies of the sockets in a forked process."""


def open_engine(
    target: Http, limits: Limits, authorizer: Authorizer | None = None
) -> Engine:
    """Return a new engine for a target; its requests carry the tokens."""
    engine: Engine
    if choose_engine(target) == "direct":
        from mcpwire.transports.http.direct import DirectEngine

        engine = DirectEngine(target, limits)
    else:
        from mcpwire.transports.http.httpx_engine import HttpxEngine

        engine = HttpxEngine(target, limits)
    if authorizer is None:
        return engine
    from mcpwire.transports.oauth.engine import AuthEngine

    return AuthEngine(engine, authorizer)


def choose_engine(target: Http) -> Literal["direct", "httpx"]:
    """Say which engine moves the bytes of a target."""
    from importlib.util import find_spec

    needs_httpx = any(getattr(target, name) for name in _NEEDS_HTTPX)
    is_free = target.engine == "auto" and not needs_httpx and not proxy_applies(target)
    if target.engine != "direct" and not is_free:
        return "httpx"
    if find_spec("httptools") is not None:
        return "direct"
    if target.engine == "direct":
        raise ValueError("engine='direct' needs the package httptools")
    if target.public_only:
        raise ValueError("public_only needs the package httptools")
    return "httpx"


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
