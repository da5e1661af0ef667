"""Verifiers of tokens: static lists, signed JWTs, and token introspection.

- `StaticTokens`, `ApiKeys`: tokens that the operator of the server issues.
- `JwtVerifier`: tokens with claims, signed by their issuer (RFC 9068). The accepted
  algorithms are fixed here and never chosen by the token (RFC 8725): not ``none``, and
  shared-key algorithms only if the server was configured with a secret.
- `IntrospectionVerifier`: opaque tokens, which their issuer checks (RFC 7662). Its
  responses are cached for a short time, positive ones longer; a revoked token stays
  valid for at most that time. Invalid tokens do not crowd out valid ones: both have
  caches of their own, and pending requests are divided by client address.

An issuer rotates its keys (RFC 7517, RFC 8414), and may sign with a new key before it
publishes it. So an unknown key causes another request of the keys, but, since a client
can name a key that does not exist, not often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from mcpwire.auth.discovery import server_metadata_urls
from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError, TokenError
from mcpwire.auth.jwt import (
    CHECKED_ALGORITHMS,
    SHARED_ALGORITHMS,
    check_crypto,
    import_checking_jwk,
    import_checking_pem,
    import_secret,
    is_signed,
)
from mcpwire.auth.records import ClientAuth, Identity, ServerMetadata
from mcpwire.auth.resource_server import (
    ClaimsError,
    UnsoundToken,
    check_times,
    read_claims,
    read_part,
    read_signed,
)
from mcpwire.auth.steps import Fetch, check_available, read_object
from mcpwire.auth.tokens import authenticate
from mcpwire.errors import AuthError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.server.auth.resource_server import (
    LONGEST_LEEWAY_S,
    InvalidToken,
    OwnTokens,
    Principal,
    TokenOwner,
    client_address,
    read_audience,
)
from mcpwire.server.fair_pool import FairPool
from mcpwire.wire.headers import is_token
from mcpwire.wire.urls import network_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mcpwire.auth.jwt import CheckingKey
    from mcpwire.auth.resource_server import SignedToken
    from mcpwire.transports.http.target import Http


def check_place(place: str | Http, what: str) -> Http:
    """Return the endpoint of an issuer. Raises `ValueError` if it is insecure."""
    from mcpwire.transports.http.target import Http

    found = Http(place) if isinstance(place, str) else place
    if not (found.parsed.is_secure or found.allow_insecure):
        raise ValueError(
            f"{what} at '{found.parsed}' must be asked by https; inside a network of "
            "your own give Http(..., allow_insecure=True)"
        )
    return found


def _fetch_from(place: str | Http, limits: Limits) -> Callable[[Fetch], Any]:
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.fetch import Fetcher

    return Fetcher(Http(place) if isinstance(place, str) else place, limits).fetch


def check_leeway(leeway: float) -> float:
    """Return a leeway. Raises `ValueError` if it is out of range."""
    if not 0 <= leeway <= LONGEST_LEEWAY_S:
        raise ValueError(
            f"leeway must be 0 to {LONGEST_LEEWAY_S:g} seconds, got {leeway!r}"
        )
    return leeway


class StaticTokens(OwnTokens):
    """A list of tokens, for tests and for servers with few users.

    ::

        StaticTokens({"a-long-random-text": "ann"})
        StaticTokens({os.environ["TOKEN"]: {"subject": "ann", "scopes": ["read"]}})
    """


class ApiKeys(OwnTokens):
    """A list of API keys, in ``Authorization: Bearer`` or in a separate header field.

    Args:
        owners: The owner of each key.
        header: The header field of the keys, such as ``X-API-Key``.

    Raises:
        ValueError: A key is not valid in a header field, or has no owner.
    """

    def __init__(
        self, owners: Mapping[str, TokenOwner], *, header: str | None = None
    ) -> None:
        if header is not None:
            if not is_token(header) or header.lower() == "authorization":
                raise ValueError(f"no key can stand in a field named {header!r}")
            self.header = header.lower()
        super().__init__(owners)


T = TypeVar("T")

MOST: Final = 10_000
"""How many tokens are cached: roughly the number of concurrent users."""


class TtlCache(Generic[T]):
    """Values by token, each until its expiry; when full, the oldest is removed."""

    def __init__(self, most: int = MOST) -> None:
        self._values: dict[bytes, tuple[T, float]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._values)

    def get(self, token: str, now: float) -> T | None:
        """Return the value of a token; ``None``: not cached, or expired."""
        found = self._values.get(_digest(token))
        return found[0] if found is not None and now < found[1] else None

    def put(self, token: str, value: T, until: float) -> None:
        """Store the value of a token."""
        digest = _digest(token)
        self._values.pop(digest, None)
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._values[digest] = value, until

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


logger = logging.getLogger("mcpwire.server.auth")

_KEYS: Final = "the keys of the issuer"
_METADATA: Final = "the metadata of the issuer"

FRESH_S: Final = 3_600.0
"""After how many seconds keys are fetched again."""

STALE_S: Final = 86_400.0
"""How old keys may become while the issuer does not respond, in seconds."""

PAUSE_S: Final = 30.0
"""The minimum time between two requests for an unknown key; also the pause after a
request that failed. In seconds."""

MOST_KEYS: Final = 100
_TRIED_MAX: Final = 4
"""How many keys are tried for a token that names no key: while keys are rotated, two
keys match."""


def read_keys(document: Mapping[str, Any]) -> tuple[CheckingKey, ...]:
    """Return the keys of a JWK set that can check signatures.

    RFC 7517 section 5: unknown keys are ignored.
    """
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise DiscoveryError("a JWK set must have a list of keys")
    found: list[CheckingKey] = []
    for jwk in listed[:MOST_KEYS]:
        if not isinstance(jwk, dict):
            continue
        try:
            found.append(import_checking_jwk(jwk))
        except ValueError as error:
            logger.debug("%s: a key is skipped: %s", _KEYS, error)
    return tuple(found)


def choose(
    keys: Sequence[CheckingKey], kid: str | None, algorithm: str
) -> list[CheckingKey]:
    """Return the keys that may have signed a token."""
    kind = CHECKED_ALGORITHMS.get(algorithm) or SHARED_ALGORITHMS[algorithm]
    found = [
        key
        for key in keys
        if key.kind == kind
        and key.algorithm in {None, algorithm}
        and (kid is None or key.kid in {None, kid})
    ]
    return found[:_TRIED_MAX]


class GivenKeys:
    """Keys that never change."""

    def __init__(self, keys: Sequence[CheckingKey]) -> None:
        self._keys = tuple(keys)
        self.generation = 0

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[CheckingKey]:
        """Return the keys that may have signed a token."""
        return choose(self._keys, None if len(self._keys) == 1 else kid, algorithm)

    async def renew(self, now: float) -> bool:
        """Return ``False``: there are no newer keys."""
        return False


class IssuerKeys:
    """Keys that an issuer publishes."""

    def __init__(
        self,
        issuer: str,
        place: Http | None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        fetch: Callable[[Fetch], Any] | None = None,
    ) -> None:
        self.generation = 0
        self._issuer = issuer
        self._place = place
        self._url = None if place is None else place.parsed.unmasked
        self._limits = limits
        self._fetch = fetch
        self._keys: tuple[CheckingKey, ...] = ()
        self._published: Any = None
        self._fetched_at = self._asked_at = -inf
        self._locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[CheckingKey]:
        """Return the keys that may have signed a token."""
        if not self._is_fresh(now) and not (
            # One request waits for newer keys; the others use the old ones.
            self._is_usable(now) and self._lock().locked()
        ):
            async with self._lock():
                # Another request may have fetched them while this one waited.
                if not self._is_fresh(now):
                    await self._refresh(now)
        return choose(self._keys, kid, algorithm)

    async def renew(self, now: float) -> bool:
        """Fetch the keys again unless just fetched; return whether they changed."""
        generation = self.generation
        async with self._lock():
            if not self._was_asked(now):
                await self._refresh(now)
        return self.generation != generation

    def _is_fresh(self, now: float) -> bool:
        """Return whether the known keys need no refresh."""
        if self._is_usable(now):
            return self._was_asked(now) or now - self._fetched_at < FRESH_S
        if self._was_asked(now):
            raise AuthTemporarilyUnavailable(
                f"{_KEYS} are not available", retry_after=PAUSE_S
            )
        return False

    def _is_usable(self, now: float) -> bool:
        return self._keys != () and now - self._fetched_at < STALE_S

    def _was_asked(self, now: float) -> bool:
        return now - self._asked_at < PAUSE_S

    def _lock(self) -> asyncio.Lock:
        # One verifier may serve several loops, one after another or in threads.
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _refresh(self, now: float) -> None:
        """Fetch the keys; if that fails, the old ones stay valid for a while."""
        try:
            document = await self._ask(now)
            keys = read_keys(document)
        except AuthError as error:
            self._asked_at = now
            if self._place is None:
                self._url = None  # the metadata may name another URL by then
            if not self._is_usable(now):
                raise
            logger.warning(
                "%s: the fetch failed, the previous keys are used: %s", _KEYS, error
            )
            return
        self._asked_at = self._fetched_at = now
        if document["keys"] != self._published:
            self._keys, self._published = keys, document["keys"]
            self.generation += 1
            logger.info("%s: %d keys were fetched", _KEYS, len(keys))

    async def _ask(self, now: float) -> Mapping[str, Any]:
        if self._url is None:
            self._url = await self._discover(now)
        return await self._document(self._url, _KEYS, now)

    async def _discover(self, now: float) -> str:
        """Return the URL of the keys from the metadata of the issuer."""
        refused: AuthError = DiscoveryError(f"{_METADATA} was not found")
        for url in server_metadata_urls(self._issuer):
            try:
                document = await self._document(url, _METADATA, now)
            except DiscoveryError as error:
                refused = error
                continue
            # RFC 8414, 3.3: identical, or it must not be used.
            if document.get("issuer") != self._issuer:
                raise DiscoveryError(f"{_METADATA} has another issuer")
            place = document.get("jwks_uri")
            if not isinstance(place, str):
                raise DiscoveryError(f"{_METADATA} has no jwks_uri")
            return place
        raise refused

    async def _document(self, url: str, what: str, now: float) -> Mapping[str, Any]:
        fetch = self._fetch
        if fetch is None:
            fetch = self._fetch = _fetch_from(self._place or self._issuer, self._limits)
        answer = await fetch(Fetch(what, url))
        check_available(answer, what, now)
        if answer.status != 200:
            raise DiscoveryError(f"{what}: HTTP {answer.status}")
        document = read_object(answer.body)
        if document is None:
            raise DiscoveryError(f"{what}: no JSON object")
        return document


# RFC 9068, 2.1, and the values of most issuers; RFC 7515, 4.1.9: with or without the
# prefix ``application/``. Tokens of any other type, such as an ID-JAG, are refused.
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})

REMEMBERED_S: Final = 60.0
"""How long a checked signature is cached: checking takes longer than most calls."""


class JwtVerifier:
    """Verifies the JWTs of one issuer.

    The keys are fetched from `jwks_uri`, or given as `jwks` or `key`, or else fetched
    from the URL in the metadata of the issuer.

    Args:
        issuer: The signer; the claim ``iss`` must be this, byte for byte.
        jwks_uri: The URL of its keys; an `Http` to set options of TLS or a proxy.
        jwks: Its keys as a JWK set.
        key: Its only key: PEM as text, a JWK as a dict, or a shared secret as bytes.
        algorithms: The accepted algorithms; by default all that its keys are for, and
            with a shared secret only HS256.
        audience: Required receivers of tokens, in addition to the server's own check.
        leeway: The allowed clock skew, in seconds; at most five minutes.
        clock: Returns the seconds since 1970.
        limits: Limits for fetching the keys.

    Raises:
        ValueError: There is more than one source of keys, or a key cannot check the
            signatures of an algorithm.
        LocalProtocolError: joserfc is not installed.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | Http | None = None,
        jwks: Mapping[str, Any] | None = None,
        key: str | bytes | Mapping[str, Any] | None = None,
        algorithms: Collection[str] | None = None,
        audience: str | Collection[str] | None = None,
        leeway: float = 30.0,
        clock: Callable[[], float] = time.time,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        check_crypto()
        if sum(source is not None for source in (jwks_uri, jwks, key)) > 1:
            raise ValueError("keys come from one of jwks_uri, jwks and key")
        self.issuer = issuer
        self._algorithms = _check_algorithms(algorithms, is_secret=type(key) is bytes)
        self._keys: IssuerKeys | GivenKeys
        if jwks is not None:
            self._keys = GivenKeys(read_keys(jwks))
        elif key is not None:
            self._keys = GivenKeys([_read_key(key)])
        elif jwks_uri is not None:
            place = check_place(jwks_uri, "the keys")
            self._keys = IssuerKeys(issuer, place, limits=limits)
        else:
            check_place(issuer, "the issuer")
            self._keys = IssuerKeys(issuer, None, limits=limits)
        self._audience = None if audience is None else read_audience(audience)
        self._leeway = check_leeway(leeway)
        self._clock = clock
        self._recent: TtlCache[Principal] = TtlCache()
        self._generation = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.issuer!r}>"

    async def verify(self, token: str) -> Principal:
        """Return the principal of the token.

        Raises:
            InvalidToken: The issuer did not sign it, or it is not valid now.
            AuthError: The issuer's keys are not available now.
        """
        now = self._clock()
        if self._generation != self._keys.generation:
            # A key that the issuer has withdrawn invalidates its tokens.
            self._recent.clear()
            self._generation = self._keys.generation
        known = self._recent.get(token, now)
        if known is not None:
            return known
        try:
            found = await self._read(token, now)
        except (UnsoundToken, ClaimsError) as error:
            raise InvalidToken(str(error)) from None
        until = (found.expires_at or now) + self._leeway
        self._recent.put(token, found, min(until, now + REMEMBERED_S))
        return found

    async def _read(self, token: str, now: float) -> Principal:
        parts = read_signed(token)
        kind = parts.header.get("typ", "jwt")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise UnsoundToken("it is of another type")
        if parts.algorithm not in self._algorithms:
            raise UnsoundToken("its algorithm is not accepted")
        # If no key fits, the issuer may have a new one.
        if not await self._fits(parts, now) and not (
            await self._keys.renew(now) and await self._fits(parts, now)
        ):
            raise UnsoundToken("no key of the issuer verifies its signature")
        return self._believe(read_part(parts.payload, "payload"), now)

    async def _fits(self, parts: SignedToken, now: float) -> bool:
        keys = await self._keys.find(parts.kid, parts.algorithm, now)
        return any(
            is_signed(key, parts.algorithm, parts.signed, parts.signature)
            for key in keys
        )

    def _believe(self, claims: Mapping[str, Any], now: float) -> Principal:
        found = Principal(**read_claims(claims))
        if found.issuer != self.issuer:
            raise ClaimsError("it is of another issuer")
        if found.expires_at is None:
            raise ClaimsError("it has no expiry time")
        if not found.audience:
            raise ClaimsError("it has no audience")
        if self._audience is not None and not found.audience & self._audience:
            raise ClaimsError("its audience is another server")
        check_times(claims, now=now, leeway=self._leeway)
        return found


def _check_algorithms(
    algorithms: Collection[str] | None, *, is_secret: bool
) -> frozenset[str]:
    possible = SHARED_ALGORITHMS if is_secret else CHECKED_ALGORITHMS
    if algorithms is None:
        return frozenset({"HS256"} if is_secret else possible)
    # Accepting both kinds would let a public key be used as a shared secret.
    named = [algorithms] if isinstance(algorithms, str) else algorithms
    for name in named:
        if name not in possible:
            raise ValueError(
                f"cannot check {name!r} with such a key: use {', '.join(possible)}"
            )
    if not named:
        raise ValueError("algorithms must not be empty")
    return frozenset(named)


def _read_key(key: str | bytes | Mapping[str, Any]) -> Any:
    if isinstance(key, bytes):
        return import_secret(key)
    if isinstance(key, str):
        return import_checking_pem(key)
    return import_checking_jwk(key)


_WHAT: Final = "the introspection endpoint"

MOST_AT_ONCE: Final = 64
"""The maximum number of open requests on one loop: each invalid token causes a request,
which must not overload the issuer."""


class IntrospectionVerifier:
    """Verifies tokens by asking their issuer (token introspection).

    Args:
        endpoint: The URL of the endpoint; an `Http` to set options of TLS or a proxy.
        issuer: The issuer of the tokens.
        client_id: The id of this server at the issuer.
        client_secret: The secret of this server at the issuer.
        auth_method: ``client_secret_basic`` or ``client_secret_post``.
        bearer: An access token in place of the id and the secret.
        remember: How long a valid token is cached at most, in seconds.
        remember_no: How long an invalid token is cached, in seconds.
        leeway: The allowed clock skew, in seconds; at most five minutes.
        clock: Returns the seconds since 1970.
        limits: Limits for the issuer's response.
        fetch: Sends a request; for tests.

    Raises:
        ValueError: No credentials are given, or they would be sent unencrypted.
    """

    def __init__(
        self,
        endpoint: str | Http,
        *,
        issuer: str,
        client_id: str | None = None,
        client_secret: str | None = None,
        auth_method: ClientAuth = "client_secret_basic",
        bearer: str | None = None,
        remember: float = 60.0,
        remember_no: float = 10.0,
        leeway: float = 30.0,
        clock: Callable[[], float] = time.time,
        limits: Limits = DEFAULT_LIMITS,
        fetch: Callable[[Fetch], Any] | None = None,
    ) -> None:
        has_client = client_id is not None and client_secret is not None
        # RFC 7662, 2.1: otherwise anyone could try tokens there.
        if has_client == (bearer is not None):
            raise ValueError(
                "give either client_id and client_secret, or bearer, to authenticate"
            )
        self._place = check_place(endpoint, _WHAT)
        self.issuer = issuer
        self._identity = Identity(
            client_id or "", client_secret, issuer=issuer, auth_method=auth_method
        )
        self._bearer = bearer
        self._remember = remember
        self._remember_no = remember_no
        self._leeway = check_leeway(leeway)
        self._clock = clock
        self._limits = limits
        self._fetch = fetch or _fetch_from(self._place, limits)
        self._open: WeakKeyDictionary[
            asyncio.AbstractEventLoop, FairPool[asyncio.Timeout]
        ] = WeakKeyDictionary()
        self._believed: TtlCache[Principal] = TtlCache()
        self._refused: TtlCache[str] = TtlCache()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at '{self._place.parsed}'>"

    async def verify(self, token: str) -> Principal:
        """Return the principal of the token.

        Raises:
            InvalidToken: The issuer does not accept it, or it is not valid now.
            AuthError: The issuer cannot be reached now.
        """
        now = self._clock()
        known = self._believed.get(token, now)
        if known is not None:
            return known
        reason = self._refused.get(token, now)
        if reason is None:
            said = await self._ask(token, now)
            try:
                found = self._believe(said, now)
            except ClaimsError as error:
                reason = str(error)
                self._refused.put(token, reason, now + self._remember_no)
            else:
                until = now + self._remember
                if found.expires_at is not None:
                    until = min(until, found.expires_at + self._leeway)
                self._believed.put(token, found, until)
                return found
        raise InvalidToken(reason)

    async def _ask(self, token: str, now: float) -> Mapping[str, Any]:
        """Return the issuer's response for a token."""
        pool = self._open.setdefault(asyncio.get_running_loop(), FairPool())
        owner = network_of(client_address.get())
        if len(pool) >= MOST_AT_ONCE:
            oldest = pool.to_evict(owner)
            if oldest is None or pool.owner(oldest) == owner:
                raise AuthTemporarilyUnavailable(f"too many requests to {_WHAT}")
            pool.discard(oldest)
            oldest.reschedule(0.0)
        evicted = asyncio.timeout(None)
        pool.add(evicted, owner)
        try:
            async with evicted:
                answer = await self._fetch(self._question(token))
        except TimeoutError as error:
            if not evicted.expired():
                raise
            raise AuthTemporarilyUnavailable(f"too many requests to {_WHAT}") from error
        finally:
            pool.discard(evicted)
        check_available(answer, _WHAT, now)
        said = read_object(answer.body)
        if answer.status != 200 or said is None:
            # Also if it refuses our credentials: the token's state is unknown.
            raise TokenError(f"{_WHAT}: HTTP {answer.status}", status=answer.status)
        return said

    def _question(self, token: str) -> Fetch:
        form = [("token", token), ("token_type_hint", "access_token")]
        if self._bearer is not None:
            headers = [("authorization", f"Bearer {self._bearer}")]
        else:
            metadata = ServerMetadata(self.issuer)
            form, headers = authenticate(self._identity, metadata, form)
        url = self._place.parsed.unmasked
        return Fetch(_WHAT, url, form=tuple(form), headers=tuple(headers))

    def _believe(self, said: Mapping[str, Any], now: float) -> Principal:
        # RFC 7662, 2.2: a boolean true, no similar value.
        if said.get("active") is not True:
            raise ClaimsError("its issuer reports it as not active")
        members = read_claims(said)
        if members["issuer"] not in {None, self.issuer}:
            raise ClaimsError("it is of another issuer")
        check_times(said, now=now, leeway=self._leeway)
        return Principal(**members | {"issuer": self.issuer})
