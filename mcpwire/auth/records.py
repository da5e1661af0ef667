"""What is known of a server's authorization, and what is stored of it.

Everything here is bound to the issuer it came from: credentials of one authorization
server never go to another (2026-07-28 basic/authorization/client-registration,
"Authorization Server Binding"). No repr shows a secret.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from mcpwire.wire.json import JSONDecodeError, encode, loads

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
    "credential_key",
    "dump",
    "dump_pending",
    "load",
    "load_pending",
    "pending_key",
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


T = TypeVar("T")

FORMAT: Final = 1
"""Of what is stored; another one is as good as nothing stored."""

_NEVER_EMPTY: Final = frozenset(
    {"access_token", "client_id", "issuer", "refresh_token", "state", "verifier"}
)


def credential_key(server: str, profile: str, grant: str) -> str:
    """Return the name under which the tokens for a server are stored.

    Accounts of one user with one server are told apart by `profile`, and ways to get
    tokens by the name of the grant. Only the profile may hold a space.
    """
    return f"{server} {grant} {profile}"


def pending_key(server: str, profile: str, grant: str) -> str:
    """Return the name under which a login that was begun is stored.

    It is no credential's name, whatever the profile.
    """
    return credential_key(server, profile, f"{grant}:pending")


def dump(record: Record) -> bytes:
    """Return a record as it is stored."""
    return _dump(record)


def dump_pending(pending: Pending) -> bytes:
    """Return a login that somebody else finishes as it is stored."""
    return _dump(pending)


def load(data: bytes) -> Record | None:
    """Return what is stored; ``None`` where it is nothing that can be used.

    A record that does not say whose it is would be good for anybody, so it is not used.
    """
    return _load(Record, data)


def load_pending(data: bytes) -> Pending | None:
    """Return the login that is stored; ``None`` where it is nothing to go on with."""
    return _load(Pending, data)


def _dump(value: Any) -> bytes:
    stored = attrs.asdict(value, filter=lambda _, member: member is not None)
    return encode({"format": FORMAT, **stored})


def _load(kind: type[T], data: bytes) -> T | None:
    try:
        stored = loads(data)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            return None
        built: T = _build(kind, stored)
    except (JSONDecodeError, _Misfit):
        return None
    return built


class _Misfit(Exception):
    """What is stored is not what it should be."""


def _build(kind: Any, stored: Any) -> Any:
    """Return an object of that class.

    Raises:
        _Misfit: It is none.
    """
    if type(stored) is not dict:
        raise _Misfit
    members = {}
    for name, (annotation, is_needed) in _members(kind).items():
        if name in stored:
            value = _read(annotation, stored[name])
            if value == "" and name in _NEVER_EMPTY:
                raise _Misfit
            members[name] = value
        elif is_needed:  # what is None is not written
            members[name] = _read(annotation, None)
    made = kind(**members)
    check = _CHECKS.get(kind)
    if check is not None and not check(made):
        raise _Misfit
    return made


@cache
def _members(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Return the type of each member of a class, and whether it has no default."""
    types = get_type_hints(kind)
    return {
        field.name: (types[field.name], field.default is attrs.NOTHING)
        for field in attrs.fields(kind)
    }


def _read(annotation: Any, value: Any) -> Any:
    """Return a value as a member of that type.

    Raises:
        _Misfit: It is none.
    """
    kinds = get_args(annotation)
    if NoneType in kinds:
        if value is None:
            return None
        [annotation] = [kind for kind in kinds if kind is not NoneType]
    origin = get_origin(annotation) or annotation
    if attrs.has(origin):
        return _build(origin, value)
    if origin is Literal:
        fits = value in get_args(annotation)
    elif origin is tuple:
        fits = type(value) is list and all(type(item) is str for item in value)
        value = tuple(value) if fits else None
    elif origin is float:
        fits = type(value) in {int, float}
    else:
        fits = type(value) is origin
    if not fits:
        raise _Misfit
    return value


def _is_whole(record: Record) -> bool:
    """Tell whether all of it belongs to the issuer that it names, and a key to use."""
    identity, tokens = record.identity, record.tokens
    if identity.issuer is None and identity.client_secret is not None:
        return False
    if tokens is not None and tokens.token_type == "DPoP" and record.dpop_key is None:  # noqa: S105 - a type of token
        return False
    return {record.metadata.issuer, identity.issuer or record.issuer} == {record.issuer}


def _can_travel(tokens: Tokens) -> bool:
    """Tell whether the token can stand in a header (RFC 6750 section 2.1)."""
    token = tokens.access_token
    return token.isascii() and token.isprintable() and " " not in token


_CHECKS: Final[dict[type[Any], Any]] = {
    Record: _is_whole,
    Tokens: _can_travel,
}
