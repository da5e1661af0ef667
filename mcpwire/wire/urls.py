"""URLs: a strict parser for http(s), and the classification of host addresses.

If two programs parse a URL differently, a request may reach the wrong server. So the
parser repairs nothing: it refuses every URL that RFC 3986 does not allow. It only
normalises the host to the spelling that all programs parse alike (``0x7f.1`` becomes
``127.0.0.1``); connections use that spelling.

No function uses DNS: the class of a name is ``name``, and the caller classifies its
resolved addresses. No message, ``str`` or ``repr`` shows userinfo, query or fragment.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

AddressClass: TypeAlias = Literal[
    "public",
    "loopback",
    "private",
    "link-local",
    "cgnat",
    "multicast",
    "unspecified",
    "reserved",
    "name",
    "invalid",
]
"""The class of a host; ``name``: a DNS name, ``invalid``: not a host."""

_Entry = TypeVar("_Entry")

_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_MASK: Final = "***"
_MAX_SHOWN: Final = 200

# RFC 3986: characters outside its alphabet, and incomplete percent triplets.
_INVALID_CHARACTER: Final = re.compile(r"[^!#-;=?-Z\[\]_a-z~]|%(?![0-9A-Fa-f]{2})")
_URL: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?"
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_MAX_NAME_CHARS: Final = 254  # 253 and a trailing dot
_NAME: Final = re.compile(
    rf"(?=.{{1,{_MAX_NAME_CHARS}}}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{{0,61}}[a-z0-9_])?\.)*"
    r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?"
)
# A URL: scheme, userinfo if any, and the rest. No match for a query with an @ directly
# after the host: the text before the @ may be a password that contains a "?" or "#".
_MASKABLE: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.\-]*://)([^/?#@]*@)?"
    r"((?:\[[0-9A-Fa-f:.]*\]|[A-Za-z0-9_.\-]*)(?::[0-9]*)?(?:/.*|[?#][^@]*)?)",
    re.DOTALL,
)
_QUERY_OR_FRAGMENT: Final = re.compile(r"([?#]).*", re.DOTALL)
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_OCTAL: Final = re.compile(r"[0-7]+")


@attrs.frozen(repr=False)
class Url:
    """A parsed http or https URL; ``str`` and ``repr`` mask its secrets."""

    scheme: str  # http or https
    userinfo: str | None  # the part before the @, undecoded
    host: str  # normalised and in lower case; IPv6 without brackets
    port: int  # the default port if the URL has none
    path: str  # as given; at least "/"
    query: str | None
    fragment: str | None

    @property
    def authority(self) -> str:
        """Host and port in the format of a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _DEFAULT_PORTS[self.scheme]
        return host if is_default else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def target(self) -> str:
        """Path and query in the format of a request line."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def unmasked(self) -> str:
        """The whole URL with its secrets, for use and not for display."""
        user = "" if self.userinfo is None else f"{self.userinfo}@"
        fragment = "" if self.fragment is None else f"#{self.fragment}"
        return f"{self.scheme}://{user}{self.authority}{self.target}{fragment}"

    @property
    def is_secure(self) -> bool:
        """Whether the connection is encrypted or local to this machine."""
        return self.scheme == "https" or is_loopback(self.host)

    def __str__(self) -> str:
        return mask_url(self.unmasked)

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"


def parse_url(text: str, *, allow_userinfo: bool = False) -> Url:
    """Parse an absolute http or https URL.

    Raises:
        ValueError: The text is not a URL, or is ambiguous; the message has the reason
            and no secrets.
    """
    invalid = _INVALID_CHARACTER.search(text)
    if invalid is not None:
        index = invalid.start()
        raise _url_error(
            text, f"the character at index {index} must be percent-encoded"
        )
    match = _URL.fullmatch(text)
    if match is None:
        raise _url_error(text, "it must be absolute, such as 'https://host/path'")
    scheme, authority, path, query, fragment = match.groups()
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise _url_error(text, f"its scheme must be http or https, not {scheme[:40]!r}")
    userinfo, at_sign, host_and_port = authority.rpartition("@")
    if "@" in userinfo or (at_sign and not allow_userinfo):
        raise _url_error(text, "it must not hold a user name or password")
    if not path and "@" in f"{query or ''}{fragment or ''}":
        # The text may be a password that contains "?" or "#".
        raise _url_error(text, "an @ behind a host needs a path between them")
    host, port = _parse_host_and_port(text, host_and_port, _DEFAULT_PORTS[scheme])
    return Url(
        scheme, userinfo if at_sign else None, host, port, path or "/", query, fragment
    )


def _parse_host_and_port(
    text: str, host_and_port: str, default_port: int
) -> tuple[str, int]:
    match = _HOST_AND_PORT.fullmatch(host_and_port)
    if match is None:
        raise _url_error(text, "its host or port is malformed")
    host, digits = match.groups()
    port = int(digits) if digits else default_port
    if not 0 < port < 2**16:
        raise _url_error(text, f"its port must be 1 to 65535, not {port}")
    normalized = _normalize_host(host)
    if normalized is None:
        raise _url_error(text, "its host is neither a name nor an address")
    return normalized, port


def _url_error(text: str, reason: str) -> ValueError:
    return ValueError(f"cannot use URL '{mask_url(text)}': {reason}")


def _normalize_host(host: str) -> str | None:
    """Return the normalised host of a URL, or ``None`` if it is malformed."""
    if host.startswith("["):
        # A zone names an interface of this machine: it is invalid in a peer's URL.
        address = None if "%" in host else _parse_ipv6(host[1:-1])
        return None if address is None else str(address)
    name = host.lower()
    if _ends_in_number(name):
        number = _parse_ipv4(name)
        return None if number is None else str(number)
    return name if _NAME.fullmatch(name) else None


def resolve_url(base: Url, reference: str) -> Url:
    """Resolve a URL reference, as in a Location header, against a base URL."""
    if _SCHEME.match(reference):
        return parse_url(reference)
    if reference.startswith("//"):
        return parse_url(f"{base.scheme}:{reference}")
    # Check first: urljoin drops tabs and newlines, and some programs read "\" as "/".
    if _INVALID_CHARACTER.search(reference):
        raise _url_error(reference, "it holds characters that must be percent-encoded")
    from urllib.parse import urljoin

    return parse_url(urljoin(base.origin + base.target, reference))


def same_origin(a: Url, b: Url) -> bool:
    """Return whether scheme, host and port are equal."""
    return (a.scheme, a.host, a.port) == (b.scheme, b.host, b.port)


def mask_url(text: str) -> str:
    """Return a text that may be a URL as printable ASCII with its secrets masked.

    Never raises. If the text is not a URL, everything before its last ``@`` is masked.
    A configured URL is shown as `unexpanded`, before its variables were expanded.
    """
    text = getattr(text, "unexpanded", text)
    match = _MASKABLE.fullmatch(text)
    if match is None:
        start = ""
        _, userinfo, rest = text.rpartition("@")
    else:
        start, userinfo, rest = match.groups()
    shown = start + (f"{_MASK}@" if userinfo else "")
    shown += _QUERY_OR_FRAGMENT.sub(rf"\1{_MASK}", rest)
    if len(shown) > _MAX_SHOWN:
        shown = shown[:_MAX_SHOWN] + "..."
    return shown.encode("unicode_escape").decode("ascii")


def is_loopback(host: str) -> bool:
    """Return whether a host, in any spelling, is this machine."""
    return address_class(host) == "loopback"


def plain_address(address: str) -> str:
    """Return an address without its zone, and an IPv4 address in IPv6 as IPv4."""
    parsed = _parse_ipv6(address.partition("%")[0])
    return address if parsed is None else str(parsed.ipv4_mapped or parsed)


def network_of(address: str) -> str:
    """Return the network of a client: the /64 of an IPv6 address, else the address."""
    plain = plain_address(address)
    parsed = _parse_ipv6(plain)
    return plain if parsed is None else f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


def address_class(host: str) -> AddressClass:
    """Return the class of a host in any spelling.

    Accepts the spellings that `connect` accepts: decimal, octal, hexadecimal and
    shortened IPv4, brackets, zones, a trailing dot, IPv4 in IPv6. Never raises.
    """
    name = host.lower()
    if ":" in name:
        ipv6 = _parse_ipv6(name.removeprefix("[").removesuffix("]"))
        return "invalid" if ipv6 is None else _classify_ipv6(int(ipv6))
    # `lower` turns the Kelvin sign into an ASCII letter: check the original.
    if not host.isascii():
        return "invalid"
    if _ends_in_number(name):
        ipv4 = _parse_ipv4(name)
        return "invalid" if ipv4 is None else _classify_ipv4(int(ipv4))
    if not _NAME.fullmatch(name):
        return "invalid"
    # RFC 6761, 6.3: localhost and all its subdomains are this machine.
    bare = "." + name.removesuffix(".")
    return "loopback" if bare.endswith(".localhost") else "name"


def _ends_in_number(name: str) -> bool:
    """Return whether URL parsers treat a name as an IPv4 address, valid or not."""
    last = name.removesuffix(".").rpartition(".")[2]
    return _NUMBER.fullmatch(last) is not None


def _parse_ipv4(name: str) -> IPv4Address | None:
    """Parse an IPv4 address as inet_aton does: one to four numbers in any base."""
    parts = name.removesuffix(".").split(".")
    if len(name) > _MAX_NAME_CHARS or len(parts) > 4:
        return None
    numbers = [number for number in map(_parse_number, parts) if number is not None]
    *leading, last = numbers or [-1]
    fits = all(number < 256 for number in leading) and last < 256 ** (5 - len(parts))
    if len(numbers) < len(parts) or not fits:
        return None
    # The last number fills all remaining bytes.
    for position, number in enumerate(leading):
        last += number << 8 * (3 - position)
    return IPv4Address(last)


def _parse_number(digits: str) -> int | None:
    if not _NUMBER.fullmatch(digits):
        return None
    if digits.startswith("0x"):
        return int(digits[2:] or "0", 16)
    if not digits.startswith("0"):
        return int(digits)
    return int(digits, 8) if _OCTAL.fullmatch(digits) else None


def _parse_ipv6(text: str) -> IPv6Address | None:
    if ":" not in text:  # most addresses; the error takes ten times as long
        return None
    try:
        return IPv6Address(text)
    except AddressValueError:
        return None


def _classify_ipv4(address: int) -> AddressClass:
    return _find_entry(_IPV4, address) or "public"


def _classify_ipv6(address: int) -> AddressClass:
    kind = _find_entry(_IPV6, address)
    if kind is not None:
        return kind
    shift = _find_entry(_IPV4_IN_IPV6, address)
    if shift is not None:
        return _classify_ipv4(address >> shift & 0xFFFF_FFFF)
    # IANA has allocated no other range for global unicast.
    return "public" if address >> 125 == 0b001 else "reserved"


def _find_entry(table: list[tuple[int, int, _Entry]], address: int) -> _Entry | None:
    entries = (entry for network, mask, entry in table if address & mask == network)
    return next(entries, None)


def _compile_table(table: dict[str, _Entry]) -> list[tuple[int, int, _Entry]]:
    # Each row: network, mask, entry.
    return [
        (int(network.network_address), int(network.netmask), entry)
        for network, entry in ((ip_network(text), table[text]) for text in table)
    ]


# The IANA special-purpose registries; Python's own tables differ between versions.
_IPV4: Final[list[tuple[int, int, AddressClass]]] = _compile_table(
    {
        "0.0.0.0/8": "unspecified",  # connecting to 0.0.0.0 reaches this machine
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "cgnat",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "reserved",  # in Azure, the host of a virtual machine
        "169.254.0.0/16": "link-local",  # metadata services of most clouds
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved",
        "192.0.2.0/24": "reserved",
        "192.88.99.0/24": "reserved",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "reserved",
        "198.51.100.0/24": "reserved",
        "203.0.113.0/24": "reserved",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }
)
_IPV6: Final[list[tuple[int, int, AddressClass]]] = _compile_table(
    {
        "::/128": "unspecified",
        "::1/128": "loopback",
        "64:ff9b:1::/48": "private",
        "100::/64": "reserved",
        "2001::/23": "reserved",  # contains Teredo
        "2001:db8::/32": "reserved",
        "3fff::/20": "reserved",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "private",
        "ff00::/8": "multicast",
    }
)
# Bits to the right of the embedded IPv4 address.
_IPV4_IN_IPV6: Final[list[tuple[int, int, int]]] = _compile_table(
    {
        "::/96": 0,
        "::ffff:0:0/96": 0,
        "::ffff:0:0:0/96": 0,
        "64:ff9b::/96": 0,
        "2002::/16": 80,
    }
)
