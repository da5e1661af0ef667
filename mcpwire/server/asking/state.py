"""Seals what a call remembers between its rounds, with keys, a clock and chance.

What a sealed state is and what it is bound to stands in `protocol.request_state`.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import InvalidParams
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.request_state import (
    ANONYMOUS,
    CallState,
    binding_of,
    check_key,
    seal,
    unseal,
)
from mcpwire.server.fair_pool import FairPool, client_key, client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcpwire.protocol.request_state import RecordedAnswer
    from mcpwire.server.request import RequestContext
    from mcpwire.wire.json import Json

__all__ = ["STATE_LIFETIME_S", "MemorySingleUse", "SingleUse", "StateKeeper"]

STATE_LIFETIME_S: Final = 600.0
"""How long a client has for its answers: there may be a person who thinks."""

_MOST_USED: Final = 100_000


class SingleUse(Protocol):
    """Remembers which states were used, for servers that let none be used twice.

    2026-07-28 basic/patterns/mrtr: where a state may be consumed once only, the server
    MUST see to that itself. A client whose connection broke cannot go on then.
    """

    def use(self, nonce: str, expires_at: int) -> bool:
        """Tell whether this is the first use; must neither block nor raise.

        What was used can be forgotten when it expires, in seconds since 1970. Behind a
        dot in the nonce stands a mark of the client that the state was given to.
        """
        ...


class MemorySingleUse:
    """Remembers for one process.

    Args:
        most: How many are remembered. A client that has more of them than there is
            room left finds each of its states used, until some have expired.
        clock: Seconds since 1970.
    """

    def __init__(
        self, most: int = _MOST_USED, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._most = most
        self._clock = clock
        self._used: dict[str, int] = {}
        self._pool: FairPool[str] = FairPool()
        self._earliest = math.inf  # no state expires before
        self._lock = threading.Lock()

    def use(self, nonce: str, expires_at: int) -> bool:
        """Tell whether this is the first use."""
        owner = client_of(nonce)
        with self._lock:
            if nonce in self._used:
                return False
            if not self._has_room(owner):
                self._forget()
                if not self._has_room(owner):
                    return False
            self._used[nonce] = expires_at
            self._pool.add(nonce, owner)
            self._earliest = min(self._earliest, expires_at)
            return True

    def _has_room(self, owner: str) -> bool:
        # None is forgotten for another one: its owner could use it again.
        room = self._most - len(self._used)
        return room > 0 and self._pool.count(owner) <= room

    def _forget(self) -> None:
        now = self._clock()
        if now < self._earliest:
            return
        for nonce in [nonce for nonce, end in self._used.items() if end <= now]:
            del self._used[nonce]
            self._pool.discard(nonce)
        self._earliest = min(self._used.values(), default=math.inf)


class StateKeeper:
    """Seals the states of one server's calls, and opens them.

    Args:
        keys: At least 16 random bytes each, the newest first: the first one signs, all
            of them are accepted. Every process that serves the same clients needs the
            same. Without any, a random one is made, which ends with the process.
        lifetime: How long a client has for its answers, in seconds.
        rounds: How often a call may ask.
        single_use: Lets no state be used twice.
        clock: Seconds since 1970.

    Raises:
        ValueError: A key is none.
    """

    def __init__(
        self,
        keys: Iterable[bytes] = (),
        *,
        lifetime: float = STATE_LIFETIME_S,
        rounds: int = DEFAULT_LIMITS.input_rounds,
        single_use: SingleUse | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        given = tuple(check_key(key) for key in keys)
        self._keys = given or (secrets.token_bytes(32),)
        self._lifetime = lifetime
        self._single_use = single_use
        self._clock = clock
        self.rounds = rounds

    def close(
        self,
        request: RequestContext,
        *,
        round: int,
        asked: Mapping[str, str],
        answers: Mapping[str, RecordedAnswer],
        kept: Mapping[str, Json],
    ) -> str:
        """Return the sealed state of a call that goes on with another request.

        Raises:
            LocalProtocolError: It is too long.
        """
        state = CallState(
            round=round,
            nonce=client_key(secrets.token_urlsafe(16), request.facts.owner),
            expires_at=int(self._clock() + self._lifetime),
            asked=asked,
            answers=answers,
            kept=kept,
        )
        return seal(state, _binding(request), self._keys[0])

    def open(self, given: Any, request: RequestContext) -> CallState:
        """Return the state that a request came with.

        Raises:
            InvalidParams: It is not one that this request was given, too old or used.
        """
        state = unseal(given, _binding(request), self._keys, self._clock())
        if self._single_use is not None and not self._single_use.use(
            state.nonce, state.expires_at
        ):
            raise InvalidParams("params.requestState was used before")
        return state


def _binding(request: RequestContext) -> bytes:
    principal = request.facts.principal
    owner = ANONYMOUS if principal is None else principal.key
    return binding_of(owner, request.method, request.params)
