"""Where a redirect may lead: nowhere, unless asked for, and never off the origin.

A redirect is how a server, or whoever got in its place, has our credentials and the
whole body of a request sent to somebody else. So none is followed by default; with
`follow_redirects` those are that keep method and body (307, 308) and the origin, which
rules out another host, another port, and https to http.
"""

from __future__ import annotations

from typing import Final

from mcpwire.wire.urls import Url, mask_url, resolve_url, same_origin

__all__ = ["MAX_REDIRECTS", "redirect_refusal", "redirect_target"]

MAX_REDIRECTS: Final = 5
"""How many redirects one request follows at most; who sends it counts them."""

_KEEP_THE_REQUEST: Final = frozenset({307, 308})  # RFC 9110, 15.4.8 and 15.4.9


def redirect_target(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> Url | None:
    """Return where a redirect leads from a URL, or ``None``: it is not followed.

    `location` is the field as it came, ``None`` where there was none; `allowed` is
    whether the user asked to follow redirects.
    """
    judged = _judge(url, status, location, allowed=allowed)
    return judged if isinstance(judged, Url) else None


def redirect_refusal(
    url: Url, status: int, location: str | None, *, allowed: bool
) -> str | None:
    """Return why a redirect is not followed, as a clause, or ``None``: it is.

    It names the place without its secrets.
    """
    judged = _judge(url, status, location, allowed=allowed)
    if isinstance(judged, Url):
        return None
    if location is None:
        return f"the redirect is not followed: {judged}"
    return f"the redirect to '{mask_url(location)}' is not followed: {judged}"


def _judge(url: Url, status: int, location: str | None, *, allowed: bool) -> Url | str:
    if location is None:
        return "it has no Location"
    try:
        there = resolve_url(url, location)
    except ValueError:
        return "that is no URL to go to"
    rules = (
        (
            (url.scheme, there.scheme) != ("https", "http"),
            "it leads from https to http",
        ),
        (same_origin(url, there), "it leads to another origin"),
        (status in _KEEP_THE_REQUEST, f"HTTP {status} does not keep method and body"),
        (allowed, "follow_redirects is off"),
    )
    return next((reason for is_kept, reason in rules if not is_kept), there)
