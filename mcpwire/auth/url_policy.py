"""The rules for URLs that a server names for authorization, and for login pages.

An MCP server names its authorization servers, and this machine sends requests to them
from its own network: behind a firewall, near a cloud's metadata service. So a named URL
must be https, in a form that all parsers read alike, and must have a public address if
the server has one (2026-07-28 security best practices, "Server-Side Request Forgery").
A host is checked twice: by its name, and by each address that it resolves to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

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

MAX_URL_CHARS: Final = 8_000  # each server must accept it (RFC 9110 section 4.1)

_ALWAYS_ALLOWED: Final[frozenset[AddressClass]] = frozenset({"public", "name"})

# Networks that the resolved addresses of a server's name may select. Link-local is not
# included: cloud metadata services with credentials are there, and the owner of a name
# could choose such an address. Only a literal address selects it.
_SELECTABLE_BY_NAME: Final[frozenset[AddressClass]] = frozenset(
    {"loopback", "private", "cgnat"}
)

_DESTINATIONS: Final[dict[AddressClass, str]] = {
    "loopback": "to this machine",
    "private": "into a private network",
    "link-local": "to a link-local address",
    "cgnat": "into a carrier's or overlay network",
    "multicast": "to a multicast address",
    "unspecified": "to an unspecified address",
    "reserved": "to a reserved address",
    "invalid": "to no address at all",
}

# Valid in a URL, but special in a shell command, which a user's function may run.
_SHELL_CHARACTERS: Final = re.compile(r"[$'();]")


def check_server_url(url: Url, shown: str = "", *, allow_insecure: bool) -> None:
    """Raise `UrlRefused` if tokens would be sent to a server unencrypted."""
    if not (url.is_secure or allow_insecure):
        raise url_refusal(
            "the server's URL",
            shown or url.unmasked,
            "tokens would be sent unencrypted: use https, or pass allow_insecure=True",
        )


class UrlPolicy(NamedTuple):
    """The rules for URLs that an MCP server or its authorization server may name."""

    server: Url  # the MCP server; it may name URLs in its own network
    allow_insecure: bool = False  # whether http is allowed if its own URL is http

    def check(self, text: str, what: str) -> Url:
        """Return the parts of a named URL, or raise `UrlRefused`."""
        url = parse_named_url(text, what)
        # 2025-11-25 basic/authorization, "Communication Security". Credentials that
        # came by https never leave by http, whatever is allowed.
        may_be_http = (is_loopback(url.host) and is_loopback(self.server.host)) or (
            self.allow_insecure and self.server.scheme == "http"
        )
        if url.scheme != "https" and not may_be_http:
            raise url_refusal(what, text, "it must be https")
        kind = address_class(url.host)
        if kind not in _ALWAYS_ALLOWED and kind != address_class(self.server.host):
            rule = f"it leads {_DESTINATIONS[kind]}, and the server is not there"
            raise url_refusal(what, text, rule)
        return url


def parse_identifier(text: str, what: str, *, allow_insecure: bool = False) -> Url:
    """Parse the URI of a resource or of an issuer, or raise `ValueError`."""
    url = parse_url(text)
    # RFC 9728, 1.2 and RFC 8414, 2; 2026-07-28 basic/authorization, "Canonical Server
    # URI".
    if (url.query, url.fragment) != (None, None):
        raise ValueError(f"the {what} '{url}' must have no query and no fragment")
    if not (url.is_secure or allow_insecure):
        raise ValueError(
            f"the {what} '{url}' must be https: tokens would be sent unencrypted"
        )
    return url


def check_address(
    address: str, *, server_class: AddressClass, what: str, host: str
) -> None:
    """Check the network of a host's address against `server_class`, the server's."""
    found_class = address_class(address)
    shown = mask_url(host)
    if address_class(host) == "loopback" != found_class:
        # http was allowed because the name is a loopback name.
        rule = "a loopback name must resolve to this machine"
        reason = "it resolves to another machine"
    elif found_class not in {"public", server_class} or found_class == "name":
        rule = f"it leads {_DESTINATIONS.get(found_class, 'to no address at all')}"
        reason = f"{rule}, and the server is not there"
    else:
        return
    raise UrlRefused(
        f"the host {shown!r} of {what} is refused: {reason}", url=shown, rule=rule
    )


def server_address_class(server: Url, addresses: Sequence[str]) -> AddressClass:
    """Return the network of a server; not public only if all addresses share it."""
    host_class = address_class(server.host)
    if host_class != "name":
        return host_class
    classes = {address_class(address) for address in addresses}
    return (
        classes.pop()
        if len(classes) == 1 and classes <= _SELECTABLE_BY_NAME
        else "public"
    )


def check_authorization_url(text: str, *, server: Url | None) -> str:
    """Return the URL unchanged if a browser may open it, or raise `UrlRefused`.

    The check is made before the URL is opened, printed or returned (2026-07-28 security
    best practices, "OAuth Authorization URL Validation"). `server` is None if the URL
    was checked for its server before.
    """
    what = "the authorization URL"
    if server is not None:
        url = UrlPolicy(server).check(text, what)
    else:
        url = parse_named_url(text, what)
        if not url.is_secure:
            raise url_refusal(what, text, "it must be https")
    if _SHELL_CHARACTERS.search(text) or "&" in url.path:
        raise url_refusal(what, text, "it contains characters with a meaning in shells")
    return text


def parse_named_url(text: str, what: str) -> Url:
    """Parse a URL; raise `UrlRefused` if it is too long, invalid or has a fragment."""
    if len(text) > MAX_URL_CHARS:
        raise url_refusal(what, text, f"it is longer than {MAX_URL_CHARS} characters")
    try:
        url = parse_url(text)
    except ValueError as error:
        # Use only the reason: the masked URL before it is shown already.
        rule = str(error).rpartition("': ")[2]
        raise url_refusal(what, text, rule) from None
    if url.fragment is not None:
        raise url_refusal(what, text, "it must not hold a fragment")
    return url


def url_refusal(what: str, text: str, rule: str) -> UrlRefused:
    """Return the error for a URL that breaks a rule; its secrets are masked."""
    shown = mask_url(text)
    return UrlRefused(f"{what} '{shown}' is refused: {rule}", url=shown, rule=rule)
