"""OAuth resource server: checks the tokens of requests (RFC 6750, 9728, 9449).

::

    fields ──► credentials ──► verifier ──► audience, key binding, expiry ──► scopes
      │ 400       │ 401          │ 401, 503      │ 401                        │ 403
      ▼           ▼              ▼               ▼                            ▼

Every request is checked: a session, a task or a cursor is no proof of identity
(2026-07-28 security best practices, "State Handle Hijacking"). In doubt it is refused.
All clients get the same response: the reason of a refusal would only help forgers.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from contextvars import ContextVar
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs

import attrs

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.jwt import check_crypto
from mcpwire.auth.records import OFFLINE_ACCESS, check_scope, masked
from mcpwire.auth.resource_server import (
    MAX_PROOFS,
    PROOF_ALGORITHMS,
    RejectedToken,
    TtlCache,
    bound_thumbprint,
    check_proof,
    expand_scopes,
    format_challenge,
    resource_document,
    well_known_paths,
)
from mcpwire.auth.url_policy import parse_identifier
from mcpwire.errors import AuthError, InvalidRequest
from mcpwire.limits import check_choice
from mcpwire.server.dispatcher import HttpRefusal
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from mcpwire.server.http.exchange import Headers

logger = LimitedLogger("mcpwire.server.auth")

client_address: Final[ContextVar[str]] = ContextVar("client_address", default="")
"""The IP address of the client while its credentials are checked, if it is known."""

RETRY_AFTER_S: Final = 5
"""The Retry-After, in seconds, if no verifier can decide and none names a delay."""

MAX_LEEWAY_S: Final = 300.0
"""The maximum clock skew; older tokens are refused, whatever a verifier accepts."""


# Principals

PrincipalKey: TypeAlias = tuple[str | None, str | None, str | None]
"""Issuer, client id and subject, which together identify a principal."""


def _to_set(values: Iterable[str]) -> frozenset[str]:
    # Iterating over a text would yield its characters.
    if isinstance(values, str):
        raise ValueError(
            f"scopes and audience are collections, got the text {values!r}"
        )
    return frozenset(values)


def _read_only(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    # A mapping that is read-only already is not copied with each request.
    is_proxy = isinstance(claims, MappingProxyType)
    return claims if is_proxy else MappingProxyType(dict(claims))


@attrs.frozen(kw_only=True)
class Principal:
    """The authenticated client of a request, and its scopes; its `repr` hides claims.

    Verifiers create it. It never contains the token, so that handlers may log, compare
    and store it.
    """

    issuer: str | None = None
    """The issuer of the token."""

    client_id: str | None = None
    """The id of the client program."""

    subject: str | None = None
    """The user of the program, or the program itself."""

    scopes: frozenset[str] = attrs.field(default=frozenset(), converter=_to_set)
    """The granted scopes; a `ResourceServer` adds the scopes that they include."""

    audience: frozenset[str] = attrs.field(default=frozenset(), converter=_to_set)
    """The receivers of the token; a `ResourceServer` accepts only its own tokens."""

    expires_at: float | None = None
    """Seconds since 1970; ``None``: not known."""

    claims: Mapping[str, Any] = attrs.field(
        factory=dict, converter=_read_only, repr=False, eq=False
    )
    """All claims of the token, unchanged."""

    realm: Realm | None = attrs.field(default=None, repr=False, eq=False)
    """The realm of the server that accepted the token, for challenges."""

    @property
    def key(self) -> PrincipalKey:
        """The identity of the client, independent of the token's scopes.

        State that belongs to a client is bound to this key (2026-07-28 security best
        practices, "State Handle Hijacking"): subjects are unique only within an issuer,
        and the clients of one subject do not share state.
        """
        return self.issuer, self.client_id, self.subject


# Credentials (RFC 6750 section 2)

MAX_TOKEN_LENGTH: Final = 16_384
"""Twice the usual limit of web servers for one header field: tokens with hundreds of
groups are that long."""

AUTHORIZATION: Final = "authorization"

CREDENTIALS: Final = frozenset({AUTHORIZATION, "cookie", "dpop", "proxy-authorization"})
"""Header fields that must not be passed on."""

_SCHEMES: Final = frozenset({"bearer", "dpop"})

# RFC 9110, 11.4: a scheme, and its credentials after one space or more.
_FIELD: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]++)(?: ++(.*))?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]++=*+")  # RFC 6750, 2.1: b64token
_KEY: Final = re.compile(r"[!-~]++")


class MalformedCredentials(ValueError):
    """The credentials are malformed or ambiguous; the message never quotes them."""


@attrs.frozen
class Credentials:
    """A token and its scheme; the `repr` hides the token."""

    scheme: str
    """``bearer`` or ``dpop``; for an API key, the name of its header field."""

    token: str = attrs.field(repr=masked)


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= MAX_TOKEN_LENGTH and pattern.fullmatch(text) is not None


def read_credentials(name: str, values: Sequence[str]) -> Credentials | None:
    """Return the credentials in a header field; ``None``: no field or another scheme.

    Raises `MalformedCredentials`.
    """
    if not values:
        return None
    if len(values) > 1:
        # RFC 9110, 5.3: no list, so never repeated; a proxy may have read the other.
        raise MalformedCredentials(f"there is more than one field {name!r}")
    scheme, token, pattern = name, values[0].strip(" \t"), _KEY
    if name == AUTHORIZATION:
        match = _FIELD.fullmatch(token)
        if match is None:
            raise MalformedCredentials(f"the field {name!r} names no scheme")
        # RFC 9110, 11.1: case-insensitive
        scheme, token, pattern = match[1].lower(), match[2] or "", _TOKEN
        if scheme not in _SCHEMES:
            return None
    if not _matches(pattern, token):
        raise MalformedCredentials(f"the field {name!r} holds no token or key")
    return Credentials(scheme, token)


# Refusals (RFC 6750 section 3, RFC 9728 section 5.1)

_DESCRIPTIONS: Final = {
    "invalid_request": "The credentials are malformed",
    "invalid_token": "The access token is not valid here",
    "insufficient_scope": "The access token does not allow this",
    "invalid_dpop_proof": "The DPoP proof is not valid here",
}
"""The text for each error code, always the same."""


@attrs.frozen(kw_only=True)
class Realm:
    """The contents of the challenges of one server."""

    metadata_url: str | None = None
    """The URL of the server's metadata; ``None``: it issues all its tokens itself."""

    required: tuple[str, ...] = ()
    """The scopes that every request needs."""

    schemes: tuple[str, ...] = ("Bearer",)
    """The accepted schemes of tokens: ``Bearer``, ``DPoP``."""

    proof_algorithms: tuple[str, ...] = ()
    """The accepted signature algorithms of DPoP proofs."""

    def scopes_for(self, needed: Iterable[str] = ()) -> tuple[str, ...]:
        """Return all scopes that a request needs, always in the same order."""
        # 2026-07-28 basic/authorization, "Runtime Insufficient Scope Errors": all in
        # one challenge. "Refresh Tokens": no request needs `offline_access`.
        scopes = dict.fromkeys((*self.required, *sorted(needed)))
        scopes.pop(OFFLINE_ACCESS, None)
        return tuple(scopes)

    def challenge(self, error: str | None = None, needed: Iterable[str] = ()) -> str:
        """Return a ``WWW-Authenticate``; without credentials no `error` (RFC 6750)."""
        params = {
            "error": error,
            "error_description": _DESCRIPTIONS.get(error or ""),
            "scope": " ".join(self.scopes_for(needed)),
            "resource_metadata": self.metadata_url,
        }
        algorithms = {"algs": " ".join(self.proof_algorithms)}
        return ", ".join(
            format_challenge(scheme, params | (algorithms if scheme == "DPoP" else {}))
            for scheme in self.schemes
        )


class AuthenticationRefused(AuthError, HttpRefusal):
    """A request has no credentials, or they were not accepted.

    Attributes:
        error: The error code of the challenge; ``None``: there were no credentials.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        error: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.error = error
        self.http_status = status
        self.http_headers = headers


class ScopeRequired(InvalidRequest, HttpRefusal):
    """The token is valid but lacks a scope: the client may request more scopes.

    Attributes:
        scopes: All scopes that the request needs.
    """

    http_status = 403

    def __init__(self, scopes: Iterable[str], *, realm: Realm | None = None) -> None:
        super().__init__("the access token does not allow this")
        realm = realm or Realm()
        self.scopes = realm.scopes_for(scopes)
        challenge = realm.challenge("insufficient_scope", scopes)
        self.http_headers = (("www-authenticate", challenge),)


def check_scopes(principal: Principal | None, needed: AbstractSet[str]) -> None:
    """Check that a client has the needed scopes.

    Args:
        principal: The client; ``None`` has no scopes.
        needed: The needed scopes.

    Raises:
        ScopeRequired: A scope is missing; the error lists all needed ones.
    """
    if not needed or (principal is not None and needed <= principal.scopes):
        return
    raise ScopeRequired(needed, realm=None if principal is None else principal.realm)


# Verifiers


class InvalidToken(AuthError):
    """A verifier does not accept a token. The reason is only logged."""


class Verifier(Protocol):
    """Verifies tokens and returns their principals.

    It does not check audience and scopes: a `ResourceServer` does.
    """

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token that is valid now.

        `Principal.audience` must contain the receivers of the token: if the server's
        own name is missing, the request is refused.

        Raises:
            InvalidToken: The token is not accepted; the next verifier is tried.
            AuthError: The token cannot be verified now.
        """
        ...


TokenOwner: TypeAlias = "Principal | Mapping[str, Any] | str"
"""The owner of a token: a principal, its attributes, or its subject alone."""


class OwnTokens:
    """Tokens that the operator of the server issues, for this server only.

    So they need no audience. The tokens themselves are not stored, only HMACs under a
    random key, so that the time of a look-up reveals nothing.

    Args:
        owners: The owner of each token.

    Raises:
        ValueError: A token is not valid in a header field, or has no owner.
    """

    header: str | None = None
    """The header field for the tokens; ``None``: ``Authorization``."""

    def __init__(self, owners: Mapping[str, TokenOwner]) -> None:
        self._key = secrets.token_bytes(32)
        pattern = _TOKEN if self.header is None else _KEY
        if not all(_matches(pattern, token) for token in owners):
            raise ValueError("a token must be short visible ASCII as RFC 6750 has it")
        self._owners = {
            self._digest(token): _principal(owner) for token, owner in owners.items()
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._owners)}>"

    async def verify(self, token: str) -> Principal:
        """Return the owner of the token.

        Raises:
            InvalidToken: The token is not in the list.
        """
        owner = self._owners.get(self._digest(token))
        if owner is None:
            raise InvalidToken("it is not in the list")
        return owner

    def _digest(self, token: str) -> bytes:
        text = token.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, "sha256")


def _principal(owner: TokenOwner) -> Principal:
    if isinstance(owner, str):
        principal = Principal(subject=owner)
    else:
        principal = owner if isinstance(owner, Principal) else Principal(**owner)
    if not (principal.subject or principal.client_id):
        # Two principals without a name would be equal.
        raise ValueError("each token needs a subject or a client_id")
    return principal


# The server


class ResourceServer:
    """Decides which clients may use an MCP server over HTTP.

    Args:
        resource: The URL of the MCP server, as its clients know it. Tokens must be
            issued for it.
        authorization_servers: The issuers of its tokens; may be empty only if the
            server issues all tokens itself.
        verifiers: The verifiers of tokens, in the order in which they are tried.
        scopes_supported: The scopes that clients may request; by default the required
            ones.
        required_scopes: The scopes that each request needs. Tools may need further
            scopes, which are set at the tool.
        includes: Which scopes include others: ``{"admin": ["read", "write"]}``.
        audience: The accepted audiences of tokens, in place of the resource.
        resource_name: The name of the server for people.
        documentation: The URL of a page about it.
        jwks_uri: The URL of the server's own signing keys.
        dpop: Whether tokens may be bound to a key (RFC 9449); ``"required"``: whether
            they must be.
        allow_insecure: Whether http is allowed for hosts other than loopback.
        clock: Returns the seconds since 1970.

    Attributes:
        realm: The contents of its challenges.
        credential_headers: The fields with credentials, which handlers do not see.

    Raises:
        ValueError: A URL or scope is malformed, or no token could be valid here.
        LocalProtocolError: `dpop` is given, and joserfc is not installed.
    """

    def __init__(
        self,
        resource: str,
        *,
        authorization_servers: Sequence[str] = (),
        verifiers: Sequence[Verifier],
        scopes_supported: Iterable[str] = (),
        required_scopes: Iterable[str] = (),
        includes: Mapping[str, Collection[str]] | None = None,
        audience: str | Collection[str] | None = None,
        resource_name: str | None = None,
        documentation: str | None = None,
        jwks_uri: str | None = None,
        dpop: bool | Literal["required"] = False,
        allow_insecure: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = parse_identifier(
            resource, "resource", allow_insecure=allow_insecure
        )
        self.resource = resource
        if isinstance(authorization_servers, str):
            raise ValueError(
                f"authorization_servers is a list, got {authorization_servers!r}"
            )
        for server in authorization_servers:
            parse_identifier(server, "issuer", allow_insecure=allow_insecure)
        self._servers = tuple(authorization_servers)
        # Verifiers of API keys by header field, and all others.
        self._keys: dict[str, list[Verifier]] = {}
        self._bearers: list[Verifier] = []
        self._add_verifiers(verifiers)
        # By default the resource, with and without the slash of a bare host.
        default = {resource, resource.removesuffix("/")}
        self._audience = read_audience(default if audience is None else audience)
        required = tuple(dict.fromkeys(map(check_scope, required_scopes)))
        if OFFLINE_ACCESS in required:
            raise ValueError(
                f"scopes must not hold {OFFLINE_ACCESS!r}: it is for clients"
            )
        self._required = frozenset(required)
        self._supported = tuple(map(check_scope, scopes_supported))
        self._includes = expand_scopes(includes or {})
        self._texts = {
            "resource_name": resource_name,
            "resource_documentation": documentation,
            "jwks_uri": jwks_uri,
        }
        self._dpop = dpop
        self._replays: TtlCache[bool] = TtlCache(MAX_PROOFS)
        self._clock = clock
        self.realm = self._make_realm(required)
        self.credential_headers: frozenset[str] = CREDENTIALS | self._keys.keys()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.resource!r}>"

    def _add_verifiers(self, verifiers: Sequence[Verifier]) -> None:
        for verifier in verifiers:
            if isinstance(verifier, OwnTokens) and verifier.header is not None:
                self._keys.setdefault(verifier.header, []).append(verifier)
            else:
                self._bearers.append(verifier)
        if not (self._keys or self._bearers):
            raise ValueError("a resource server needs at least one verifier")
        # 2026-07-28 basic/authorization, "Authorization Server Location".
        if not (self._servers or all(isinstance(v, OwnTokens) for v in verifiers)):
            raise ValueError("authorization_servers must hold at least one URL")

    def _make_realm(self, required: tuple[str, ...]) -> Realm:
        schemes = {True: ("Bearer", "DPoP"), False: ("Bearer",), "required": ("DPoP",)}
        check_choice(self._dpop, "dpop", schemes)
        if self._dpop:
            check_crypto()
        paths = self.metadata_paths()
        return Realm(
            metadata_url=self._url.origin + paths[0] if paths else None,
            required=required,
            schemes=schemes[self._dpop],
            proof_algorithms=PROOF_ALGORITHMS,
        )

    # Metadata

    def metadata(self) -> dict[str, Any]:
        """Return the metadata document of RFC 9728."""
        return resource_document(
            self.resource,
            self._servers,
            scopes=self._supported or self.realm.required,
            texts=self._texts,
            proof_algorithms=PROOF_ALGORITHMS if self._dpop else (),
            are_proofs_required=self._dpop == "required",
        )

    def metadata_paths(self) -> tuple[str, ...]:
        """Return the paths of the metadata document, from the root of the host.

        Empty if the server issues all of its tokens itself: then clients have no
        authorization server to use.
        """
        return well_known_paths(self._url) if self._servers else ()

    # Authentication

    async def authenticate(self, headers: Headers, verb: str, url: str) -> Principal:
        """Return the client of a request to a URL, which includes the query.

        Raises:
            AuthenticationRefused: Credentials are missing or not accepted.
            ScopeRequired: The token lacks a scope that every request needs.
        """
        try:
            credentials = self._read(headers, url)
        except MalformedCredentials as error:
            raise self._refusal(str(error), "invalid_request", 400) from None
        if credentials is None:
            raise self._refusal("the request has no credentials", None)
        principal = await self._verify(credentials)
        try:
            thumbprint = self._read_binding(principal, credentials)
        except RejectedToken as error:
            raise self._refusal(str(error), "invalid_token") from None
        if thumbprint is not None:
            self._check_proof(thumbprint, credentials.token, headers, verb, url)
        # 2026-07-28 basic/authorization, "Step-Up Authorization Flow": scopes may
        # include others.
        included = [self._includes[s] for s in principal.scopes if s in self._includes]
        scopes = principal.scopes.union(*included)
        authorized = attrs.evolve(principal, scopes=scopes, realm=self.realm)
        check_scopes(authorized, self._required)
        return authorized

    def _read(self, headers: Headers, url: str) -> Credentials | None:
        query = url.partition("?")[2].partition("#")[0]
        # 2026-07-28 basic/authorization, "Token Requirements": URLs are logged.
        if "access_token" in parse_qs(query, keep_blank_values=True):
            raise MalformedCredentials("the query must not hold a token")
        names = (AUTHORIZATION, *self._keys)
        candidates = (read_credentials(name, headers.all(name)) for name in names)
        present = [credentials for credentials in candidates if credentials is not None]
        # RFC 6750, 2: only one method to send a token per request.
        if len(present) > 1:
            raise MalformedCredentials(
                "the request has credentials in more than one header field"
            )
        return present[0] if present else None

    async def _verify(self, credentials: Credentials) -> Principal:
        """Return the principal, from the first verifier that accepts the token."""
        token = credentials.token
        failure: Exception | None = None
        reason = "no verifier accepts the token"
        for verifier in self._keys.get(credentials.scheme, self._bearers):
            try:
                return self._check(verifier, await verifier.verify(token))
            except InvalidToken as error:
                reason = str(error).replace(token, "***")
            except RejectedToken as error:
                reason = str(error)
                # The token is genuine but not valid here: useful for the operator.
                logger.info("a token that %r accepts is refused: %s", verifier, error)
            except AuthError as error:
                failure = failure or error
                logger.warning("%r cannot verify a token now: %s", verifier, error)
            # A user's verifier: if it fails, the request is refused. Its message may
            # quote the token.
            except Exception as error:  # noqa: BLE001 - any error of the verifier
                failure = failure or error
                logger.error("%r failed: %s", verifier, type(error).__name__)  # noqa: TRY400 - the text may hold a token
        if failure is None:
            raise self._refusal(reason, "invalid_token")
        # 503, not 401: the client has no reason to log in again.
        retry_after = None
        if isinstance(failure, AuthTemporarilyUnavailable):
            retry_after = failure.retry_after
        seconds = RETRY_AFTER_S if retry_after is None else max(1, round(retry_after))
        raise AuthenticationRefused(
            "the token cannot be verified now",
            status=503,
            headers=(("retry-after", str(seconds)),),
        )

    def _check(self, verifier: Verifier, principal: Principal) -> Principal:
        """Check audience, subject and expiry, whichever verifier accepts the token."""
        # 2026-07-28 basic/authorization, "Token Handling": a token without this
        # server's name in its audience is for another server.
        is_own = isinstance(verifier, OwnTokens)
        if not (is_own or principal.audience & self._audience):
            raise RejectedToken("its audience is another server")
        if principal.subject is None and principal.client_id is None:
            raise RejectedToken("it has neither a subject nor a client_id")
        leeway = 0.0 if is_own else MAX_LEEWAY_S
        expiry = inf if principal.expires_at is None else principal.expires_at + leeway
        if expiry <= self._clock():
            raise RejectedToken("it has expired")
        return principal

    def _read_binding(
        self, principal: Principal, credentials: Credentials
    ) -> str | None:
        """Return the thumbprint of the key that the token is bound to, if any."""
        thumbprint = bound_thumbprint(principal.claims)
        is_bound = thumbprint is not None
        # RFC 9449, 7.2: a token that is bound to a key is invalid without a proof.
        if (credentials.scheme == "dpop") != is_bound:
            raise RejectedToken("its authorization scheme does not fit its type")
        if self._dpop == "required" if not is_bound else not self._dpop:
            raise RejectedToken("tokens of its type are not accepted")
        return thumbprint

    def _check_proof(
        self, thumbprint: str, token: str, headers: Headers, verb: str, url: str
    ) -> None:
        # The host of the URL is chosen by the client; only the path counts.
        path = "/" + url.partition("?")[0].partition("://")[2].partition("/")[2]
        try:
            check_proof(
                headers.all("dpop"),
                token=token,
                thumbprint=thumbprint,
                verb=verb,
                # A proxy may change the path of the URL that the client signed.
                urls={self._url.origin + self._url.path, self._url.origin + path},
                now=self._clock(),
                replays=self._replays,
            )
        except RejectedToken as error:
            raise self._refusal(str(error), "invalid_dpop_proof") from None

    def _refusal(
        self, reason: str, error: str | None, status: int = 401
    ) -> AuthenticationRefused:
        logger.debug("a request is refused: %s", reason)
        challenge = self.realm.challenge(error)
        return AuthenticationRefused(
            "the request is not authenticated",
            status=status,
            error=error,
            headers=(("www-authenticate", challenge),),
        )


def read_audience(audience: str | Collection[str]) -> frozenset[str]:
    """Return the accepted audiences of tokens. Raises `ValueError` if empty."""
    audiences = frozenset([audience] if isinstance(audience, str) else audience)
    if not audiences:
        raise ValueError("audience must not be empty")
    return audiences
