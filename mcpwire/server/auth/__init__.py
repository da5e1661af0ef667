"""A server that wants tokens: an OAuth resource server (RFC 6750, RFC 9728).

`resource_server` decides who may ask; `verifiers` tell whose a token is. Names are
imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.server.auth.resource_server import (
        AuthenticationRefused,
        HttpRefusal,
        InvalidToken,
        Principal,
        ResourceServer,
        ScopeRequired,
        Verifier,
        check_scopes,
        safe_headers,
    )
    from mcpwire.server.auth.verifiers import (
        ApiKeys,
        IntrospectionVerifier,
        JwtVerifier,
        StaticTokens,
    )

__all__ = [
    "ApiKeys",
    "AuthenticationRefused",
    "HttpRefusal",
    "IntrospectionVerifier",
    "InvalidToken",
    "JwtVerifier",
    "Principal",
    "ResourceServer",
    "ScopeRequired",
    "StaticTokens",
    "Verifier",
    "check_scopes",
    "safe_headers",
]

_VERIFIERS: Final = {"ApiKeys", "IntrospectionVerifier", "JwtVerifier", "StaticTokens"}


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "verifiers" if name in _VERIFIERS else "resource_server"
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
