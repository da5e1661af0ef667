"""OAuth resource server: authorization of requests by tokens (RFC 6750, RFC 9728).

`resource_server` authorizes requests; `verifiers` return the principal of a token.
Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.server.auth.resource_server import (
        AuthenticationRefused as AuthenticationRefused,
    )
    from mcpwire.server.auth.resource_server import InvalidToken as InvalidToken
    from mcpwire.server.auth.resource_server import Principal as Principal
    from mcpwire.server.auth.resource_server import ResourceServer as ResourceServer
    from mcpwire.server.auth.resource_server import ScopeRequired as ScopeRequired
    from mcpwire.server.auth.resource_server import Verifier as Verifier
    from mcpwire.server.auth.resource_server import check_scopes as check_scopes
    from mcpwire.server.auth.verifiers import ApiKeys as ApiKeys
    from mcpwire.server.auth.verifiers import (
        IntrospectionVerifier as IntrospectionVerifier,
    )
    from mcpwire.server.auth.verifiers import JwtVerifier as JwtVerifier
    from mcpwire.server.auth.verifiers import StaticTokens as StaticTokens
    from mcpwire.server.dispatcher import HttpRefusal as HttpRefusal

_load, __dir__, __all__ = lazy_names(
    __name__,
    {
        "resource_server": """
            AuthenticationRefused HttpRefusal InvalidToken Principal ResourceServer
            ScopeRequired Verifier check_scopes
        """,
        "verifiers": "ApiKeys IntrospectionVerifier JwtVerifier StaticTokens",
    },
)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load
