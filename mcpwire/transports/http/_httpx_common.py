"""Which engine serves a target, and by which proxy; nothing of httpx is loaded here."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from mcpwire.transports.http.target import Http

__all__ = ["choose_engine", "proxy_applies", "proxy_of"]

_NEEDS_HTTPX: Final = ("http_client", "proxy", "http2")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def choose_engine(target: Http) -> Literal["direct", "httpx"]:
    """Say who moves the bytes of a target.

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
