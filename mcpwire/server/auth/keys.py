"""The keys of an issuer: given, or fetched from it and kept (RFC 7517, RFC 8414).

An issuer changes its keys, and signs with a new one before it says so to anybody. So a
key that is not known is a reason to ask again, and since anybody can name one that
nobody knows, not often.
"""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from mcpwire.auth.discovery import server_metadata_urls
from mcpwire.auth.errors import AuthTemporarilyUnavailable, DiscoveryError
from mcpwire.auth.jwt import (
    CHECKED_ALGORITHMS,
    SHARED_ALGORITHMS,
    import_checking_jwk,
)
from mcpwire.auth.steps import Fetch, check_available, read_object
from mcpwire.errors import AuthError
from mcpwire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.auth.jwt import CheckingKey
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.fetch import Fetcher

__all__ = ["GivenKeys", "IssuerKeys", "Keys", "choose", "read_keys"]

logger = logging.getLogger("mcpwire.server.auth")

_WHAT: Final = "the keys of the issuer"
_METADATA: Final = "the metadata of the issuer"

FRESH_S: Final = 3_600.0
"""How old keys may become before they are asked for again."""

STALE_S: Final = 86_400.0
"""How old they may become where the issuer does not answer."""

PAUSE_S: Final = 30.0
"""How long nobody is asked again for a key that is not known; also how long an issuer
that does not answer is left alone."""

MOST_KEYS: Final = 100
_TRIED_MAX: Final = 4
"""How many keys a token is tried with that names none: while one key takes the place of
another there are two of a kind."""


def read_keys(document: Mapping[str, Any]) -> tuple[CheckingKey, ...]:
    """Return the keys of a JWK set that signatures can be checked with.

    RFC 7517 section 5: what is not understood is passed over.

    Raises:
        DiscoveryError: It is no JWK set.
        LocalProtocolError: joserfc is not installed.
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
            logger.debug("%s: one is passed over: %s", _WHAT, error)
    return tuple(found)


def choose(
    keys: Sequence[CheckingKey], kid: str | None, algorithm: str
) -> list[CheckingKey]:
    """Return the keys that a token may be signed with."""
    kind = CHECKED_ALGORITHMS.get(algorithm) or SHARED_ALGORITHMS[algorithm]
    found = [
        key
        for key in keys
        if key.kind == kind
        and key.algorithm in {None, algorithm}
        and (kid is None or key.kid in {None, kid})
    ]
    return found[:_TRIED_MAX]


class Keys(Protocol):
    """Where the keys of an issuer come from."""

    generation: int
    """Counts how often the keys have changed."""

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[CheckingKey]:
        """Return the keys that a token may be signed with.

        Raises:
            AuthError: Nobody can tell now.
        """
        ...

    async def renew(self, now: float) -> bool:
        """Look for newer keys; tell whether there are."""
        ...


class GivenKeys:
    """Keys that never change.

    Args:
        keys: The keys; what they are called matters where there are several.
    """

    def __init__(self, keys: Sequence[CheckingKey]) -> None:
        self._keys = tuple(keys)
        self.generation = 0

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[CheckingKey]:
        """Return the keys that a token may be signed with."""
        return choose(self._keys, None if len(self._keys) == 1 else kid, algorithm)

    async def renew(self, now: float) -> bool:
        """Tell that there are no newer keys."""
        return False


class IssuerKeys:
    """Keys that an issuer publishes.

    Args:
        issuer: Who.
        place: Where they are; ``None``: where the issuer's metadata says.
        limits: What an answer may cost.
        fetch: Fetches a document; for tests.
    """

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
        self._fetcher: Fetcher | None = None
        self._keys: tuple[CheckingKey, ...] = ()
        self._published: Any = None
        self._fetched_at = self._asked_at = -inf
        self._locks: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()

    async def find(
        self, kid: str | None, algorithm: str, now: float
    ) -> list[CheckingKey]:
        """Return the keys that a token may be signed with.

        Raises:
            AuthError: The issuer does not say, and has not for long.
        """
        if not self._is_fresh(now) and not (
            # One request waits for newer keys, the others go on with those of before.
            self._is_usable(now) and self._lock().locked()
        ):
            async with self._lock():
                # Somebody else may have asked while this one waited.
                if not self._is_fresh(now):
                    await self._refresh(now)
        return choose(self._keys, kid, algorithm)

    async def renew(self, now: float) -> bool:
        """Ask for newer keys, if nobody has just now; tell whether there are."""
        generation = self.generation
        async with self._lock():
            if not self._was_asked(now):
                await self._refresh(now)
        return self.generation != generation

    def _is_fresh(self, now: float) -> bool:
        """Tell whether what is known will do.

        Raises:
            AuthTemporarilyUnavailable: It will not, and was asked for just now.
        """
        if self._is_usable(now):
            return self._was_asked(now) or now - self._fetched_at < FRESH_S
        if self._was_asked(now):
            raise AuthTemporarilyUnavailable(
                f"{_WHAT} are not known", retry_after=PAUSE_S
            )
        return False

    def _is_usable(self, now: float) -> bool:
        return self._keys != () and now - self._fetched_at < STALE_S

    def _was_asked(self, now: float) -> bool:
        return now - self._asked_at < PAUSE_S

    def _lock(self) -> asyncio.Lock:
        # One verifier may serve several loops, one after the other or each in a thread.
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _refresh(self, now: float) -> None:
        """Ask for the keys; where that fails, those of before are good for a while."""
        try:
            document = await self._ask(now)
            keys = read_keys(document)
        except AuthError as error:
            self._asked_at = now
            if self._place is None:
                self._url = None  # the issuer may say another one by then
            if not self._is_usable(now):
                raise
            logger.warning("%s: those of before are used: %s", _WHAT, error)
            return
        self._asked_at = self._fetched_at = now
        if document["keys"] != self._published:
            self._keys, self._published = keys, document["keys"]
            self.generation += 1
            logger.info("%s: there are %d new ones", _WHAT, len(keys))

    async def _ask(self, now: float) -> Mapping[str, Any]:
        if self._url is None:
            self._url = await self._discover(now)
        return await self._document(self._url, _WHAT, now)

    async def _discover(self, now: float) -> str:
        """Return where the issuer says that its keys are."""
        refused: AuthError = DiscoveryError(f"{_METADATA} is nowhere")
        for url in server_metadata_urls(self._issuer):
            try:
                document = await self._document(url, _METADATA, now)
            except DiscoveryError as error:
                refused = error
                continue
            # RFC 8414, 3.3: identical, or it must not be used.
            if document.get("issuer") != self._issuer:
                raise DiscoveryError(f"{_METADATA} is of another one")
            place = document.get("jwks_uri")
            if not isinstance(place, str):
                raise DiscoveryError(f"{_METADATA} names no place of its keys")
            return place
        raise refused

    async def _document(self, url: str, what: str, now: float) -> Mapping[str, Any]:
        fetch = self._fetch or self._get_fetcher().fetch
        answer = await fetch(Fetch(what, url))
        check_available(answer, what, now)
        if answer.status != 200:
            raise DiscoveryError(f"{what}: HTTP {answer.status}")
        document = read_object(answer.body)
        if document is None:
            raise DiscoveryError(f"{what}: no JSON object")
        return document

    def _get_fetcher(self) -> Fetcher:
        if self._fetcher is None:
            from mcpwire.transports.http.target import Http
            from mcpwire.transports.oauth.fetch import Fetcher

            self._fetcher = Fetcher(self._place or Http(self._issuer), self._limits)
        return self._fetcher
