"""What a protected resource says of itself (RFC 9728), and whether it is this one.

An MCP server names who gives tokens for it in a document of its own. A token is good
for the resource that the document names; so before anything else is believed, that must
be the server which is being asked, or what it is a part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.discovery.scopes import is_scope
from mcpwire.auth.errors import DiscoveryError, UrlRefused
from mcpwire.auth.model import ResourceMetadata
from mcpwire.wire.json import JSONDecodeError, loads
from mcpwire.wire.urls import Url, mask_url, parse_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "WHAT",
    "NotJson",
    "canonical",
    "covers",
    "metadata_urls",
    "read_document",
    "read_resource_metadata",
    "read_texts",
]

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
WHAT: Final = "the metadata of the resource"

# RFC 3986, 5.2.4; a dot that is encoded is a dot (2.3) to most who resolve paths.
_DOT: Final = frozenset({".", "%2e"})
_TWO_DOTS: Final = frozenset({"..", ".%2e", "%2e.", "%2e%2e"})


def canonical(server: Url) -> str:
    """Return the URI of a server that no metadata names, for ``resource``.

    It has no fragment, and no slash where the path is nothing else (2026-07-28
    basic/authorization, "Canonical Server URI"); any other slash may mean something. A
    query stays: it may say which server of several is meant (RFC 8707, 2).
    """
    return server.origin + ("" if server.target == "/" else server.target)


def covers(resource: str, server: Url) -> bool:
    """Tell whether a resource is the server, or what the server is a part of.

    It is where scheme, host and port are the same and its path is the server's, or
    begins it up to the end of a segment; a slash at the end makes no difference. A
    resource with a query, be it empty, is no server with another.
    """
    try:
        url = parse_url(resource)
    except ValueError:
        return False
    if url.fragment is not None or not same_origin(url, server):
        return False
    if url.query is not None and url.query != server.query:
        return False
    inner = _resolve_dots(server.path).removesuffix("/") + "/"
    return inner.startswith(_resolve_dots(url.path).removesuffix("/") + "/")


def _resolve_dots(path: str) -> str:
    segments: list[str] = []
    *leading, last = path.split("/")[1:]
    for segment in leading:
        if segment.lower() in _TWO_DOTS:
            del segments[-1:]
        elif segment.lower() not in _DOT:
            segments.append(segment)
    if last.lower() in _TWO_DOTS:
        del segments[-1:]
    is_folder = last.lower() in _DOT | _TWO_DOTS
    return "/" + "/".join([*segments, "" if is_folder else last])


def metadata_urls(server: Url, challenged: str | None) -> list[str]:
    """Return where a resource may describe itself, in the order to ask.

    Args:
        server: The URL of the MCP server.
        challenged: What the server's challenge named.

    Raises:
        UrlRefused: The challenge named what is not at the server's own origin.
    """
    path = _resolve_dots(server.path).removeprefix("/")
    query = "" if server.query is None else f"?{server.query}"
    # RFC 9728, 3.1: between the host and the rest; MCP adds the root. Some servers
    # leave out the query, or the slash at the end.
    inserted = f"{server.origin}{_WELL_KNOWN}" + (f"/{path}" if path else "")
    urls = [inserted + query, inserted.removesuffix("/"), server.origin + _WELL_KNOWN]
    if challenged is not None:
        urls.insert(0, _check_challenged(challenged, server))
    return list(dict.fromkeys(urls))


def _check_challenged(text: str, server: Url) -> str:
    # Nothing in RFC 9728 asks for the same origin. But who can write into a challenge
    # would choose what this machine asks, and it costs no server anything.
    try:
        url = parse_url(text)
    except ValueError:
        rule = "it is no URL"
    else:
        if same_origin(url, server):
            return text
        rule = f"it is not at {server.origin}"
    shown = mask_url(text)
    raise UrlRefused(
        f"{WHAT}, as the challenge names it, '{shown}' is refused: {rule}",
        url=shown,
        rule=rule,
    )


def read_resource_metadata(body: bytes, server: Url) -> ResourceMetadata:
    """Return what a resource says of itself.

    Raises:
        NotJson: It is no JSON at all.
        DiscoveryError: It is no such document, names no authorization server, or is
            about another resource than the server.
    """
    document = read_document(body, WHAT)
    resource = document.get("resource")
    if not isinstance(resource, str):
        raise DiscoveryError(f"{WHAT} names no resource")
    # RFC 9728, 3.3: otherwise it must not be used.
    if not covers(resource, server):
        raise DiscoveryError(
            f"{WHAT} is about '{mask_url(resource)}', which is not '{server}'"
        )
    issuers = read_texts(document, "authorization_servers")
    if not issuers:
        raise DiscoveryError(f"{WHAT} names no authorization server")
    scopes = read_texts(document, "scopes_supported")
    return ResourceMetadata(
        resource,
        issuers,
        None if scopes is None else tuple(filter(is_scope, scopes)),
        document.get("dpop_bound_access_tokens_required") is True,
    )


class NotJson(DiscoveryError):
    """Where a document should be, something else is, such as a web page."""


def read_document(body: bytes, what: str) -> Mapping[str, Any]:
    """Return the JSON object that a document is.

    Raises:
        NotJson: It is no JSON at all.
        DiscoveryError: It is no object.
    """
    try:
        document = loads(body)
    except JSONDecodeError:
        raise NotJson(f"{what} is not JSON") from None
    if not isinstance(document, dict):
        raise DiscoveryError(f"{what} must be a JSON object")
    return document


def read_texts(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the texts of a member that is a list, each once; ``None``: it is none.

    Neither RFC 8414 nor RFC 9728 says what a member of another type means. So it says
    nothing, like one that is missing, and whoever needs it refuses.
    """
    value = document.get(name)
    if not isinstance(value, list):
        return None
    return tuple(dict.fromkeys(item for item in value if isinstance(item, str)))
