"""Session ids of a gateway: sealed data of the session, or random handles.

The kept data of a session is enough to open the session again. With `SealedIds` the id
contains the data, encrypted, and any process that has a key can resume the session;
with `HandleIds` the gateway stores the data, and the id is random.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from base64 import b64decode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from mcpwire.errors import InvalidRequest
from mcpwire.gateway.session_ids import decode_session, encode_session
from mcpwire.limits import DEFAULT_RECOVERY, check_choice, check_count, check_timeout
from mcpwire.server.fair_pool import FairPool, client_key, client_of
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.transports.http.target import Http
from mcpwire.versions import LATEST_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping
    from typing import Self

    from mcpwire.gateway.plan import Plan
    from mcpwire.gateway.session_ids import SessionData
    from mcpwire.limits import Limits

logger = LimitedLogger("mcpwire")

JWE_TYPE: Final = "mcpwire-session-1"
"""Type of a sealed id in its JWE header; another format has another type."""

HANDLE_BYTES: Final = 32

LIFETIME_S: Final = 86_400.0
"""Default lifetime of an id, in seconds: one day."""

MAX_ID_LENGTH: Final = 8_192
"""Default maximum length of an id: many web servers limit header fields to it."""

MAX_STORED_BYTES: Final = 65_536
"""Maximum size of one session's data, in bytes: idle sessions keep their data."""

MAX_WITHDRAWN: Final = 100_000
"""Maximum of withdrawn ids that are remembered."""


class SessionIds(Protocol):
    """An issuer and reader of session ids."""

    undecodable: int
    """The HTTP status for an id that `read` does not accept: 404 or 401."""

    def issue(self, data: SessionData) -> str:
        """Return an id for a session.

        Raises:
            RPCError: No id can be issued; this is the response to `initialize`.
        """

    def read(self, id: str) -> SessionData | None:
        """Return the data of an id; ``None``: unknown, expired or withdrawn."""

    def withdraw(self, id: str) -> None:
        """Reject an id from now on; an invalid one is ignored."""


def _with_expiry(
    data: SessionData, lifetime: float | None, clock: Callable[[], float]
) -> SessionData:
    if lifetime is None:
        return data
    return attrs.evolve(data, expires_at=int(clock() + lifetime))


class SealedIds:
    """Ids that contain the session's data, encrypted (JWE, ``dir`` with ``A256GCM``).

    Only withdrawn ids are stored, in this process: another process, or this one after a
    restart, can open a deleted session again until its id expires. The holder of an id
    can use the session and its credentials: keep the lifetime short, or use
    `HandleIds`.

    Args:
        keys: Keys of 32 bytes: the first one seals, all of them open. To change the
            key, put a new one in front, and remove the old one a lifetime later.
        lifetime: Lifetime of an id, in seconds; ``None``: as long as its key.
        max_length: Maximum length of an id, in characters.
        undecodable: The HTTP status for an id that is not accepted: 404, as the
            specification requires (2025-11-25 basic/transports, "Session
            Management"), or 401.
        clock: Returns the seconds since 1970.

    Raises:
        LocalProtocolError: joserfc is not installed.
        ValueError: An argument is invalid; shows no key.
    """

    def __init__(
        self,
        keys: Iterable[bytes],
        *,
        lifetime: float | None = LIFETIME_S,
        max_length: int = MAX_ID_LENGTH,
        undecodable: int = 404,
        clock: Callable[[], float] = time.time,
    ) -> None:
        from mcpwire.auth.jwt import import_sealing_key

        given_keys: object = keys
        if isinstance(given_keys, bytes | str):
            raise ValueError("keys are a list of keys, the newest first")
        self._keys = [import_sealing_key(key) for key in keys]
        if not self._keys:
            raise ValueError("there must be at least one key")
        check_choice(undecodable, "undecodable", (404, 401))
        self._lifetime = check_timeout(lifetime, "lifetime")
        self._max_length = max_length
        self.undecodable = undecodable
        self._clock = clock
        self._withdrawn: OrderedDict[str, None] = OrderedDict()

    @classmethod
    def from_text(
        cls, text: str, *, lifetime: float | None = LIFETIME_S, undecodable: int = 404
    ) -> Self:
        """Return `SealedIds` for keys in a text: base64, separated by spaces or commas.

        The text fits an environment variable; the options are the constructor's.

        Raises:
            LocalProtocolError: joserfc is not installed.
            ValueError: A key is not base64 of 32 bytes; shows no key.
        """
        keys = []
        for number, word in enumerate(re.split(r"[\s,]+", text.strip()), 1):
            try:
                keys.append(b64decode(word, altchars=b"-_", validate=True))
            except ValueError:
                raise ValueError(f"session key {number} is not base64") from None
        return cls(keys, lifetime=lifetime, undecodable=undecodable)

    def __repr__(self) -> str:
        return f"SealedIds({len(self._keys)} keys)"

    def issue(self, data: SessionData) -> str:
        """Return an id that contains the session's data; each call returns another one.

        Raises:
            InvalidRequest: The id would be too long.
        """
        from mcpwire.auth.jwt import seal

        data = _with_expiry(data, self._lifetime, self._clock)
        id = seal(encode_session(data), self._keys[0], kind=JWE_TYPE)
        if len(id) > self._max_length:
            raise InvalidRequest(
                f"the session id would have {len(id)} characters, more than "
                f"the limit of {self._max_length}: choose fewer servers or shorter "
                "headers"
            )
        return id

    def read(self, id: str) -> SessionData | None:
        """Return the data in an id; ``None``: not ours, expired or withdrawn."""
        from mcpwire.auth.jwt import unseal

        if len(id) > self._max_length:
            return None
        text = unseal(id, self._keys, kind=JWE_TYPE)
        data = None if text is None else decode_session(text, self._clock())
        return None if data is None or data.nonce in self._withdrawn else data

    def withdraw(self, id: str) -> None:
        """Reject an id from now on, in this process."""
        data = self.read(id)
        if data is None:
            return
        self._withdrawn[data.nonce] = None
        if len(self._withdrawn) > MAX_WITHDRAWN:
            self._withdrawn.popitem(last=False)
            logger.warning(
                "too many ended sessions: an old one can be resumed until it expires"
            )


class HandleIds:
    """Random session ids; the gateway stores the data of each session by its id.

    A session that was closed because it was idle can be resumed while its data is
    stored.

    Args:
        lifetime: How long data is stored after the session was opened, in seconds;
            ``None``: without limit.
        maximum: How many sessions are stored; at the limit the client with the most
            loses its oldest, which can then not be resumed.
        store: The mapping from id to data; if it outlives the process, so do the
            sessions. The data holds what clients declared, and credentials for the
            servers that clients chose.
        clock: Returns the seconds since 1970.

    Raises:
        ValueError: An argument is invalid.
    """

    undecodable: int = 404

    def __init__(
        self,
        *,
        lifetime: float | None = LIFETIME_S,
        maximum: int = 10_000,
        store: MutableMapping[str, bytes] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._lifetime = check_timeout(lifetime, "lifetime")
        self._maximum = check_count(maximum, "maximum")
        self._store: MutableMapping[str, bytes] = {} if store is None else store
        self._pool: FairPool[str] = FairPool()
        for id in self._store:
            self._pool.add(id, client_of(id))
        self._clock = clock

    def __repr__(self) -> str:
        return f"HandleIds({len(self._store)} kept)"

    def issue(self, data: SessionData) -> str:
        """Store the data of a session; return its id, which is random.

        Raises:
            InvalidRequest: The data is too large.
        """
        text = encode_session(_with_expiry(data, self._lifetime, self._clock))
        if len(text) > MAX_STORED_BYTES:
            raise InvalidRequest(
                f"the session would take {len(text)} bytes, more than the limit of "
                f"{MAX_STORED_BYTES}: declare less, or choose fewer servers"
            )
        id = client_key(secrets.token_urlsafe(HANDLE_BYTES), data.client)
        client = client_of(id)
        while len(self._pool) >= self._maximum:
            oldest = self._pool.find_evictable(client)
            assert oldest is not None  # every session may be evicted
            self.withdraw(oldest)
        self._pool.add(id, client)
        self._store[id] = text
        return id

    def read(self, id: str) -> SessionData | None:
        """Return the data of an id; ``None``: unknown or expired."""
        text = self._store.get(id)
        if text is None:
            return None
        data = decode_session(text, self._clock())
        if data is None:
            self.withdraw(id)
        return data

    def withdraw(self, id: str) -> None:
        """Remove the data of an id."""
        self._store.pop(id, None)
        self._pool.discard(id)


class _NullInbound:
    """Ignores all messages of a server while its session ends."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


async def end_sessions(plan: Plan, sessions: Mapping[str, str], limits: Limits) -> None:
    """End sessions at their servers, in parallel, within two seconds."""
    await asyncio.gather(
        *(
            _end_session(planned.target, sessions[planned.name], limits)
            for planned in plan.servers
            if planned.name in sessions and isinstance(planned.target, Http)
        )
    )


async def _end_session(target: Http, id: str, limits: Limits) -> None:
    from mcpwire.transports.http.engine import open_engine
    from mcpwire.transports.http.streamable import HttpChannel

    engine = open_engine(target, limits)
    inbound: Any = _NullInbound()
    channel = HttpChannel(
        target, engine, inbound, limits=limits, recovery=DEFAULT_RECOVERY
    )
    channel.revision = LATEST_SESSION
    channel._heads.session_id = id  # noqa: SLF001 - no handshake sets it
    # Closing the channel sends the DELETE that ends the session.
    await channel.aclose()
