"""The URLs that an elicitation asks the user to visit: which may be shown, and how.

Nothing here opens or fetches one (2025-11-25 client/elicitation, "Safe URL Handling":
clients MUST NOT prefetch, and MUST NOT open without consent). What reaches a handler is
a URL that every program reads alike; what is odd about it `describe_url` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from unicodedata import category, name

import attrs

from mcpwire.wire.urls import address_class, is_loopback, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.wire.urls import Url

__all__ = ["UrlDescription", "describe_url", "problem_of"]

URL_MAX: Final = 8 * 1024
"""Characters; as much of a request line as RFC 9112, section 3, has everybody read."""

_PUNYCODE: Final = "xn--"
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_LOOKALIKES: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})
"""Scripts whose letters pass for each other's."""


@attrs.frozen
class UrlDescription:
    """What a user should see of a URL before agreeing to visit it."""

    host: str
    """Where it leads, in ASCII; to be highlighted."""

    unicode_host: str
    """The same as a browser may show it; equal to `host` where that is plain."""

    port: int
    is_https: bool

    is_punycode: bool
    """Whether the host has letters beyond ASCII, which may pass for others."""

    warnings: tuple[str, ...]
    """What to point out, a clause each; in lower case, without a full stop."""


def problem_of(url: str, *, plain_http: bool = False) -> str | None:
    """Return the field and why its URL may not be shown to a user, or ``None``.

    It must be one that `parse_url` reads, so http or https, printable ASCII without
    white space, without a user name or password; at most 8 KiB; and https unless it
    leads to this machine or `plain_http` is set.
    """
    if len(url) > URL_MAX:
        return f"url: it must have at most {URL_MAX} characters, got {len(url)}"
    try:
        parts = parse_url(url)
    except ValueError as error:
        return f"url: {error}"
    if parts.is_secure or plain_http:
        return None
    return f"url: {parts.origin} must be https, as it is not this machine"


def describe_url(url: str) -> UrlDescription:
    """Return what to show of a URL beside the URL itself.

    Raises:
        ValueError: It is none that should be shown at all.
    """
    parts = parse_url(url)
    labels = [_shown_label(label) for label in parts.host.split(".")]
    is_punycode = any(label.startswith(_PUNYCODE) for label in parts.host.split("."))
    return UrlDescription(
        host=parts.host,
        unicode_host=".".join(labels),
        port=parts.port,
        is_https=parts.scheme == "https",
        is_punycode=is_punycode,
        warnings=tuple(_warnings(parts, labels, is_punycode=is_punycode)),
    )


def _warnings(parts: Url, labels: list[str], *, is_punycode: bool) -> list[str]:
    found = []
    if not parts.is_secure:
        found.append("plain http: whoever is in between reads and changes everything")
    if is_punycode:
        found.append("the host has letters that may pass for others")
    if any(_mixes_scripts(label) for label in labels):
        found.append("the host mixes letters of different scripts")
    if is_loopback(parts.host):
        found.append("it leads to this machine")
    elif address_class(parts.host) != "name":
        found.append("the host is a bare address")
    if parts.port != _DEFAULT_PORTS[parts.scheme]:
        found.append(f"the port is {parts.port}, which is unusual")
    return found


def _shown_label(label: str) -> str:
    """Return a label of a host as a browser may show it."""
    if not label.startswith(_PUNYCODE):
        return label
    try:
        shown = label.removeprefix(_PUNYCODE).encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError):
        return label
    # What looks like a dot or slash, or turns the direction, would let a host lie.
    is_name = all(
        letter.isalnum() or category(letter)[0] == "M" or letter == "-"
        for letter in shown
    )
    return shown if is_name else label


def _mixes_scripts(label: str) -> bool:
    if label.isascii():
        return False
    scripts = {name(letter, "").partition(" ")[0] for letter in label}
    return len(scripts & _LOOKALIKES) > 1
