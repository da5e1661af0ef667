"""Who gives tokens for a server: from its resource metadata to an authorization server.

::

    challenge, well-known URIs ──► resource ──► issuer ──► its well-known URIs ──► use
       │ nothing there, at none of them (RFC 9728)           (RFC 8414, OIDC)
       └► 2025-03-26: the server's own origin ──► metadata, or the paths of old

A document is believed where it says that it is the one which was asked for: a resource
that covers the server, an issuer that is the one it was found by, byte for byte. Where
nothing stands the next place is asked; where something wrong stands, nothing is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.auth.discovery.resources import WHAT as RESOURCE
from mcpwire.auth.discovery.resources import (
    NotJson,
    metadata_urls,
    read_document,
    read_resource_metadata,
    read_texts,
)
from mcpwire.auth.errors import DiscoveryError, UrlRefused
from mcpwire.auth.exchange.answers import check_available
from mcpwire.auth.guard import check_url
from mcpwire.auth.model import ResourceMetadata, ServerMetadata
from mcpwire.auth.steps import Answer, Fetch, Now
from mcpwire.wire.urls import Url, mask_url, parse_url, same_origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwire.auth.discovery.challenges import Denial
    from mcpwire.auth.steps import Steps

__all__ = [
    "assumed",
    "candidates",
    "check_pkce",
    "discover",
    "read_server_metadata",
]

_WHAT: Final = "the metadata of the authorization server"

_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_ENDPOINTS: Final[Mapping[str, str]] = {
    "authorization_endpoint": "the authorization endpoint",
    "token_endpoint": "the token endpoint",
    "registration_endpoint": "the registration endpoint",
    "revocation_endpoint": "the revocation endpoint",
}

_ACCEPT: Final = (("accept", "application/json"),)
# 2025-03-26 basic/authorization, "Server Metadata Discovery".
_ACCEPT_OF_OLD: Final = (*_ACCEPT, ("mcp-protocol-version", "2025-03-26"))

_SERVERS_MAX: Final = 8
"""How many authorization servers are asked for one resource; real ones name one."""

_SHOWN_MAX: Final = 4
"""How many places the message of an error names."""


def candidates(issuer: str) -> list[str]:
    """Return where an authorization server may describe itself, in the order to ask.

    Raises:
        DiscoveryError: The text can be no issuer.
    """
    try:
        url = parse_url(issuer)
    except ValueError as error:
        raise DiscoveryError(str(error)) from None
    # RFC 8414, 2.
    if (url.query, url.fragment) != (None, None):
        raise DiscoveryError(f"the issuer '{url}' has a query or a fragment")
    # 2026-07-28 basic/authorization, "Authorization Server Metadata Discovery".
    path = url.path.rstrip("/")
    urls = [url.origin + _OAUTH + path, url.origin + _OPENID + path]
    return [*urls, url.origin + path + _OPENID] if path else urls


def assumed(server: Url) -> ServerMetadata:
    """Return what holds of a server of 2025-03-26 that says nothing of itself."""
    # 2025-03-26 basic/authorization, "Fallbacks for Servers without Metadata
    # Discovery".
    return ServerMetadata(
        server.origin,
        authorization_endpoint=f"{server.origin}/authorize",
        token_endpoint=f"{server.origin}/token",
        registration_endpoint=f"{server.origin}/register",
        is_assumed=True,
    )


def check_pkce(metadata: ServerMetadata) -> None:
    """Check that an authorization server protects codes.

    Raises:
        DiscoveryError: It does not say so.
    """
    # 2026-07-28 basic/authorization/security-considerations, "Authorization Code
    # Protection": without the member there is no support.
    methods = metadata.code_challenge_methods_supported or ()
    if not metadata.is_assumed and "S256" not in methods:
        raise DiscoveryError(
            f"the authorization server '{mask_url(metadata.issuer)}' does not support "
            "PKCE by S256: without it anybody who sees a code can use it"
        )


def read_server_metadata(
    body: bytes, issuer: str, *, relaxed: bool = False
) -> ServerMetadata:
    """Return what an authorization server says of itself.

    Args:
        body: The document.
        issuer: By which issuer it was found.
        relaxed: Whether it may say that it is another issuer at the same origin: for
            servers of 2025-03-26 alone, where no issuer led here but the origin.

    Raises:
        NotJson: It is no JSON at all.
        DiscoveryError: It is no such document, is about another issuer, or says too
            little.
    """
    document = read_document(body, _WHAT)
    found = document.get("issuer")
    if not isinstance(found, str):
        raise DiscoveryError(f"{_WHAT} names no issuer")
    # RFC 8414, 3.3; the MCP rule is the same: identical, or it must not be used.
    if found != issuer and not (relaxed and _is_at_origin(found, issuer)):
        raise DiscoveryError(
            f"{_WHAT} at '{mask_url(issuer)}' says that it is of '{mask_url(found)}'"
        )
    members: dict[str, Any] = {
        **{name: _read_endpoint(document, name) for name in _ENDPOINTS},
        **{name: read_texts(document, name) for name in _LISTS},
        # Anything but true is no claim.
        **{name: document.get(name) is True for name in _CLAIMS},
    }
    if members["token_endpoint"] is None:
        raise DiscoveryError(f"{_WHAT} names no token endpoint")
    return ServerMetadata(found, **members)


_LISTS: Final = (
    "scopes_supported",
    "grant_types_supported",
    "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported",
    "code_challenge_methods_supported",
    "dpop_signing_alg_values_supported",
)
_CLAIMS: Final = (
    "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported",
)


def _is_at_origin(issuer: str, origin: str) -> bool:
    try:
        url = parse_url(issuer)
    except ValueError:
        return False
    is_issuer = (url.query, url.fragment) == (None, None)
    return is_issuer and same_origin(url, parse_url(origin))


def _read_endpoint(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    if value is None or isinstance(value, str):
        return value
    raise DiscoveryError(f"{_WHAT} has {name} that is no text")


@attrs.define
class _Search:
    """What one discovery has asked so far."""

    server: Url
    allow_insecure: bool

    tried: list[tuple[str, str]] = attrs.Factory(list)

    is_empty: bool = True
    """Whether nothing at all stood wherever something was looked for."""

    def check(self, url: str, what: str) -> None:
        check_url(
            url, what=what, server=self.server, allow_insecure=self.allow_insecure
        )

    def note(self, url: str, outcome: str) -> None:
        self.tried.append((mask_url(url).partition("?")[0], outcome))

    def failure(self, reason: str) -> DiscoveryError:
        shown = [f"{url} ({outcome})" for url, outcome in self.tried[:_SHOWN_MAX]]
        left = len(self.tried) - len(shown)
        shown += [f"{left} more"] if left else []
        return DiscoveryError(f"{reason}; tried {', '.join(shown)}")


def discover(
    server: Url,
    denial: Denial | None,
    known: str | None,
    *,
    allow_insecure: bool = False,
) -> Steps[tuple[ResourceMetadata | None, ServerMetadata]]:
    """Find out who gives tokens for a server, and what it says of itself.

    The resource is ``None`` with servers of 2025-03-26, which are their own
    authorization servers.

    Args:
        server: The URL of the MCP server.
        denial: How it turned a request away.
        known: The issuer that credentials are stored or configured for; where the
            resource names it, no other is asked.
        allow_insecure: Whether the server may be asked by http.

    Raises:
        AuthTemporarilyUnavailable: One that must be asked cannot answer now.
        DiscoveryError: Nobody is found, or must not be believed; holds what was tried.
        UrlRefused: What was named must not be asked.
    """
    search = _Search(server, allow_insecure)
    try:
        resource = yield from _find_resource(search, denial)
        if resource is not None:
            metadata = yield from _choose_server(search, resource, known)
        else:
            metadata = yield from _find_old_server(search)
    except DiscoveryError as error:
        error.tried = tuple(search.tried)
        raise
    return resource, metadata


def _fetch(
    search: _Search, url: str, what: str, headers: Sequence[tuple[str, str]]
) -> Steps[bytes | None]:
    """Return the document at a URL; ``None``: there is none."""
    search.check(url, what)
    answer: Answer = yield Fetch(what, url, headers=tuple(headers), may_redirect=True)
    if 200 <= answer.status < 300:
        return answer.body
    if answer.status >= 400:
        check_available(answer, what, (yield Now()))
    else:
        search.is_empty = False  # a redirect, to a login for one
    # Whatever it is below 500: what answers for unknown paths is often no 404.
    search.note(url, f"HTTP {answer.status}")
    return None


def _find_resource(
    search: _Search, denial: Denial | None
) -> Steps[ResourceMetadata | None]:
    challenged = None if denial is None else denial.resource_metadata
    for url in metadata_urls(search.server, challenged):
        body = yield from _fetch(search, url, RESOURCE, _ACCEPT)
        if body is None:
            continue
        try:
            resource = read_resource_metadata(body, search.server)
        except NotJson:
            search.is_empty = False
            search.note(url, "not JSON")
        except DiscoveryError as error:
            search.note(url, str(error))
            raise
        else:
            search.note(url, "found")
            return resource
    return None


def _find_server(
    search: _Search, issuer: str, *, is_old: bool = False
) -> Steps[ServerMetadata | None]:
    search.check(issuer, "the authorization server")
    for url in candidates(issuer):
        headers = _ACCEPT_OF_OLD if is_old else _ACCEPT
        body = yield from _fetch(search, url, _WHAT, headers)
        if body is None:
            continue
        try:
            metadata = read_server_metadata(body, issuer, relaxed=is_old)
            _check_endpoints(search, metadata)
        except NotJson:
            search.is_empty = False
            search.note(url, "not JSON")
        except (DiscoveryError, UrlRefused) as error:
            search.note(url, str(error))
            raise
        else:
            search.note(url, "found")
            return metadata
    return None


def _check_endpoints(search: _Search, metadata: ServerMetadata) -> None:
    for name, what in _ENDPOINTS.items():
        url = getattr(metadata, name)
        if url is not None:
            search.check(url, what)


def _choose_server(
    search: _Search, resource: ResourceMetadata, known: str | None
) -> Steps[ServerMetadata]:
    """Return the one that is known, or else the first that can be used.

    RFC 9728 section 7.6 leaves the choice to the client.
    """
    issuers = resource.authorization_servers[:_SERVERS_MAX]
    if known is not None and known in resource.authorization_servers:
        issuers = (known,)
    refused: DiscoveryError | UrlRefused | None = None
    for issuer in issuers:
        try:
            metadata = yield from _find_server(search, issuer)
        except (DiscoveryError, UrlRefused) as error:
            refused = refused or error
            continue
        if metadata is not None:
            return metadata
    # Never the server's own origin: it said that others give its tokens.
    raise refused or search.failure(
        f"no authorization server that '{search.server}' names describes itself"
    )


def _find_old_server(search: _Search) -> Steps[ServerMetadata]:
    """Return what a server of 2025-03-26 says of itself, or what holds of it anyway."""
    server = search.server
    metadata = yield from _find_server(search, server.origin, is_old=True)
    if metadata is not None:
        return metadata
    if not search.is_empty:
        raise search.failure(f"cannot find out who gives tokens for '{server}'")
    return assumed(server)
