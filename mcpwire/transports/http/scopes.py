"""Answers that refuse a request because a scope is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.errors import HTTPError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.auth.errors import InsufficientScope
    from mcpwire.errors import MCPError
    from mcpwire.transports.http.target import Http

__all__ = ["insufficient_scope", "missing_scope"]

_SHOWN: Final = 200  # characters


def insufficient_scope(
    http: Http,
    required: Sequence[str],
    missing: Sequence[str],
    *,
    asked: Sequence[str] = (),
    otherwise: str = "it does not say which",
) -> InsufficientScope:
    """Build the error for scopes that a server wants and that are not granted.

    Args:
        http: The server.
        required: The scopes that the server named.
        missing: Those among them that the token lacks, as far as that is known.
        asked: What would be asked for.
        otherwise: What to say where the server named none.
    """
    from mcpwire.auth.errors import InsufficientScope

    return InsufficientScope(
        f"{http} wants scopes that are not granted: "
        f"{' '.join(missing)[:_SHOWN] or otherwise}",
        required=required,
        scopes=asked,
    )


def missing_scope(http: Http, error: MCPError) -> InsufficientScope | None:
    """Return the error for an answer that names a missing scope, ``None`` for others.

    Tokens that mcpwire gets are judged before, for there more scopes can be asked for.
    """
    refusal = error if isinstance(error, HTTPError) else error.__cause__
    if not isinstance(refusal, HTTPError) or refusal.status != 403:
        return None
    from mcpwire.auth.discovery import read_denial

    denial = read_denial(refusal.status, refusal.headers)
    if denial.error != "insufficient_scope":
        return None
    named = denial.scopes or ()
    found = insufficient_scope(http, named, named, otherwise=str(error))
    found.__cause__ = error
    return found
