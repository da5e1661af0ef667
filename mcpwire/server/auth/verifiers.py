"""Verifiers of tokens: static lists, signed JWTs, and token introspection.

- `StaticTokens`, `ApiKeys`: tokens that the operator of the server issues.
- `JwtVerifier`: tokens with claims, signed by their issuer (RFC 9068). The accepted
  algorithms are fixed here and never chosen by the token (RFC 8725): not ``none``, and
  shared-key algorithms only if the server was configured with a secret.
- `IntrospectionVerifier`: opaque tokens, which their issuer checks (RFC 7662). Its
  responses are cached for a short time, positive ones longer; a revoked token stays
  valid for at most that time. Invalid tokens do not crowd out valid ones: both have
  caches of their own, and pending requests are divided by client address. A token has
  one pending request.

An issuer rotates its keys (RFC 7517, RFC 8414), and may sign with a new key before it
publishes it. So an unknown key causes another request of the keys, but, since a client
can name a key that does not exist, not often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from math import inf
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from mcpwire.auth.discovery import server_metadata_urls
from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError, TokenError
from mcpwire.auth.jwt import (
    HMAC_ALGORITHMS,
    VERIFICATION_ALGORITHMS,
    check_crypto,
    import_secret,
    import_verification_jwk,
    import_verification_pem,
    is_signature_valid,
)
from mcpwire.auth.records import ClientAuth, Identity, ServerMetadata
from mcpwire.auth.resource_server import (
    RejectedToken,
    TtlCache,
    check_times,
    read_claims,
    read_json_part,
    read_signed_token,
)
from mcpwire.auth.steps import Fetch, check_available
from mcpwire.auth.tokens import authenticate
from mcpwire.errors import AuthError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.server.auth.resource_server import (
    MAX_LEEWAY_S,
    InvalidToken,
    OwnTokens,
    Principal,
    TokenOwner,
    client_address,
    read_audience,
)
from mcpwire.server.fair_pool import FairPool
from mcpwire.transports.base import is_cancelled_here, wait_shared
from mcpwire.wire.headers import is_token
from mcpwire.wire.json import loads_object
from mcpwire.wire.urls import network_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mcpwire.auth.jwt import VerificationKey
    from mcpwire.auth.resource_server import SignedToken
    from mcpwire.transports.http.target import Http


def check_endpoint(endpoint: str | Http, noun: str) -> Http:
    """Return the endpoint of an issuer. Raises `ValueError` if it is insecure."""
    from mcpwire.transports.http.target import Http

    http = Http(endpoint) if isinstance(endpoint, str) else endpoint
    if not (http.parsed.is_secure or http.allow_insecure):
        raise ValueError(
            f"{noun} at '{http.parsed}' must be asked by https; inside a network of "
            "your own give Http(..., allow_insecure=True)"
        )
    return http


def _fetch_from(endpoint: Http, limits: Limits) -> Callable[[Fetch], Any]:
    from mcpwire.transports.oauth.fetch import Fetcher

    return Fetcher(endpoint, limits).fetch


def check_leeway(leeway: float) -> float:
    """Return a leeway. Raises `ValueError` if it is out of range."""
    if not 0 <= leeway <= MAX_LEEWAY_S:
        raise ValueError(
            f"leeway must be 0 to {MAX_LEEWAY_S:g} seconds, got {leeway!r}"
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


logger = logging.getLogger("mcpwire.server.auth")

MAX_CACHED_TOKENS: Final = 10_000
"""How many tokens are cached: roughly the number of concurrent users."""


class CachingVerifier:
    """Base of verifiers: caches the principals of valid tokens for a short time."""

    def __init__(
        self, issuer: str, leeway: float, remember: float, clock: Callable[[], float]
    ) -> None:
        self.issuer = issuer
        self._leeway = check_leeway(leeway)
        self._remember = remember
        self._clock = clock
        self._accepted: TtlCache[Principal] = TtlCache(MAX_CACHED_TOKENS)

    async def verify(self, token: str) -> Principal:
        """Return the principal of the token.

        Raises:
            InvalidToken: The issuer does not accept it, or it is not valid now.
            AuthError: The issuer, or its keys, cannot be reached now.
        """
        now, key = self._clock(), self._cache_key(token)
        cached = self._accepted.get(key, now)
        if cached is not None:
            return cached
        try:
            principal = await self._check(token, now)
        except RejectedToken as error:
            raise InvalidToken(str(error)) from None
        until = now + self._remember
        if principal.expires_at is not None:
            until = min(until, principal.expires_at + self._leeway)
        self._accepted.put(key, principal, now, until)
        return principal

    def _cache_key(self, token: str) -> str:
        return token

    async def _check(self, token: str, now: float) -> Principal:
        """Return the principal of a token. Raises `RejectedToken` and `AuthError`."""
        raise NotImplementedError


_KEYS: Final = "the keys of the issuer"
_METADATA: Final = "the metadata of the issuer"

REFRESH_AFTER_S: Final = 3_600.0
"""After how many seconds keys are fetched again."""

MAX_KEY_AGE_S: Final = 86_400.0
"""How old keys may become while the issuer does not respond, in seconds."""

MIN_FETCH_INTERVAL_S: Final = 30.0
"""The minimum time between two requests for an unknown key; also the pause after a
request that failed. In seconds."""

MAX_KEYS: Final = 100
_MAX_TRIED_KEYS: Final = 4
"""How many keys are tried for a token that names no key: while keys are rotated, two
keys match."""


def read_keys(document: Mapping[str, Any]) -> tuple[VerificationKey, ...]:
    """Return the keys of a JWK set that can check signatures.

    RFC 7517 section 5: unknown keys are ignored.
    """
    jwks = document.get("keys")
    if not isinstance(jwks, list):
        raise DiscoveryError("a JWK set must have a list of keys")
    keys: list[VerificationKey] = []
    for jwk in jwks[:MAX_KEYS]:
        if not isinstance(jwk, dict):
            continue
        try:
            keys.append(import_verification_jwk(jwk))
        except ValueError as error:
            logger.debug("%s: a key is skipped: %s", _KEYS, error)
    return tuple(keys)


def select_keys(
    keys: Sequence[VerificationKey], kid: str | None, algorithm: str
) -> list[VerificationKey]:
    """Return the keys that may have signed a token."""
    kind = VERIFICATION_ALGORITHMS.get(algorithm) or HMAC_ALGORITHMS[algorithm]
    candidates = [
        key
        for key in keys
        if key.kind == kind
        and key.algorithm in {None, algorithm}
        and (kid is None or key.kid in {None, kid})
    ]
    return candidates[:_MAX_TRIED_KEYS]


class FixedKeys:
    """Keys that never change."""

    def __init__(self, keys: Sequence[VerificationKey]) -> None:
        self._keys = tuple(keys)
        self.generation = 0

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[VerificationKey]:
        """Return the keys that may have signed a token."""
        return select_keys(self._keys, None if len(self._keys) == 1 else kid, algorithm)

    async def renew(self, now: float) -> bool:
        """Return ``False``: there are no newer keys."""
        return False


class IssuerKeys:
    """Keys that an issuer publishes."""

    def __init__(
        self,
        issuer: str,
        jwks_uri: str | Http | None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        fetch: Callable[[Fetch], Any] | None = None,
    ) -> None:
        self.generation = 0
        self._issuer = issuer
        self._url: str | None = None
        if jwks_uri is None:
            endpoint = check_endpoint(issuer, "the issuer")
        else:
            endpoint = check_endpoint(jwks_uri, "the keys")
            self._url = endpoint.parsed.unmasked
        self._found_url: str | None = None  # from the metadata
        self._fetch = fetch or _fetch_from(endpoint, limits)
        self._keys: tuple[VerificationKey, ...] = ()
        self._published: Any = None
        self._fetched_at = self._tried_at = -inf
        self._locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[VerificationKey]:
        """Return the keys that may have signed a token."""
        if not self._is_fresh(now) and not (
            # One request waits for newer keys; the others use the old ones.
            self._is_usable(now) and self._lock().locked()
        ):
            async with self._lock():
                # Another request may have fetched them while this one waited.
                if not self._is_fresh(now):
                    await self._refresh(now)
        return select_keys(self._keys, kid, algorithm)

    async def renew(self, now: float) -> bool:
        """Fetch the keys again unless just fetched; return whether they changed."""
        generation = self.generation
        async with self._lock():
            if not self._was_tried(now):
                await self._refresh(now)
        return self.generation != generation

    def _is_fresh(self, now: float) -> bool:
        """Return whether the known keys need no refresh."""
        if self._is_usable(now):
            return self._was_tried(now) or abs(now - self._fetched_at) < REFRESH_AFTER_S
        if self._was_tried(now):
            raise AuthTemporarilyUnavailable(
                f"{_KEYS} are not available", retry_after=MIN_FETCH_INTERVAL_S
            )
        return False

    def _is_usable(self, now: float) -> bool:
        return self._keys != () and now - self._fetched_at < MAX_KEY_AGE_S

    def _was_tried(self, now: float) -> bool:
        # Earlier by more: the clock was set back.
        return abs(now - self._tried_at) < MIN_FETCH_INTERVAL_S

    def _lock(self) -> asyncio.Lock:
        # One verifier may serve several loops, one after another or in threads.
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _refresh(self, now: float) -> None:
        """Fetch the keys; if that fails, the old ones stay valid for a while."""
        try:
            document = await self._fetch_keys(now)
            keys = read_keys(document)
        except AuthError as error:
            self._tried_at = now
            if not self._is_usable(now):
                raise
            logger.warning(
                "%s: the fetch failed, the previous keys are used: %s", _KEYS, error
            )
            return
        self._tried_at = self._fetched_at = now
        if document["keys"] != self._published:
            self._keys, self._published = keys, document["keys"]
            self.generation += 1
            logger.info("%s: %d keys were fetched", _KEYS, len(keys))

    async def _fetch_keys(self, now: float) -> Mapping[str, Any]:
        url = self._url
        if url is None:
            # The metadata may name another URL, while the previous one still works.
            try:
                url = self._found_url = await self._discover(now)
            except AuthError:
                if self._found_url is None:
                    raise
                url = self._found_url
        return await self._fetch_json(url, _KEYS, now)

    async def _discover(self, now: float) -> str:
        """Return the URL of the keys from the metadata of the issuer."""
        failure: DiscoveryError | None = None
        for url in server_metadata_urls(self._issuer):
            try:
                document = await self._fetch_json(url, _METADATA, now)
            except DiscoveryError as error:
                failure = failure or error
                continue
            # RFC 8414, 3.3: identical, or it must not be used.
            if document.get("issuer") != self._issuer:
                raise DiscoveryError(f"{_METADATA} has another issuer")
            keys_url = document.get("jwks_uri")
            if isinstance(keys_url, str):
                return keys_url
            # It is optional in RFC 8414, and required in OpenID's document.
            failure = DiscoveryError(f"{_METADATA} has no jwks_uri")
        raise failure or DiscoveryError(f"{_METADATA} was not found")

    async def _fetch_json(self, url: str, noun: str, now: float) -> Mapping[str, Any]:
        response = await self._fetch(Fetch(noun, url))
        check_available(response, noun, now)
        if response.status != 200:
            raise DiscoveryError(f"{noun}: HTTP {response.status}")
        document = loads_object(response.body)
        if document is None:
            raise DiscoveryError(f"{noun}: no JSON object")
        return document


# RFC 9068, 2.1, and the values of most issuers; RFC 7515, 4.1.9: with or without the
# prefix ``application/``. Tokens of any other type, such as an ID-JAG, are refused.
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})

SIGNATURE_CACHE_S: Final = 60.0
"""How long a checked signature is cached: checking takes longer than most calls."""


class JwtVerifier(CachingVerifier):
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
        super().__init__(issuer, leeway, SIGNATURE_CACHE_S, clock)
        self._algorithms = _check_algorithms(algorithms, is_secret=type(key) is bytes)
        self._keys: IssuerKeys | FixedKeys
        if jwks is not None:
            self._keys = FixedKeys(read_keys(jwks))
        elif key is not None:
            self._keys = FixedKeys([_read_key(key)])
        else:
            self._keys = IssuerKeys(issuer, jwks_uri, limits=limits)
        self._audience = None if audience is None else read_audience(audience)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.issuer!r}>"

    def _cache_key(self, token: str) -> str:
        # A key that the issuer has withdrawn invalidates its tokens.
        return f"{self._keys.generation} {token}"

    async def _check(self, token: str, now: float) -> Principal:
        parts = read_signed_token(token)
        kind = parts.header.get("typ", "jwt")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise RejectedToken("it is of another type")
        if parts.algorithm not in self._algorithms:
            raise RejectedToken("its algorithm is not accepted")
        # If no key fits, the issuer may have a new one.
        if not await self._is_signed(parts, now) and not (
            await self._keys.renew(now) and await self._is_signed(parts, now)
        ):
            raise RejectedToken("no key of the issuer verifies its signature")
        return self._check_claims(read_json_part(parts.payload, "payload"), now)

    async def _is_signed(self, parts: SignedToken, now: float) -> bool:
        keys = await self._keys.find(parts.kid, parts.algorithm, now)
        return any(
            is_signature_valid(key, parts.algorithm, parts.signed, parts.signature)
            for key in keys
        )

    def _check_claims(self, claims: Mapping[str, Any], now: float) -> Principal:
        principal = Principal(**read_claims(claims))
        if principal.issuer != self.issuer:
            raise RejectedToken("it is of another issuer")
        if principal.expires_at is None:
            raise RejectedToken("it has no expiry time")
        if not principal.audience:
            raise RejectedToken("it has no audience")
        if self._audience is not None and not principal.audience & self._audience:
            raise RejectedToken("its audience is another server")
        check_times(claims, now=now, leeway=self._leeway)
        return principal


def _check_algorithms(
    algorithms: Collection[str] | None, *, is_secret: bool
) -> frozenset[str]:
    possible = HMAC_ALGORITHMS if is_secret else VERIFICATION_ALGORITHMS
    if algorithms is None:
        return frozenset({"HS256"} if is_secret else possible)
    # Accepting both kinds would let a public key be used as a shared secret.
    names = [algorithms] if isinstance(algorithms, str) else algorithms
    for name in names:
        if name not in possible:
            raise ValueError(
                f"cannot check {name!r} with such a key: use {', '.join(possible)}"
            )
    if not names:
        raise ValueError("algorithms must not be empty")
    return frozenset(names)


def _read_key(key: str | bytes | Mapping[str, Any]) -> Any:
    if isinstance(key, bytes):
        return import_secret(key)
    if isinstance(key, str):
        return import_verification_pem(key)
    return import_verification_jwk(key)


_ENDPOINT: Final = "the introspection endpoint"

MAX_OPEN_REQUESTS: Final = 64
"""The maximum number of open requests on one loop: each invalid token causes a request,
which must not overload the issuer."""


class IntrospectionVerifier(CachingVerifier):
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
        super().__init__(issuer, leeway, remember, clock)
        self._endpoint = check_endpoint(endpoint, _ENDPOINT)
        self._identity = Identity(
            client_id or "", client_secret, issuer=issuer, auth_method=auth_method
        )
        self._bearer = bearer
        self._remember_no = remember_no
        self._fetch = fetch or _fetch_from(self._endpoint, limits)
        self._open: WeakKeyDictionary[
            asyncio.AbstractEventLoop, FairPool[asyncio.Timeout]
        ] = WeakKeyDictionary()
        self._waiting: WeakKeyDictionary[Any, dict[str, asyncio.Task[Any]]] = (
            WeakKeyDictionary()
        )
        self._refused: TtlCache[str] = TtlCache(MAX_CACHED_TOKENS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at '{self._endpoint.parsed}'>"

    async def _check(self, token: str, now: float) -> Principal:
        reason = self._refused.get(token, now)
        if reason is None:
            claims = await self._introspect(token, now)
            try:
                return self._check_claims(claims, now)
            except RejectedToken as error:
                reason = str(error)
                self._refused.put(token, reason, now, now + self._remember_no)
        raise RejectedToken(reason)

    async def _introspect(self, token: str, now: float) -> Any:
        """Return the issuer's response for a token, with one request for all."""
        loop = asyncio.get_running_loop()
        tasks = self._waiting.setdefault(loop, {})
        while (task := tasks.get(token)) is not None and not task.cancelled():
            try:
                return await wait_shared(task)
            except asyncio.CancelledError:
                if not task.cancelled() or is_cancelled_here():
                    raise
        task = tasks[token] = loop.create_task(self._ask(token, now))
        task.add_done_callback(
            lambda ended: tasks.get(token) is ended and tasks.pop(token)
        )
        return await task  # cancelling this request cancels it; another one asks again

    async def _ask(self, token: str, now: float) -> Mapping[str, Any]:
        pool = self._open.setdefault(asyncio.get_running_loop(), FairPool())
        owner = network_of(client_address.get())
        if len(pool) >= MAX_OPEN_REQUESTS:
            oldest = pool.find_evictable(owner)
            if oldest is None or pool.owner(oldest) == owner:
                raise AuthTemporarilyUnavailable(f"too many requests to {_ENDPOINT}")
            pool.discard(oldest)
            oldest.reschedule(0.0)
        timeout = asyncio.timeout(None)
        pool.add(timeout, owner)
        try:
            async with timeout:
                response = await self._fetch(self._introspection_request(token))
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise AuthTemporarilyUnavailable(
                f"too many requests to {_ENDPOINT}"
            ) from error
        finally:
            pool.discard(timeout)
        check_available(response, _ENDPOINT, now)
        claims = loads_object(response.body)
        if response.status != 200 or claims is None:
            # Also if it refuses our credentials: the token's state is unknown.
            raise TokenError(
                f"{_ENDPOINT}: HTTP {response.status}", status=response.status
            )
        return claims

    def _introspection_request(self, token: str) -> Fetch:
        form = [("token", token), ("token_type_hint", "access_token")]
        if self._bearer is not None:
            headers = [("authorization", f"Bearer {self._bearer}")]
        else:
            metadata = ServerMetadata(self.issuer)
            form, headers = authenticate(self._identity, metadata, form)
        url = self._endpoint.parsed.unmasked
        return Fetch(_ENDPOINT, url, form=tuple(form), headers=tuple(headers))

    def _check_claims(self, claims: Mapping[str, Any], now: float) -> Principal:
        # RFC 7662, 2.2: a boolean true, no similar value.
        if claims.get("active") is not True:
            raise RejectedToken("its issuer reports it as not active")
        members = read_claims(claims)
        if members["issuer"] not in {None, self.issuer}:
            raise RejectedToken("it is of another issuer")
        check_times(claims, now=now, leeway=self._leeway)
        return Principal(**members | {"issuer": self.issuer})
