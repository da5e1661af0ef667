"""Tokens that say nothing themselves: their issuer is asked (RFC 7662).

What it said is remembered for a moment, a yes longer than a no; a token that is taken
back is good for at most so long. Bad tokens hold up no good ones: both are remembered
apart, and the questions that are open at once are divided by client address.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from mcpwire.auth.errors import AuthTemporarilyUnavailable, TokenError
from mcpwire.auth.records import Identity, ServerMetadata
from mcpwire.auth.resource_server import ClaimsError, check_times, read_claims
from mcpwire.auth.steps import Fetch, check_available, read_object
from mcpwire.auth.tokens import authenticate
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.server.auth.principal import Principal, client_address
from mcpwire.server.auth.recent import Recent
from mcpwire.server.auth.verifiers import InvalidToken, check_leeway, check_place
from mcpwire.server.fair_pool import FairPool
from mcpwire.wire.urls import network_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.auth.records import ClientAuth
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.fetch import Fetcher

__all__ = ["IntrospectionVerifier"]

_WHAT: Final = "the introspection endpoint"

MOST_AT_ONCE: Final = 64
"""How many questions are open at once on one loop: each bad token makes us ask, and the
issuer is not to suffer for it."""


class IntrospectionVerifier:
    """Believes what an issuer says of a token when it is asked.

    Args:
        endpoint: Where to ask; an `Http` where that needs options of TLS or a proxy.
        issuer: Who is asked; tokens are of this issuer.
        client_id: Who asks.
        client_secret: What proves that.
        auth_method: How: ``client_secret_basic`` or ``client_secret_post``.
        bearer: A token that proves it in their place.
        remember: How long a yes is remembered at most, in seconds.
        remember_no: How long a no is.
        leeway: By how much clocks may differ, in seconds; at most five minutes.
        clock: Gives the seconds since 1970.
        limits: What an answer may cost.
        fetch: Sends a question; for tests.

    Raises:
        ValueError: Nothing proves who asks, or secrets would travel unencrypted.
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
        # RFC 7662, 2.1: otherwise anybody could try tokens there.
        if has_client == (bearer is not None):
            raise ValueError(
                "who asks is proved by client_id and client_secret, or by bearer"
            )
        self._place = check_place(endpoint, _WHAT)
        self.issuer = issuer
        self._client = client_id, client_secret, auth_method
        self._bearer = bearer
        self._remember = remember
        self._remember_no = remember_no
        self._leeway = check_leeway(leeway)
        self._clock = clock
        self._limits = limits
        self._fetch = fetch
        self._fetcher: Fetcher | None = None
        self._open: WeakKeyDictionary[
            asyncio.AbstractEventLoop, FairPool[asyncio.Timeout]
        ] = WeakKeyDictionary()
        self._believed: Recent[Principal] = Recent()
        self._refused: Recent[str] = Recent()

    def __repr__(self) -> str:
        """Return one readable line."""
        return f"<{type(self).__name__} at '{self._place.parsed}'>"

    async def verify(self, token: str) -> Principal:
        """Return who the token is of.

        Raises:
            InvalidToken: It is none of the issuer's, or not good now.
            AuthError: The issuer cannot be asked now.
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
        """Return what the issuer says of a token."""
        pool = self._open.setdefault(asyncio.get_running_loop(), FairPool())
        owner = network_of(client_address.get())
        if len(pool) >= MOST_AT_ONCE:
            oldest = pool.to_evict(owner)
            if oldest is None or pool.owner(oldest) == owner:
                raise AuthTemporarilyUnavailable(f"{_WHAT} is asked too much")
            pool.discard(oldest)
            oldest.reschedule(0.0)
        evicted = asyncio.timeout(None)
        pool.add(evicted, owner)
        try:
            async with evicted:
                answer = await self._send(self._question(token))
        except TimeoutError as error:
            if not evicted.expired():
                raise
            raise AuthTemporarilyUnavailable(f"{_WHAT} is asked too much") from error
        finally:
            pool.discard(evicted)
        check_available(answer, _WHAT, now)
        said = read_object(answer.body)
        if answer.status != 200 or said is None:
            # Also where it does not believe us: nothing is known of the token.
            raise TokenError(f"{_WHAT}: HTTP {answer.status}", status=answer.status)
        return said

    def _question(self, token: str) -> Fetch:
        form = [("token", token), ("token_type_hint", "access_token")]
        client_id, secret, method = self._client
        if self._bearer is not None:
            headers = [("authorization", f"Bearer {self._bearer}")]
        else:
            identity = Identity(
                client_id or "", secret, issuer=self.issuer, auth_method=method
            )
            form, headers = authenticate(identity, ServerMetadata(self.issuer), form)
        url = self._place.parsed.unmasked
        return Fetch(_WHAT, url, form=tuple(form), headers=tuple(headers))

    async def _send(self, question: Fetch) -> Any:
        if self._fetch is not None:
            return await self._fetch(question)
        if self._fetcher is None:
            from mcpwire.transports.oauth.fetch import Fetcher

            self._fetcher = Fetcher(self._place, self._limits)
        return await self._fetcher.fetch(question)

    def _believe(self, said: Mapping[str, Any], now: float) -> Principal:
        # RFC 7662, 2.2: true, and nothing that is merely like it.
        if said.get("active") is not True:
            raise ClaimsError("its issuer does not know it, or no more")
        facts = read_claims(said)
        if facts.issuer not in {None, self.issuer}:
            raise ClaimsError("it is of another issuer")
        check_times(said, now=now, leeway=self._leeway)
        return Principal(
            issuer=self.issuer,
            client_id=facts.client_id,
            subject=facts.subject,
            scopes=facts.scopes,
            audience=facts.audience,
            expires_at=facts.expires_at,
            claims=said,
        )
