"""What is known of a server's authorization, and what is stored of it.

Everything here is bound to the issuer it came from: credentials of one authorization
server never go to another (2026-07-28 basic/authorization/client-registration,
"Authorization Server Binding"). No repr shows a secret.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

__all__ = [
    "ClientAuth",
    "Identity",
    "Login",
    "LoginStatus",
    "Pending",
    "Record",
    "ResourceMetadata",
    "ServerMetadata",
    "Tokens",
]

ClientAuth: TypeAlias = Literal[
    "none", "client_secret_basic", "client_secret_post", "private_key_jwt"
]
"""How a client proves to the token endpoint who it is."""


def _masked(value: object) -> str:
    return "None" if value is None else "'***'"


@attrs.frozen
class ResourceMetadata:
    """What a protected resource says of itself (RFC 9728 section 2)."""

    resource: str
    """Its identifier, exactly as it stands there: it travels as ``resource``."""

    authorization_servers: tuple[str, ...]
    """The issuers, as they stand there."""

    scopes_supported: tuple[str, ...] | None = None

    dpop_bound_access_tokens_required: bool = False


@attrs.frozen
class ServerMetadata:
    """What an authorization server says of itself (RFC 8414, OpenID Discovery)."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False

    is_assumed: bool = False
    """Whether nothing was found and the defaults of 2025-03-26 stand here."""


@attrs.frozen
class Identity:
    """Who this client is to one authorization server."""

    client_id: str

    client_secret: str | None = attrs.field(default=None, repr=_masked)

    issuer: str | None = None
    """Whose it is; ``None`` for a metadata document, which is good anywhere."""

    kind: Literal["given", "document", "registered"] = "given"

    auth_method: ClientAuth | None = None
    """How it authenticates, where registration settled that."""

    secret_expires_at: float | None = None
    """Seconds since 1970; ``None``: never."""

    redirect_uri: str | None = None
    """The one it was registered with."""


@attrs.frozen
class Tokens:
    """What a token endpoint gave."""

    access_token: str = attrs.field(repr=_masked)

    token_type: Literal["Bearer", "DPoP"] = "Bearer"  # noqa: S105 - a type of token

    expires_at: float | None = None
    """Seconds since 1970; ``None``: nobody said."""

    refresh_token: str | None = attrs.field(default=None, repr=_masked)

    scopes: tuple[str, ...] | None = None
    """What was granted, as far as it is known: what was asked for where it was not
    said (RFC 6749 section 5.1)."""


@attrs.frozen
class Record:
    """All that is stored for one server, profile and grant."""

    issuer: str
    resource: str | None
    """What travels as ``resource``; ``None`` with servers of 2025-03-26 alone."""

    metadata: ServerMetadata
    identity: Identity
    tokens: Tokens | None = None

    asked_scopes: tuple[str, ...] = ()
    """All that were ever asked for: a step-up asks for these and its own."""

    dpop_key: dict[str, Any] | None = attrs.field(default=None, repr=_masked)
    """The private key of the proofs as a JWK, where the token is bound to one."""

    registered: Identity | None = None
    """Who this client has become for its next login, where the tokens are of before:
    they stay good if that login is given up."""


@attrs.frozen
class Pending:
    """A login that was begun and is finished elsewhere, perhaps in another process.

    The issuer is noted with it before anybody is sent there (2026-07-28
    basic/authorization, "Authorization Response Validation").
    """

    record: Record
    """What will be stored, as far as it is known."""

    state: str = attrs.field(repr=_masked)

    verifier: str = attrs.field(repr=_masked)
    """The secret half of PKCE."""

    redirect_uri: str

    scopes: tuple[str, ...]

    begun_at: float
    """Seconds since 1970."""


@attrs.frozen
class Login:
    """A login that was begun and waits for a user."""

    url: str = attrs.field(repr=False)
    """Where the user logs in. Whoever sees it can see what is asked for, and nothing
    that lets them take the tokens."""

    scopes: tuple[str, ...]
    """What is asked for."""


@attrs.frozen
class LoginStatus:
    """What is stored of the login to one server; nothing of it is secret."""

    server: str
    """Its URL, without its query."""

    profile: str
    issuer: str
    client_id: str

    scopes: tuple[str, ...] | None
    """What was granted, as far as it is known."""

    expires_at: float | None
    """When the access token ends, in seconds since 1970."""

    can_refresh: bool
    """Whether it is renewed without asking anybody."""
