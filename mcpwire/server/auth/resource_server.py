"""A server that only answers who shows a token for it (RFC 6750, RFC 9728, RFC 9449).

    fields ──► credentials ──► a verifier believes them ──► for this server? bound to a
      │ 400       │ 401            │ 401, 503                key? good now? ──► scopes
      ▼           ▼                ▼                           │ 401             │ 403

Every request goes this way: a session, a task or a cursor is no proof of anything
(2026-07-28 security best practices, "State Handle Hijacking"). Whatever is not sure is
no.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from mcpwire.auth.errors import AuthTemporarilyUnavailable
from mcpwire.auth.records import check_scope
from mcpwire.auth.resource_server import (
    PROOF_ALGORITHMS,
    Replays,
    UnsoundToken,
    binding_of,
    check_proof,
    close_scopes,
    resource_document,
    well_known_paths,
)
from mcpwire.auth.url_policy import parse_identifier
from mcpwire.errors import AuthError
from mcpwire.server.auth.challenges import AuthenticationRefused, Realm, check_scopes
from mcpwire.server.auth.credentials import (
    CREDENTIALS,
    MalformedCredentials,
    has_query_token,
    read_credentials,
    read_key,
)
from mcpwire.server.auth.options import (
    by_field,
    check_audience,
    check_dpop,
    check_required,
    check_servers,
    check_verifiers,
)
from mcpwire.server.auth.verifiers import (
    LONGEST_LEEWAY_S,
    InvalidToken,
    OwnTokens,
)
from mcpwire.server.log_limit import LimitedLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mcpwire.server.auth.credentials import Credentials
    from mcpwire.server.auth.principal import Principal
    from mcpwire.server.auth.verifiers import Verifier

__all__ = ["HeaderFields", "ResourceServer"]

logger = LimitedLogger("mcpwire.server.auth")

RETRY_AFTER_S: Final = 5
"""When to come back where nobody can be asked and nobody said when."""


class HeaderFields(Protocol):
    """The header fields of a request."""

    def all(self, name: str) -> Sequence[str]:
        """Return each field of that lower-case name, in order."""
        ...


class ResourceServer:
    """Says who may ask an MCP server, over HTTP.

    Args:
        resource: The URL of the MCP server, as its clients know it. Tokens must be for
            it.
        authorization_servers: The issuers of its tokens; none only where the server
            gives out all of them itself.
        verifiers: Who believes tokens, in the order in which they are asked.
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
        self._verifiers = check_verifiers(verifiers, authorization_servers)
        self._servers = check_servers(authorization_servers, allow_insecure)
        self._audience = check_audience(resource, audience)
        required = tuple(dict.fromkeys(check_required(required_scopes)))
        self._required = frozenset(required)
        self._supported = tuple(map(check_scope, scopes_supported))
        self._includes = close_scopes(includes or {})
        self._texts = {
            "resource_name": resource_name,
            "resource_documentation": documentation,
            "jwks_uri": jwks_uri,
        }
        self._dpop = check_dpop(dpop)
        self._replays = Replays()
        self._clock = clock
        self._keys, self._bearers = by_field(self._verifiers)
        self.realm = self._make_realm(required)
        self.credential_headers: frozenset[str] = CREDENTIALS | self._keys.keys()
        """The fields that hold credentials; no handler sees one."""

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} {self.resource!r}>"

    def _make_realm(self, required: tuple[str, ...]) -> Realm:
        schemes = {False: ("Bearer",), True: ("Bearer", "DPoP"), "required": ("DPoP",)}
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

        There are none where the server gives out all of its tokens itself: then nobody
        can be sent anywhere.
        """
        return well_known_paths(self._url) if self._servers else ()

    # ... and of those who ask.

    async def authenticate(
        self, headers: HeaderFields, verb: str, url: str
    ) -> Principal:
        """Return who a request comes from.

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
        known = self._with_scopes(principal)
        check_scopes(known, self._required)
        return known

    def _read(self, headers: HeaderFields, url: str) -> Credentials | None:
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
        """Return whose they are, by the first verifier that knows."""
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
                # Real, and wrong here: who runs the server wants to know.
                logger.info("a token that %r believes is refused: %s", verifier, error)
            except AuthError as error:
                unsure = unsure or error
                logger.warning("%r cannot tell now: %s", verifier, error)
            # A user's function: whatever fails there lets nobody in. What it says may
            # quote the token.
            except Exception as error:  # noqa: BLE001 - as said
                unsure = unsure or error
                logger.error("%r failed: %s", verifier, type(error).__name__)  # noqa: TRY400 - the text may hold a token
        if unsure is not None:
            raise self._unavailable(unsure)
        raise self._refused(reason, "invalid_token")

    def _check(self, verifier: Verifier, principal: Principal) -> Principal:
        """Check what makes a token good here, whoever believes it.

        Raises:
            UnsoundToken: It is for somebody else, of nobody, or good no more.
        """
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
        thumbprint = binding_of(principal.claims)
        # RFC 9449, 7.2: what is bound to a key is nothing without a proof.
        if (credentials.scheme == "dpop") != (thumbprint is not None):
            raise UnsoundToken("it is sent in another way than it was given out")
        allowed = {False: (False,), True: (False, True), "required": (True,)}
        if (thumbprint is not None) not in allowed[self._dpop]:
            raise UnsoundToken("tokens of its kind are not taken")

    def _check_proof(
        self,
        principal: Principal,
        credentials: Credentials,
        headers: HeaderFields,
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

    def _with_scopes(self, principal: Principal) -> Principal:
        """Return a principal that knows what its scopes include.

        2026-07-28 basic/authorization, "Step-Up Authorization Flow": hierarchies count.
        """
        scopes = principal.scopes
        if self._includes:
            more = [self._includes[s] for s in scopes if s in self._includes]
            scopes = scopes.union(*more)
        return principal.known_to(self.realm, scopes)

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

    @staticmethod
    def _unavailable(error: Exception) -> AuthenticationRefused:
        """Build what is said where nobody can tell: no reason to log in anew."""
        wait: float | None = None
        if isinstance(error, AuthTemporarilyUnavailable):
            wait = error.retry_after
        seconds = RETRY_AFTER_S if wait is None else max(1, round(wait))
        return AuthenticationRefused(
            "nobody can tell now whose token it is",
            status=503,
            headers=(("retry-after", str(seconds)),),
        )
