"""Who may speak to a server from a browser: the rules for Host and Origin.

A page that somebody opens can make its browser send requests to servers on that
machine, also under a name of its own that leads there ("DNS rebinding"). `Host` shows
the name, `Origin` the page. 2026-07-28 streamable-http, "Security Endpoint".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.wire.urls import is_loopback, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.wire.urls import Url

__all__ = ["ANY", "Admission"]

ANY: Final = "*"

_ANY_PORT: Final = ":*"
_KNOWN_MAX: Final = 256
_SHOWN_MAX: Final = 100
_NULL: Final = "null"  # what a browser calls a page that it does not want to name


class Admission:
    """Decides by Host and Origin who may come in.

    Args:
        hosts: Names under which the server is asked: ``example.com`` with any port,
            ``example.com:8000`` with this one, ``*.example.com``, ``*``. By default
            those of the machine itself, and the address that it listens on.
        origins: Pages that may ask: ``https://example.com``, with any port
            ``https://example.com:*``, ``null``, ``*``. By default those of the
            machine itself where it is asked itself, and those of the host asked.

    Raises:
        ValueError: One of them is none.
    """

    def __init__(
        self, hosts: Iterable[str] | None = None, origins: Iterable[str] | None = None
    ) -> None:
        self._hosts = None if hosts is None else _Hosts(hosts)
        self._origins = None if origins is None else _Origins(origins)
        # Browsers and proxies send the same few again and again.
        self._known: set[tuple[str, str | None, str | None]] = set()

    def refusal(
        self, host: str | None, origin: str | None, bound: str | None = None
    ) -> str | None:
        """Return why a request must not come in; ``None``: it may.

        Args:
            host: Its Host, as received; ``None``: there is none.
            origin: Its Origin likewise.
            bound: The address that it came to.
        """
        if (host, origin, bound) in self._known:
            return None
        asked = None if host is None else _parse(f"http://{host}")
        if not self._takes_host(asked, bound):
            shown = "is missing" if host is None else f"{_show(host)} is not allowed"
            return f"the Host {shown}; the server's allowed_hosts says which are"
        if origin is not None and not self._takes_origin(origin, host):
            return (
                f"the Origin {_show(origin)} is not allowed; "
                "the server's allowed_origins says which are"
            )
        if host is not None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known.add((host, origin, bound))
        return None

    def allows_origin(self, origin: str) -> bool:
        """Tell whether an origin is among those that were given."""
        return self._origins is not None and self._origins.match(origin)

    def _takes_host(self, asked: Url | None, bound: str | None) -> bool:
        if self._hosts is not None:
            return self._hosts.match(asked)
        if asked is None:
            return False
        return is_loopback(asked.host) or asked.host == bound

    def _takes_origin(self, origin: str, host: str | None) -> bool:
        if self._origins is not None:
            return self._origins.match(origin)
        page = _parse(origin)
        if page is None:
            return False
        asked = _parse(f"{page.scheme}://{host}")
        if asked is None:
            return False
        if is_loopback(asked.host) and is_loopback(page.host):
            return True
        return (page.host, page.port) == (asked.host, asked.port)


class _Hosts:
    """The hosts that were given."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._is_any = False
        self._names: set[str] = set()
        self._exact: set[tuple[str, int]] = set()
        self._suffixes: list[str] = []
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern == ANY:
            self._is_any = True
            return
        is_below = pattern.startswith("*.")
        text = pattern.removeprefix("*.").removesuffix(_ANY_PORT)
        if text.count(":") > 1 and not text.startswith("["):
            text = f"[{text}]"  # IPv6, as people write it
        url = _parse(f"http://{text}")
        if url is None:
            raise ValueError(f"no host that could be allowed: {pattern!r}")
        if is_below:
            self._suffixes.append(f".{url.host}")
        elif text.endswith(f":{url.port}"):
            self._exact.add((url.host, url.port))
        else:
            self._names.add(url.host)

    def match(self, asked: Url | None) -> bool:
        """Tell whether a host is among them."""
        if self._is_any:
            return True
        return asked is not None and (
            asked.host in self._names
            or (asked.host, asked.port) in self._exact
            or any(asked.host.endswith(suffix) for suffix in self._suffixes)
        )


class _Origins:
    """The origins that were given."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._any_port: set[tuple[str, str]] = set()
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern in {ANY, _NULL}:
            self._plain.add(pattern)
            return
        url = _parse(pattern.removesuffix(_ANY_PORT))
        if url is None:
            raise ValueError(f"no origin that could be allowed: {pattern!r}")
        if pattern.endswith(_ANY_PORT):
            self._any_port.add((url.scheme, url.host))
        else:
            self._plain.add(url.origin)

    def match(self, origin: str) -> bool:
        """Tell whether an origin is among them."""
        if ANY in self._plain or (origin == _NULL and _NULL in self._plain):
            return True
        page = _parse(origin)
        return page is not None and (
            page.origin in self._plain or (page.scheme, page.host) in self._any_port
        )


def _parse(origin: str) -> Url | None:
    """Return scheme, host and port of a text that has nothing else."""
    if origin.count("/") != 2 or "?" in origin or "#" in origin:
        return None
    try:
        return parse_url(origin)
    except ValueError:
        return None


def _show(value: str) -> str:
    return repr(value[:_SHOWN_MAX])
