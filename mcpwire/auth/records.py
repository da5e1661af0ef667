"""Values for metadata, identity, tokens and scopes, and their stored form as JSON.

Each record belongs to its issuer: credentials of one authorization server are never
sent to another (2026-07-28 basic/authorization/client-registration, "Authorization
Server Binding"). No repr shows a secret. Stored text is validated like received text: a
file may be old, truncated or edited by hand. Invalid text counts as not stored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import attrs

from mcpwire.wire.headers import is_visible_ascii
from mcpwire.wire.json import JSONDecodeError, encode, loads

if TYPE_CHECKING:
    from collections.abc import Iterable

ClientAuth: TypeAlias = Literal[
    "none", "client_secret_basic", "client_secret_post", "private_key_jwt"
]
"""How a client authenticates at the token endpoint."""


def masked(value: object) -> str:
    """Return a repr that does not show the secret."""
    return "None" if value is None else "'***'"


# Scopes (RFC 6749 section 3.3): strings that the authorization server defines. Clients
# do not know which scope includes another; they compare whole strings and keep order.

OFFLINE_ACCESS: Final = "offline_access"  # asks for refresh tokens

# Visible ASCII except the quotation mark and the backslash.
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+")


def is_scope(text: str) -> bool:
    """Return whether the text is a valid single scope."""
    return _SCOPE.fullmatch(text) is not None


def check_scope(text: object) -> str:
    """Return a scope unchanged; raise `ValueError` if it is not valid."""
    if not isinstance(text, str) or not is_scope(text):
        raise ValueError(
            "a scope must be visible ASCII without quotation marks, backslashes and "
            f"spaces, got {text!r}"
        )
    return text


def unique_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the valid scopes in order, each once."""
    return tuple(dict.fromkeys(filter(is_scope, scopes)))


# Values


@attrs.frozen
class ResourceMetadata:
    """The metadata of a protected resource (RFC 9728 section 2)."""

    resource: str  # as the document spells it: the value of the parameter ``resource``
    authorization_servers: tuple[str, ...]  # the issuers, as the document spells them
    scopes_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool = False


@attrs.frozen
class ServerMetadata:
    """The metadata of an authorization server (RFC 8414, OpenID Discovery)."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str = ""
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    is_assumed: bool = False  # no document was found: the defaults of 2025-03-26


@attrs.frozen
class Identity:
    """The identity of this client at one authorization server."""

    client_id: str
    client_secret: str | None = attrs.field(default=None, repr=masked)
    issuer: str | None = None  # None for a metadata document: valid at any issuer
    kind: Literal["given", "document", "registered"] = "given"
    auth_method: ClientAuth | None = None  # registered, or accepted
    secret_expires_at: float | None = None  # in seconds since 1970; None: never
    redirect_uri: str | None = None  # of the registration
    # The scopes of the registration request; None: unknown (an older record).
    scopes: tuple[str, ...] | None = None


@attrs.frozen
class Tokens:
    """The tokens of one response of a token endpoint."""

    access_token: str = attrs.field(repr=masked)
    token_type: Literal["Bearer", "DPoP"] = "Bearer"  # noqa: S105 - a type of token
    expires_at: float | None = None  # in seconds since 1970; None: unknown
    refresh_token: str | None = attrs.field(default=None, repr=masked)
    # The granted scopes, if known: the requested scopes if the response names none (RFC
    # 6749 section 5.1).
    scopes: tuple[str, ...] | None = None


@attrs.frozen
class Record:
    """The stored state of one server, profile and grant."""

    resource: str  # the value of the parameter ``resource``
    metadata: ServerMetadata
    identity: Identity
    tokens: Tokens | None = None
    asked_scopes: tuple[str, ...] = ()  # all requested scopes, with each step-up's
    # The private key of the proofs as a JWK, if the token is bound to a key.
    dpop_key: dict[str, Any] | None = attrs.field(default=None, repr=masked)
    # The client of the next login, while the tokens belong to an earlier client: the
    # tokens stay valid if that login is abandoned.
    registered: Identity | None = None

    @property
    def issuer(self) -> str:
        """The authorization server that the record belongs to."""
        return self.metadata.issuer


@attrs.frozen
class PendingLogin:
    """A login to be finished later, possibly by another process.

    The issuer is recorded before the user is sent there (2026-07-28
    basic/authorization, "Authorization Response Validation").
    """

    record: Record  # the record to store, without its new tokens
    state: str = attrs.field(repr=masked)
    verifier: str = attrs.field(repr=masked)  # of PKCE
    redirect_uri: str
    begun_at: float  # in seconds since 1970


@attrs.frozen
class Login:
    """A login that has begun and waits for a user."""

    url: str = attrs.field(repr=False)
    """The login URL. It shows the request, but does not enable a reader to obtain the
    tokens."""

    scopes: tuple[str, ...]
    """The requested scopes."""


@attrs.frozen
class LoginStatus:
    """The stored login to one server, without secrets."""

    server: str
    """The server's URL, without its query."""

    profile: str
    issuer: str
    client_id: str

    scopes: tuple[str, ...] | None
    """The granted scopes, or ``None`` if unknown."""

    expires_at: float | None
    """The expiry of the access token, in seconds since 1970; ``None``: unknown."""

    can_refresh: bool
    """Whether the access token can be refreshed without a user."""


# Stored form: one JSON object per server, profile and kind of grant.

T = TypeVar("T")

FORMAT: Final = 1  # an object of another format counts as not stored


def credential_key(server: str, profile: str, grant: str) -> str:
    """Return the storage key of a server's tokens; only a profile may have spaces."""
    return f"{server} {grant} {profile}"


def pending_key(server: str, profile: str, grant: str) -> str:
    """Return the storage key of a pending login; it never equals a key of tokens."""
    return credential_key(server, profile, f"{grant}:pending")


def dump(value: Record | PendingLogin) -> bytes:
    """Return the stored form of a record or a pending login."""
    stored = attrs.asdict(value, filter=lambda _, member: member is not None)
    return encode({"format": FORMAT, **stored})


def load(data: bytes) -> Record | None:
    """Parse a stored record; return ``None`` if it is unusable or has no issuer."""
    record = _load(Record, data)
    return record if record is not None and _is_usable(record) else None


def load_pending(data: bytes) -> PendingLogin | None:
    """Parse a stored pending login; return ``None`` if it is unusable."""
    pending = _load(PendingLogin, data)
    if pending is None or not (pending.state and pending.verifier):
        return None
    return pending if _is_usable(pending.record) else None


def _load(kind: type[T], data: bytes) -> T | None:
    import msgspec

    try:
        stored = loads(data)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            return None
        return msgspec.convert(stored, kind)
    except (JSONDecodeError, msgspec.ValidationError):
        return None


def _is_usable(record: Record) -> bool:
    """Return whether a record has one issuer, and a token that fits in a header."""
    identity, tokens = record.identity, record.tokens
    if tokens is not None:
        # RFC 6750 section 2.1.
        if not is_visible_ascii(tokens.access_token):
            return False
        if tokens.token_type == "DPoP" and record.dpop_key is None:  # noqa: S105 - a type of token
            return False
        if tokens.refresh_token == "":
            return False
    if not (record.issuer and identity.client_id):
        return False
    if identity.issuer is None and identity.client_secret is not None:
        return False
    return identity.issuer in {None, record.issuer}
