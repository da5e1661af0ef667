"""A server that answers only clients with a token (RFC 6750, RFC 9728, RFC 9449).

::

    fields ──► credentials ──► a verifier believes them ──► for this server? bound to a
      │ 400       │ 401            │ 401, 503                key? good now? ──► scopes
      ▼           ▼                ▼                           │ 401             │ 403

Every request goes this way: a session, a task or a cursor is no proof of anything
(2026-07-28 security best practices, "State Handle Hijacking"). Whatever is not sure is
refused. Each client is told the same: why a token was refused helps only forgers.
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
from urllib.parse import unquote_plus

import attrs

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.records import OFFLINE_ACCESS, check_scope
from mcpwire.auth.resource_server import (
    PROOF_ALGORITHMS,
    Replays,
    UnsoundToken,
    binding_of,
    check_proof,
    close_scopes,
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

__all__ = [
    "CREDENTIALS",
    "LONGEST_LEEWAY_S",
    "LONGEST_TOKEN",
    "AuthenticationRefused",
    "Credentials",
    "HttpRefusal",
    "InvalidToken",
    "MalformedCredentials",
    "OwnTokens",
    "Principal",
    "PrincipalKey",
    "Realm",
    "ResourceServer",
    "ScopeRequired",
    "TokenOwner",
    "Verifier",
    "check_scopes",
    "client_address",
    "has_query_token",
    "read_audience",
    "read_credentials",
    "read_key",
    "safe_headers",
]

logger = LimitedLogger("mcpwire.server.auth")

client_address: Final[ContextVar[str]] = ContextVar("client_address", default="")
"""The IP address of the client while its credentials are checked, if it is known."""

RETRY_AFTER_S: Final = 5
"""When to come back where no verifier can tell, or says when."""

LONGEST_LEEWAY_S: Final = 300.0
"""By how much clocks may differ. Past it a token is over, whatever a verifier says."""


# Principals

PrincipalKey: TypeAlias = tuple[str | None, str | None, str | None]
"""Issuer, client id and subject: what tells one principal from another."""


def _words(values: Iterable[str]) -> frozenset[str]:
    # A text would become its letters.
    if isinstance(values, str):
        raise ValueError(
            f"scopes and audience are collections, got the text {values!r}"
        )
    return frozenset(values)


def _read_only(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    # What is read-only already is not copied with each request.
    is_ours = isinstance(claims, MappingProxyType)
    return claims if is_ours else MappingProxyType(dict(claims))


@attrs.frozen(kw_only=True)
class Principal:
    """The authenticated client of a request, and what it may; shows no claims as text.

    A verifier makes it. It never holds the token: handlers may log, compare and keep
    what they see of it.
    """

    issuer: str | None = None
    """The issuer of the token."""

    client_id: str | None = None
    """The program that asks."""

    subject: str | None = None
    """The user of the program, or the program itself."""

    scopes: frozenset[str] = attrs.field(default=frozenset(), converter=_words)
    """What it may; of a `ResourceServer` also what those scopes include."""

    audience: frozenset[str] = attrs.field(default=frozenset(), converter=_words)
    """The receivers of the token; a `ResourceServer` accepts only its own tokens."""

    expires_at: float | None = None
    """Seconds since 1970; ``None``: not known."""

    claims: Mapping[str, Any] = attrs.field(
        factory=dict, converter=_read_only, repr=False, eq=False
    )
    """What else the issuer says, as it stands there."""

    realm: Realm | None = attrs.field(default=None, repr=False, eq=False)
    """The server that believed it: knows how more is asked for."""

    @property
    def key(self) -> PrincipalKey:
        """What tells it from all others, whatever its token allows.

        State that belongs to a client is bound to this (2026-07-28 security best
        practices, "State Handle Hijacking"): an issuer's subjects are its own, and so
        are what its clients do for one subject.
        """
        return self.issuer, self.client_id, self.subject


# Credentials (RFC 6750 section 2)

LONGEST_TOKEN: Final = 16_384
"""Twice what usual servers take of one header field: tokens with hundreds of groups are
that long."""

CREDENTIALS: Final = frozenset(
    {"authorization", "cookie", "dpop", "proxy-authorization"}
)
"""Header fields that must not be passed on."""

_SCHEMES: Final = frozenset({"bearer", "dpop"})

# RFC 9110, 11.4: a scheme, and what belongs to it after one space or more.
_FIELD: Final = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]++)(?: ++(.*))?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]++=*+")  # RFC 6750, 2.1: b64token
_KEY: Final = re.compile(r"[!-~]++")


class MalformedCredentials(ValueError):
    """The credentials are malformed, or more than one; never quotes them."""


@attrs.frozen
class Credentials:
    """A token, and how it was sent; its `repr` does not show it."""

    scheme: str
    """``bearer`` or ``dpop``; of a key in a field of its own that field's name."""

    token: str = attrs.field(repr=lambda _: "'***'")


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= LONGEST_TOKEN and pattern.fullmatch(text) is not None


def read_credentials(values: Sequence[str]) -> Credentials | None:
    """Return the token of ``Authorization``; ``None``: none, or another scheme."""
    if not values:
        return None
    if len(values) > 1:
        # RFC 9110, 5.3: no list, so it stands once; a proxy may have read the other.
        raise MalformedCredentials("there is more than one Authorization field")
    match = _FIELD.fullmatch(values[0].strip(" \t"))
    if match is None:
        raise MalformedCredentials("the Authorization field names no scheme")
    scheme = match[1].lower()  # RFC 9110, 11.1: in any case
    if scheme not in _SCHEMES:
        return None
    token = match[2] or ""
    if not _fits(_TOKEN, token):
        raise MalformedCredentials("the Authorization field holds no token")
    return Credentials(scheme, token)


def read_key(name: str, values: Sequence[str]) -> Credentials | None:
    """Return the key in a field of its own. Raises `MalformedCredentials`."""
    if not values:
        return None
    if len(values) > 1:
        raise MalformedCredentials(f"there is more than one field {name!r}")
    key = values[0].strip(" \t")
    if not _fits(_KEY, key):
        raise MalformedCredentials(f"the field {name!r} holds no key")
    return Credentials(name, key)


def has_query_token(target: str) -> bool:
    """Tell whether a URL, or the target of a request, holds a token in its query.

    2026-07-28 basic/authorization, "Token Requirements": never there. What is in a URL
    is in logs.
    """
    query = target.partition("?")[2].partition("#")[0]
    return any(
        unquote_plus(pair.partition("=")[0]) == "access_token"
        for pair in query.split("&")
    )


def safe_headers(
    headers: Mapping[str, str], also: Collection[str] = ()
) -> dict[str, str]:
    """Return the fields of a request without its credentials.

    2026-07-28 basic/authorization, "Token Handling": a client's token must not be
    passed on.

    Args:
        headers: By name in lower case.
        also: More names of fields that hold credentials.
    """
    return {
        name: value
        for name, value in headers.items()
        if name not in CREDENTIALS and name not in also
    }


# Refusals (RFC 6750 section 3, RFC 9728 section 5.1)

_DESCRIPTIONS: Final = {
    "invalid_request": "The credentials are malformed",
    "invalid_token": "The access token is not valid here",
    "insufficient_scope": "The access token does not allow this",
    "invalid_dpop_proof": "The DPoP proof is not valid here",
}
"""What is said beside a code: always the same."""


@attrs.frozen(kw_only=True)
class Realm:
    """What each challenge of one server says."""

    metadata_url: str | None = None
    """Where the server describes itself; ``None``: it alone gives out its tokens."""

    required: tuple[str, ...] = ()
    """The scopes that every request needs."""

    schemes: tuple[str, ...] = ("Bearer",)
    """How tokens may be sent: ``Bearer``, ``DPoP``."""

    proof_algorithms: tuple[str, ...] = ()
    """How proofs for ``DPoP`` may be signed."""

    def scopes_for(self, needed: Iterable[str] = ()) -> tuple[str, ...]:
        """Return all that a request needs, always in the same order."""
        # 2026-07-28 basic/authorization, "Runtime Insufficient Scope Errors": all of
        # them in one challenge. "Refresh Tokens": they are nothing that it needs.
        scopes = dict.fromkeys((*self.required, *sorted(needed)))
        scopes.pop(OFFLINE_ACCESS, None)
        return tuple(scopes)

    def challenge(self, error: str | None = None, needed: Iterable[str] = ()) -> str:
        """Return a ``WWW-Authenticate``; only credentials get an `error` (RFC 6750)."""
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
    """A request shows no credentials, or none that are believed.

    Attributes:
        error: The code that the client is told; ``None``: it showed nothing.
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
    """The token is good and does not allow this: the client may ask for more.

    Attributes:
        scopes: All that the request needs.
    """

    http_status = 403

    def __init__(self, scopes: Iterable[str], *, realm: Realm | None = None) -> None:
        super().__init__("the access token does not allow this")
        realm = realm or Realm()
        self.scopes = realm.scopes_for(scopes)
        challenge = realm.challenge("insufficient_scope", scopes)
        self.http_headers = (("www-authenticate", challenge),)


def check_scopes(principal: Principal | None, needed: AbstractSet[str]) -> None:
    """Check that a client may do what needs these scopes.

    Args:
        principal: The client; ``None`` may do only what needs nothing.
        needed: What it needs.

    Raises:
        ScopeRequired: A scope is missing; names all of them.
    """
    if not needed or (principal is not None and needed <= principal.scopes):
        return
    raise ScopeRequired(needed, realm=None if principal is None else principal.realm)


# Verifiers


class InvalidToken(AuthError):
    """A verifier does not believe a token. The reason is for the log alone."""


class Verifier(Protocol):
    """Returns the principal of a token.

    It does not check audience and scopes: a `ResourceServer` does.
    """

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token that is valid now.

        `Principal.audience` must have the receivers of the token: without the server's
        own name in it the request is refused.

        Raises:
            InvalidToken: It is not believed; the next verifier is asked.
            AuthError: It is not known now.
        """
        ...


TokenOwner: TypeAlias = "Principal | Mapping[str, Any] | str"
"""The owner of a token: a principal, its attributes, or its subject alone."""


class OwnTokens:
    """Tokens that the operator of the server gives out, for it alone.

    So they need no audience. None of them is kept: only what tells it again, with a key
    that is new in each process, which also makes the time of a look-up say nothing.

    Args:
        owners: The owner of each token.

    Raises:
        ValueError: A token could never be sent, or has no owner.
    """

    header: str | None = None
    """The field of its own in which a token stands; ``None``: ``Authorization``."""

    def __init__(self, owners: Mapping[str, TokenOwner]) -> None:
        self._key = secrets.token_bytes(32)
        pattern = _TOKEN if self.header is None else _KEY
        if not all(_fits(pattern, token) for token in owners):
            raise ValueError("a token must be short visible ASCII as RFC 6750 has it")
        self._owners = {
            self._digest(token): _principal(owner) for token, owner in owners.items()
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._owners)}>"

    async def verify(self, token: str) -> Principal:
        """Return the owner of the token.

        Raises:
            InvalidToken: It was not given out.
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
        found = Principal(subject=owner)
    else:
        found = owner if isinstance(owner, Principal) else Principal(**owner)
    if not (found.subject or found.client_id):
        # Two without a name would be one.
        raise ValueError("each token needs a subject or a client id that it is of")
    return found


# The server


class ResourceServer:
    """Decides which clients may use an MCP server, over HTTP.

    Args:
        resource: The URL of the MCP server, as its clients know it. Tokens must be for
            it.
        authorization_servers: The issuers of its tokens; none only where the server
            gives out all of them itself.
        verifiers: What believes tokens, in the order in which they are asked.
        scopes_supported: The scopes that clients may ask for; by default those that are
            required.
        required_scopes: The scopes that each request needs. What a tool needs beside
            them stands with the tool.
        includes: Which scopes include others: ``{"admin": ["read", "write"]}``.
        audience: Other names that tokens may be for, in place of the resource.
        resource_name: What people call it.
        documentation: The URL of a page about it.
        jwks_uri: Where keys of its own are, with which it signs.
        dpop: Whether tokens may be bound to a key (RFC 9449), or must be:
            ``"required"``.
        allow_insecure: Whether http will do elsewhere than on this machine.
        clock: Gives the seconds since 1970.

    Attributes:
        realm: What its challenges say.
        credential_headers: The fields that hold credentials; no handler sees one.

    Raises:
        ValueError: Tokens could not be for it, or nobody could give them out.
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
        # By the field in which keys stand, and the others.
        self._keys: dict[str, list[Verifier]] = {}
        self._bearers: list[Verifier] = []
        self._add_verifiers(verifiers)
        # By default the resource: with the slash of a bare host or without it.
        default = {resource, resource.removesuffix("/")}
        self._audience = read_audience(default if audience is None else audience)
        required = tuple(dict.fromkeys(map(check_scope, required_scopes)))
        if OFFLINE_ACCESS in required:
            raise ValueError(f"no request needs {OFFLINE_ACCESS!r}: it is for clients")
        self._required = frozenset(required)
        self._supported = tuple(map(check_scope, scopes_supported))
        self._includes = close_scopes(includes or {})
        self._texts = {
            "resource_name": resource_name,
            "resource_documentation": documentation,
            "jwks_uri": jwks_uri,
        }
        self._dpop = dpop
        self._replays = Replays()
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
            raise ValueError("somebody must believe tokens: give at least one verifier")
        # 2026-07-28 basic/authorization, "Authorization Server Location".
        if not (self._servers or all(isinstance(v, OwnTokens) for v in verifiers)):
            raise ValueError(
                "clients must learn where to get tokens: name at least one of "
                "authorization_servers"
            )

    def _make_realm(self, required: tuple[str, ...]) -> Realm:
        schemes = {True: ("Bearer", "DPoP"), False: ("Bearer",), "required": ("DPoP",)}
        check_choice(self._dpop, "dpop", schemes)
        if self._dpop:
            from mcpwire.auth.jwt import check_crypto

            check_crypto()
        paths = self.metadata_paths()
        return Realm(
            metadata_url=self._url.origin + paths[0] if paths else None,
            required=required,
            schemes=schemes[self._dpop],
            proof_algorithms=PROOF_ALGORITHMS,
        )

    # What it says of itself...

    def metadata(self) -> dict[str, Any]:
        """Return the document of RFC 9728."""
        return resource_document(
            self.resource,
            self._servers,
            scopes=self._supported or self.realm.required,
            texts=self._texts,
            proof_algorithms=PROOF_ALGORITHMS if self._dpop else (),
            are_proofs_required=self._dpop == "required",
        )

    def metadata_paths(self) -> tuple[str, ...]:
        """Return the paths at which the document stands, from the root of the host.

        There are none where the server gives out all of its tokens itself: then there
        is nowhere to send a client.
        """
        return well_known_paths(self._url) if self._servers else ()

    # ... and of its clients.

    async def authenticate(self, headers: Headers, verb: str, url: str) -> Principal:
        """Return the client of a request.

        Args:
            headers: Its header fields.
            verb: Its HTTP method.
            url: Its URL, with the query.

        Raises:
            AuthenticationRefused: It shows no credentials, or none that are believed.
            ScopeRequired: They do not allow what every request needs.
        """
        try:
            credentials = self._read(headers, url)
        except MalformedCredentials as error:
            raise self._refused(str(error), "invalid_request", 400) from None
        if credentials is None:
            raise self._refused("nothing is shown", None)
        principal = await self._believe(credentials)
        try:
            self._check_binding(principal, credentials)
        except UnsoundToken as error:
            raise self._refused(str(error), "invalid_token") from None
        if credentials.scheme == "dpop":
            self._check_proof(principal, credentials, headers, verb, url)
        # 2026-07-28 basic/authorization, "Step-Up Authorization Flow": scopes may
        # include others.
        more = [self._includes[s] for s in principal.scopes if s in self._includes]
        scopes = principal.scopes.union(*more)
        known = attrs.evolve(principal, scopes=scopes, realm=self.realm)
        check_scopes(known, self._required)
        return known

    def _read(self, headers: Headers, url: str) -> Credentials | None:
        if "?" in url and has_query_token(url):
            raise MalformedCredentials("there is a token in the query")
        found = [read_credentials(headers.all("authorization"))]
        found += [read_key(name, headers.all(name)) for name in self._keys]
        shown = [credentials for credentials in found if credentials is not None]
        # RFC 6750, 2: one way per request.
        if len(shown) > 1:
            raise MalformedCredentials("there is more than one way to prove something")
        return shown[0] if shown else None

    async def _believe(self, credentials: Credentials) -> Principal:
        """Return their principal, from the first verifier that accepts them."""
        token = credentials.token
        unsure: Exception | None = None
        reason = "nobody believes tokens"
        for verifier in self._keys.get(credentials.scheme, self._bearers):
            try:
                return self._check(verifier, await verifier.verify(token))
            except InvalidToken as error:
                reason = str(error).replace(token, "***")
            except UnsoundToken as error:
                reason = str(error)
                # Real, and wrong here: the operator wants to know.
                logger.info("a token that %r believes is refused: %s", verifier, error)
            except AuthError as error:
                unsure = unsure or error
                logger.warning("%r cannot tell now: %s", verifier, error)
            # A user's function: a failure there lets nobody in. Its text may quote the
            # token.
            except Exception as error:  # noqa: BLE001 - as said
                unsure = unsure or error
                logger.error("%r failed: %s", verifier, type(error).__name__)  # noqa: TRY400 - the text may hold a token
        if unsure is None:
            raise self._refused(reason, "invalid_token")
        # No reason to log in anew.
        wait = None
        if isinstance(unsure, AuthTemporarilyUnavailable):
            wait = unsure.retry_after
        seconds = RETRY_AFTER_S if wait is None else max(1, round(wait))
        raise AuthenticationRefused(
            "nobody can tell now whose token it is",
            status=503,
            headers=(("retry-after", str(seconds)),),
        )

    def _check(self, verifier: Verifier, principal: Principal) -> Principal:
        """Check what makes a token good here, whatever believes it."""
        # 2026-07-28 basic/authorization, "Token Handling": a token that does not say
        # that it is for this server is for another one.
        is_own = isinstance(verifier, OwnTokens)
        if not (is_own or principal.audience & self._audience):
            raise UnsoundToken("it is for somebody else")
        if principal.subject is None and principal.client_id is None:
            raise UnsoundToken("it is of nobody")
        leeway = 0.0 if is_own else LONGEST_LEEWAY_S
        over = inf if principal.expires_at is None else principal.expires_at + leeway
        if over <= self._clock():
            raise UnsoundToken("it is good no more")
        return principal

    def _check_binding(self, principal: Principal, credentials: Credentials) -> None:
        is_bound = binding_of(principal.claims) is not None
        # RFC 9449, 7.2: what is bound to a key is nothing without a proof.
        if (credentials.scheme == "dpop") != is_bound:
            raise UnsoundToken("it is sent in another way than it was given out")
        if self._dpop == "required" if not is_bound else not self._dpop:
            raise UnsoundToken("tokens of its kind are not taken")

    def _check_proof(
        self,
        principal: Principal,
        credentials: Credentials,
        headers: Headers,
        verb: str,
        url: str,
    ) -> None:
        # Which host was asked is what a client says; only the path counts.
        path = "/" + url.partition("?")[0].partition("://")[2].partition("/")[2]
        try:
            check_proof(
                headers.all("dpop"),
                token=credentials.token,
                thumbprint=binding_of(principal.claims) or "",
                verb=verb,
                # Before a proxy its path may be another one than behind it.
                urls={self._url.origin + self._url.path, self._url.origin + path},
                now=self._clock(),
                replays=self._replays,
            )
        except UnsoundToken as error:
            raise self._refused(str(error), "invalid_dpop_proof") from None

    def _refused(
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
    """Return the receivers that tokens may have. Raises `ValueError` for none."""
    found = frozenset([audience] if isinstance(audience, str) else audience)
    if not found:
        raise ValueError("tokens must be for somebody: audience must not be empty")
    return found
