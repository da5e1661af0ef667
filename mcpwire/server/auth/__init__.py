"""A server that wants tokens: an OAuth resource server (RFC 6750, RFC 9728).

`resource` says what the server is and believes tokens, by the verifiers that it is
given; `challenges` is how it says no; `principal` is who asks. Names are imported when
they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpwire.server.auth.challenges import (
        AuthenticationRefused,
        HttpRefusal,
        ScopeRequired,
        check_scopes,
    )
    from mcpwire.server.auth.credentials import safe_headers
    from mcpwire.server.auth.introspection import IntrospectionVerifier
    from mcpwire.server.auth.jwt import JwtVerifier
    from mcpwire.server.auth.principal import Principal
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.auth.verifiers import (
        ApiKeys,
        InvalidToken,
        StaticTokens,
        Verifier,
    )

_EXPORTS: Final = {
    "mcpwire.server.auth.credentials": ("safe_headers",),
    "mcpwire.server.auth.challenges": (
        "AuthenticationRefused",
        "HttpRefusal",
        "ScopeRequired",
        "check_scopes",
    ),
    "mcpwire.server.auth.introspection": ("IntrospectionVerifier",),
    "mcpwire.server.auth.jwt": ("JwtVerifier",),
    "mcpwire.server.auth.principal": ("Principal",),
    "mcpwire.server.auth.resource_server": ("ResourceServer",),
    "mcpwire.server.auth.verifiers": (
        "ApiKeys",
        "InvalidToken",
        "StaticTokens",
        "Verifier",
    ),
}

_MODULE_OF: Final = {
    name: module for module, names in _EXPORTS.items() for name in names
}

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


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)
