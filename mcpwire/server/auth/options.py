"""What a `ResourceServer` is made of: whatever would let in the wrong ones is refused.

It is refused when the server is made, and not when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mcpwire.auth.records import OFFLINE_ACCESS, check_scope
from mcpwire.auth.url_policy import parse_identifier
from mcpwire.server.auth.verifiers import OwnTokens

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mcpwire.server.auth.verifiers import Verifier

__all__ = [
    "by_field",
    "check_audience",
    "check_dpop",
    "check_required",
    "check_servers",
    "check_verifiers",
]


def check_verifiers(
    verifiers: Sequence[Verifier], servers: Sequence[str]
) -> tuple[Verifier, ...]:
    """Return who believes tokens.

    Raises:
        ValueError: Nobody, or clients could not learn who gives out tokens.
    """
    found = tuple(verifiers)
    if not found:
        raise ValueError("somebody must believe tokens: give at least one verifier")
    is_alone = all(isinstance(verifier, OwnTokens) for verifier in found)
    # 2026-07-28 basic/authorization, "Authorization Server Location".
    if not (servers or is_alone):
        raise ValueError(
            "clients must learn who gives them tokens: name at least one "
            "of authorization_servers"
        )
    return found


def by_field(
    verifiers: Iterable[Verifier],
) -> tuple[dict[str, list[Verifier]], list[Verifier]]:
    """Return who believes what stands in a field of its own, and who all else."""
    keys: dict[str, list[Verifier]] = {}
    bearers: list[Verifier] = []
    for verifier in verifiers:
        if isinstance(verifier, OwnTokens) and verifier.header is not None:
            keys.setdefault(verifier.header, []).append(verifier)
        else:
            bearers.append(verifier)
    return keys, bearers


def check_servers(
    servers: Sequence[str],
    allow_insecure: bool,  # noqa: FBT001 - passed on
) -> tuple[str, ...]:
    """Return the issuers of tokens.

    Raises:
        ValueError: One of them is none.
    """
    if isinstance(servers, str):
        raise ValueError(f"authorization_servers is a list, got {servers!r}")
    for server in servers:
        parse_identifier(server, "issuer", allow_insecure=allow_insecure)
    return tuple(servers)


def check_audience(
    resource: str, audience: str | Collection[str] | None
) -> frozenset[str]:
    """Return whom tokens may be for.

    Raises:
        ValueError: Nobody.
    """
    if audience is None:
        # With the slash of a bare host or without: two spellings of one.
        return frozenset({resource, resource.removesuffix("/")})
    found = frozenset([audience] if isinstance(audience, str) else audience)
    if not found:
        raise ValueError("tokens must be for this server: audience must not be empty")
    return found


def check_required(scopes: Iterable[str]) -> list[str]:
    """Return the scopes that each request needs.

    Raises:
        ValueError: One of them is none, or nothing that a request needs.
    """
    found = [check_scope(scope) for scope in scopes]
    if OFFLINE_ACCESS in found:
        raise ValueError(f"no request needs {OFFLINE_ACCESS!r}: it is for clients")
    return found


def check_dpop(dpop: bool | Literal["required"]) -> bool | Literal["required"]:  # noqa: FBT001 - it is the option's own value
    """Return whether tokens may be bound to a key.

    Raises:
        ValueError: It is neither yes nor no nor must.
        LocalProtocolError: joserfc is not installed.
    """
    if dpop not in {True, False, "required"}:
        raise ValueError(f"dpop must be True, False or 'required', got {dpop!r}")
    if dpop:
        from mcpwire.auth.jwt import check_crypto

        check_crypto()
    return dpop
