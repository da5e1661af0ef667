"""Where credentials may go, and where a user may be sent: rules about URLs.

A server names whom it trusts, and whoever it names is asked by us, from where we stand:
behind a firewall, beside a cloud's metadata service. So what it names is https, spelled
so that everybody reads it alike, and leads into no network that the server itself is
not in (2026-07-28 security best practices, "Server-Side Request Forgery"). Names are
judged twice: as they stand, and by each address they resolve to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcpwire.auth.errors import UrlRefused
from mcpwire.wire.urls import (
    AddressClass,
    Url,
    address_class,
    is_loopback,
    mask_url,
    parse_url,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "LONGEST_URL",
    "check_address",
    "check_authorization_url",
    "check_server_url",
    "check_url",
    "class_of_server",
]

LONGEST_URL: Final = 8_000
"""As much as any server must take in a request line (RFC 9110, 4.1)."""

_EVERYWHERE: Final[frozenset[AddressClass]] = frozenset({"public", "name"})

_BY_NAME: Final[frozenset[AddressClass]] = frozenset({"loopback", "private", "cgnat"})
"""Networks that a server may be in by what its name resolves to. Whoever rules its name
could say link-local as well, which is where clouds keep the keys of their machines; to
be there a server must have been configured by its address."""

_WHERE: Final[dict[AddressClass, str]] = {
    "loopback": "to this machine",
    "private": "into a private network",
    "link-local": "to a link-local address",
    "cgnat": "into a carrier's or overlay network",
    "multicast": "to a multicast address",
    "unspecified": "to an unspecified address",
    "reserved": "to a reserved address",
    "invalid": "to no address at all",
}

# Legal in a URL, and what shells act upon. Nobody here uses one: who is handed the URL
# might.
_FOR_SHELLS: Final = re.compile(r"[$'();]")


def check_server_url(url: Url, *, allow_insecure: bool) -> None:
    """Check that tokens may be sent to a server.

    Raises:
        UrlRefused: They would travel unencrypted to another machine.
    """
    if not (url.is_secure or allow_insecure):
        raise _refused(
            "the server's URL",
            url.unmasked,
            "tokens would travel unencrypted: use https, or say allow_insecure=True",
        )


def check_url(text: str, *, what: str, server: Url, allow_insecure: bool) -> Url:
    """Return the parts of a URL that an authorization server or a resource named.

    Args:
        text: The URL as it stands there.
        what: What it is, as the noun of messages: "the token endpoint".
        server: The MCP server; what is in its own network may be named by it.
        allow_insecure: Whether http will do where the server itself is asked by http.

    Raises:
        UrlRefused: It must not be asked; says which rule it breaks.
    """
    url = _parse(text, what)
    # 2025-11-25 basic/authorization, "Communication Security". Credentials that came by
    # https never leave by http, whatever is allowed.
    may_be_plain = (is_loopback(url.host) and is_loopback(server.host)) or (
        allow_insecure and server.scheme == "http"
    )
    if url.scheme != "https" and not may_be_plain:
        raise _refused(what, text, "it must be https")
    _check_class(address_class(url.host), address_class(server.host), what, text)
    return url


def check_address(
    address: str, *, server_class: AddressClass, what: str, host: str
) -> None:
    """Check an address that the host of a URL resolved to, before connecting to it.

    Args:
        address: The address.
        server_class: Which network the server is in, by `class_of_server`.
        what: What the URL is, as the noun of messages.
        host: The host as the URL has it.

    Raises:
        UrlRefused: It is in a network that the server is not in, or the host promised
            to be this machine and is not.
    """
    found = address_class(address)
    shown = mask_url(host)
    if address_class(host) == "loopback" != found:
        # http was allowed for the name's sake.
        raise UrlRefused(
            f"the host {shown!r} of {what} is refused: it resolves to another machine",
            url=shown,
            rule="a loopback name must resolve to this machine",
        )
    if found not in {"public", server_class} or found == "name":
        rule = f"it leads {_WHERE.get(found, 'to no address at all')}"
        raise UrlRefused(
            f"the host {shown!r} of {what} is refused: {rule}, and the server is not "
            "there",
            url=shown,
            rule=rule,
        )


def class_of_server(server: Url, addresses: Sequence[str]) -> AddressClass:
    """Return which network a server is in, by the addresses that its host resolves to.

    It is a network of its own only where all of them are in it.
    """
    by_name = address_class(server.host)
    if by_name != "name":
        return by_name
    found = {address_class(address) for address in addresses}
    return found.pop() if len(found) == 1 and found <= _BY_NAME else "public"


def check_authorization_url(text: str, *, server: Url | None) -> str:
    """Return a URL to which the user may be sent, as it is.

    It is checked before anything opens, prints or passes it on (2026-07-28 security
    best practices, "OAuth Authorization URL Validation").

    Args:
        text: The URL.
        server: The MCP server; ``None`` where it was checked against that already.

    Raises:
        UrlRefused: No browser must be sent there; says which rule it breaks.
    """
    what = "the authorization URL"
    url = _parse(text, what)
    if url.scheme != "https" and not (
        is_loopback(url.host) and (server is None or is_loopback(server.host))
    ):
        raise _refused(what, text, "it must be https")
    if server is not None:
        _check_class(address_class(url.host), address_class(server.host), what, text)
    if _FOR_SHELLS.search(text) or "&" in url.path:
        raise _refused(what, text, "it holds characters that a shell would act upon")
    return text


def _parse(text: str, what: str) -> Url:
    if len(text) > LONGEST_URL:
        raise _refused(what, text, f"it is longer than {LONGEST_URL} characters")
    try:
        url = parse_url(text)
    except ValueError as error:
        # The reason stands behind the masked text, which is shown already. The cause
        # holds nothing more.
        rule = str(error).rpartition("': ")[2]
        raise _refused(what, text, rule) from None
    if url.fragment is not None:
        raise _refused(what, text, "it must not hold a fragment")
    return url


def _check_class(
    found: AddressClass, server_class: AddressClass, what: str, text: str
) -> None:
    if found not in _EVERYWHERE and found != server_class:
        rule = f"it leads {_WHERE[found]}, and the server is not there"
        raise _refused(what, text, rule)


def _refused(what: str, text: str, rule: str) -> UrlRefused:
    shown = mask_url(text)
    return UrlRefused(f"{what} '{shown}' is refused: {rule}", url=shown, rule=rule)
