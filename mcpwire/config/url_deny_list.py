"""Which URLs servers may not be at: a list of hosts and of URLs.

A host stands for itself and all names below it, a URL for all that begins with it. Both
sides are compared in one spelling (``0x7f.1`` is ``127.0.0.1``, ``/a/../b`` is ``/b``),
so that no other spelling passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.wire.urls import Url, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

_PORT: Final = re.compile(r"(?:\A|://)(?:\[[^\]]*\]|[^/:\[\]]*):[0-9]+(?:/|\Z)")
_ENCODED: Final = re.compile(r"%([0-9A-Fa-f]{2})")


@attrs.frozen
class _Rule:
    """One entry of a list."""

    text: str
    """As it was given."""

    scheme: str | None
    """``None``: the entry is a host."""

    host: str
    port: int | None
    """``None``: any."""

    path: tuple[str, ...]

    def matches(self, scheme: str, host: str, port: int, path: tuple[str, ...]) -> bool:
        if self.port is not None and port != self.port:
            return False
        if self.scheme is None:
            return host == self.host or host.endswith(f".{self.host}")
        return (
            scheme == self.scheme
            and host == self.host
            and path[: len(self.path)] == self.path
        )


def _parse_rules(entries: Any) -> tuple[_Rule, ...]:
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise ValueError("deny list: it must be a list of hosts and URLs")
    return tuple(_parse_rule(entry) for entry in entries)


def _parse_rule(entry: object) -> _Rule:
    if not isinstance(entry, str) or not entry.strip():
        raise ValueError(f"deny list: {_masked(entry)} is neither a host nor a URL")
    text = entry.strip()
    is_url = "://" in text
    bare = text.removeprefix("*.")
    if not is_url and bare.count(":") > 1 and not bare.startswith("["):
        bare = f"[{bare}]"
    try:
        url = parse_url(text if is_url else f"https://{bare}/")
    except ValueError as error:
        raise ValueError(
            f"deny list: {_masked(text)} is neither a host nor a URL"
        ) from error
    path = _segments(url.path)
    has_port = _PORT.search(bare) is not None
    port = url.port if has_port else None
    if is_url:
        if url.query is not None or url.fragment is not None:
            raise ValueError(f"deny list: {_masked(text)} must have no query")
        return _Rule(text, url.scheme, _host(url), port, path)
    if path or url.query is not None or url.fragment is not None:
        raise ValueError(f"deny list: {_masked(text)} needs https:// before its host")
    return _Rule(text, None, _host(url), port, ())


def _masked(entry: object) -> str:
    return repr(mask_url(entry)) if isinstance(entry, str) else type(entry).__name__


@attrs.frozen
class UrlDenyList:
    """Hosts and URLs that no server may be at.

    An entry without a scheme (``"example.com"``, ``"example.com:8443"``) stands for
    that host and all below it; one with a scheme (``"https://example.com/mcp"``) for
    this very host and all paths that begin with its segments. One without a port stands
    for all ports. Case and a trailing dot of hosts do not count.

    Raises:
        ValueError: An entry is neither.
    """

    rules: tuple[_Rule, ...] = attrs.field(
        default=(),
        converter=_parse_rules,
        alias="entries",
        repr=lambda rules: repr(tuple(mask_url(rule.text) for rule in rules)),
    )

    def __bool__(self) -> bool:
        return bool(self.rules)

    def refuses(self, url: str) -> str | None:
        """Return the entry that refuses a URL, or ``None`` where none does.

        A text that is no URL is refused where it holds the host of an entry: it would
        fail anyway, and it is not known what others read in it. Never raises.
        """
        try:
            parsed = parse_url(url.strip(), allow_userinfo=True)
        except ValueError:
            folded = url.casefold()
            return self._first_match(lambda rule: rule.host in folded)
        scheme, host, port = parsed.scheme, _host(parsed), parsed.port
        path = _segments(parsed.path)
        return self._first_match(lambda rule: rule.matches(scheme, host, port, path))

    def _first_match(self, refuses: Callable[[_Rule], bool]) -> str | None:
        return next((rule.text for rule in self.rules if refuses(rule)), None)


def _host(url: Url) -> str:
    """Return the host in one spelling, also where IPv6 holds an IPv4 address."""
    host = url.host.removesuffix(".")
    if ":" in host:
        address = ip_address(host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
    return host


def _segments(path: str) -> tuple[str, ...]:
    """Return a path's segments as a server may read them, the lenient ones too."""
    decoded = _ENCODED.sub(lambda match: chr(int(match[1], 16)), path)
    segments: list[str] = []
    for segment in re.split(r"[/\\]", decoded):
        if segment == "..":
            segments[-1:] = []
        elif segment not in {"", "."}:
            segments.append(segment)
    return tuple(segments)
