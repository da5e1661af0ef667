"""The seam between what HTTP means to MCP and the engines that move its bytes.

An engine sends one request and feeds the reply to it with what comes back. It talks
to one origin, follows no redirect, keeps no cookie, and knows nothing of MCP. Which one
serves a target, and by which proxy, is decided here; it is imported on use.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from mcpwire.errors import MCPError
    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http_reply import Request
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.authorizer import Authorizer

__all__ = ["Engine", "Fed", "choose_engine", "open_engine", "proxy_applies", "proxy_of"]

_NEEDS_HTTPX: Final = ("http_client", "proxy", "http2")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Fed(Protocol):
    """What an engine feeds; `mcpwire.protocol.http_reply` has the real ones.

    The three methods may raise an `MCPError`: the engine then closes the connection and
    lets it out of `exchange`.
    """

    @property
    def is_over(self) -> bool:
        """Whether its caller can be woken; what is left is fed all the same."""

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        """Take the final head; names in lower case, repeated fields in one."""

    def data(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""

    def end(self) -> None:
        """Take note that the body is complete."""

    def out_of_time(self, now: float) -> MCPError:
        """Build the error for a deadline that has passed."""


class Engine(Protocol):
    """Performs HTTP requests to one origin.

    Attributes:
        target: The URL as text without secrets.
        connections: How many connections were opened so far.
        bytes_sent: How many bytes were handed to the operating system so far.
    """

    target: str

    @property
    def connections(self) -> int:
        """How many connections were opened so far."""

    @property
    def bytes_sent(self) -> int:
        """How many bytes were handed to the operating system so far."""

    async def exchange(
        self, request: Request, reply: Fed, deadline: Deadline | None
    ) -> None:
        """Send a request and feed its reply until that is over.

        A request is sent again only where it provably never reached the peer's program.
        Cancelling it closes the connection it runs on.

        Raises:
            ConnectError: No connection came about; nothing was sent.
            ConnectionClosed: The connection ended before the reply was over; `sent`
                tells whether the request may have been seen.
            RemoteProtocolError: What came back is no acceptable HTTP, or the reply
                refused it.
            MCPError: What `abort` was given.
        """

    def abort(self, reply: Fed, error: MCPError) -> bool:
        """End the exchange of that reply with an error; return whether one ran."""

    async def aclose(self) -> None:
        """Close every connection; bounded in time."""

    def abandon(self) -> None:
        """Let go of the sockets at once and wait for nothing, from anywhere."""


def open_engine(
    target: Http, limits: Limits, authorizer: Authorizer | None = None
) -> Engine:
    """Return a new engine for a target; its requests carry the tokens."""
    engine = _open_engine(target, limits)
    if authorizer is None:
        return engine
    from mcpwire.transports.oauth.engine import AuthEngine

    return AuthEngine(engine, authorizer)


def _open_engine(target: Http, limits: Limits) -> Engine:
    if choose_engine(target) == "direct":
        from mcpwire.transports.http.direct import DirectEngine

        return DirectEngine(target, limits)
    from mcpwire.transports.http.httpx_engine import HttpxEngine

    return HttpxEngine(target, limits)


def choose_engine(target: Http) -> Literal["direct", "httpx"]:
    """Say which engine moves the bytes of a target.

    That the options fit each other the target has checked.

    Raises:
        ValueError: ``engine="direct"``, or ``public_only``, without httptools.
    """
    if target.engine == "httpx":
        return "httpx"
    if target.engine == "direct":
        if not _has_httptools():
            raise ValueError("engine='direct' needs the package httptools")
        return "direct"
    needs_httpx = any(getattr(target, name) for name in _NEEDS_HTTPX)
    if needs_httpx or proxy_applies(target):
        return "httpx"
    if _has_httptools():
        return "direct"
    if target.public_only:
        raise ValueError("public_only needs the package httptools")
    return "httpx"


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
