"""How a resource describes itself, and where (RFC 9728)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.auth.discovery.scopes import OFFLINE_ACCESS
from mcpwire.wire.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.wire.urls import Url

__all__ = ["close_scopes", "parse_resource", "resource_document", "well_known_paths"]

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


def parse_resource(
    text: str, *, allow_insecure: bool = False, what: str = "resource"
) -> Url:
    """Return the parts of the URI by which a resource, or an issuer, is known.

    Raises:
        ValueError: No token can be for it, or of it.
    """
    url = parse_url(text)
    # RFC 9728, 1.2 and RFC 8414, 2; 2026-07-28 basic/authorization, "Canonical Server
    # URI".
    if (url.query, url.fragment) != (None, None):
        raise ValueError(f"the {what} '{url}' must have no query and no fragment")
    if not (url.is_secure or allow_insecure):
        raise ValueError(
            f"the {what} '{url}' must be https: tokens would travel unencrypted"
        )
    return url


def well_known_paths(resource: Url) -> tuple[str, ...]:
    """Return where a resource describes itself on its host: its own place first."""
    # 2026-07-28 basic/authorization, "Protected Resource Metadata Discovery".
    path = "" if resource.path == "/" else resource.path
    return tuple(dict.fromkeys((_WELL_KNOWN + path, _WELL_KNOWN)))


def resource_document(
    resource: str,
    authorization_servers: Sequence[str],
    *,
    scopes: Iterable[str],
    texts: Mapping[str, str | None],
    proof_algorithms: Sequence[str] = (),
    are_proofs_required: bool = False,
) -> dict[str, Any]:
    """Return what a resource says of itself.

    Args:
        resource: The URI that tokens are for.
        authorization_servers: The issuers of its tokens; at least one.
        scopes: What its tokens can allow.
        texts: Further members that are texts; those without one are left out.
        proof_algorithms: How proofs of possession may be signed.
        are_proofs_required: Whether only tokens that are bound to a key are taken.
    """
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(authorization_servers),
        "bearer_methods_supported": ["header"],
    }
    # 2026-07-28 basic/authorization, "Refresh Tokens": nothing that a resource needs.
    named = [scope for scope in dict.fromkeys(scopes) if scope != OFFLINE_ACCESS]
    if named:
        document["scopes_supported"] = named
    document |= {name: text for name, text in texts.items() if text is not None}
    if proof_algorithms:
        document["dpop_signing_alg_values_supported"] = list(proof_algorithms)
    if are_proofs_required:
        document["dpop_bound_access_tokens_required"] = True
    return document


def close_scopes(includes: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return all that each scope includes, also by way of others, and itself.

    Args:
        includes: What a scope includes directly; may go in circles.
    """
    direct = {scope: tuple(others) for scope, others in includes.items()}
    closed: dict[str, frozenset[str]] = {}
    for scope in direct:
        found = {scope}
        waiting = [scope]
        while waiting:
            new = [s for s in direct.get(waiting.pop(), ()) if s not in found]
            found.update(new)
            waiting += new
        closed[scope] = frozenset(found)
    return closed
