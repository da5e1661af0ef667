"""Session ids of a gateway: sealed, so that they hold the session, or mere handles.

What is kept of a session is enough to open it again: with `SealedIds` the client keeps
it, unreadable, and any process that has a key goes on with it; with `HandleIds` the
gateway keeps it, and the id says nothing at all.
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
from mcpwire.gateway.session_ids import decode_kept, encode_kept
from mcpwire.limits import DEFAULT_RECOVERY, check_choice, check_count, check_timeout
from mcpwire.server.fair_pool import FairPool, client_key, client_of
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.transports.http.target import Http
from mcpwire.versions import LATEST_SESSION
from mcpwire.wire.headers import is_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping
    from typing import Self

    from mcpwire.gateway.plan import Plan
    from mcpwire.gateway.session_ids import Kept
    from mcpwire.limits import Limits


__all__ = [
    "HandleIds",
    "SealedIds",
    "SessionIds",
    "end_sessions",
]

logger = LimitedLogger("mcpwire")

KIND: Final = "mcpwire-session-1"
"""What says in an id how it is written; another version has another one."""

HANDLE_BYTES: Final = 32

LIFETIME_S: Final = 86_400.0
"""How long an id is good, unless somebody says otherwise: a day."""

MAX_LENGTH: Final = 8_192
"""How long an id may be: many web servers take no longer heads."""

MAX_KEPT: Final = 65_536
"""How much is kept of one session, in bytes: it stays when the session is idle."""

MAX_WITHDRAWN: Final = 100_000
"""How many ids that were ended before their time are remembered."""


class SessionIds(Protocol):
    """Makes session ids, and reads them again."""

    undecodable: int
    """The status of HTTP for what `read` knows nothing of: 404, or 401."""

    def issue(self, kept: Kept) -> str:
        """Return an id for a session.

        Raises:
            RPCError: There is none; this is the answer to `initialize`.
        """

    def read(self, id: str) -> Kept | None:
        """Return what is kept under an id; ``None``: nothing, or not any more."""

    def withdraw(self, id: str) -> None:
        """Take note that an id is never read again; what is no id changes nothing."""


class SealedIds:
    """Ids that hold the session, sealed (JWE, ``dir`` with ``A256GCM``).

    Nothing is kept here but which ids were ended before their time, and that in this
    process: a deleted session could be opened again by another one, or after a
    restart, until its id is too old. The holder of an id has the session and its
    credentials: keep the lifetime short, or use `HandleIds`.

    Args:
        keys: Keys of 32 bytes: the first one seals, all of them open. To change the
            key, put a new one in front, and drop the old one a lifetime later.
        lifetime: How long an id is good, in seconds; ``None``: as long as its key.
        max_length: How long an id may be, in characters.
        undecodable: The status of HTTP for an id that none of the keys opens: 404, as
            the specification has it (2025-11-25 basic/transports, "Session
            Management"), or 401.
        clock: Returns the seconds since 1970.

    Raises:
        LocalProtocolError: joserfc is not installed.
        ValueError: An argument is wrong; shows no key.
    """

    def __init__(
        self,
        keys: Iterable[bytes],
        *,
        lifetime: float | None = LIFETIME_S,
        max_length: int = MAX_LENGTH,
        undecodable: int = 404,
        clock: Callable[[], float] = time.time,
    ) -> None:
        from mcpwire.auth.jwt import import_sealing_key

        given: object = keys
        if isinstance(given, bytes | str):
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
        cls,
        text: str,
        *,
        lifetime: float | None = LIFETIME_S,
        undecodable: int = 404,
    ) -> Self:
        """Return what the keys of a text make: base64 each, with spaces or commas.

        As environment variables have them; options as for the constructor.

        Raises:
            LocalProtocolError: joserfc is not installed.
            ValueError: One is no base64 of 32 bytes; shows no key.
        """
        keys = []
        for number, word in enumerate(re.split(r"[\s,]+", text.strip()), 1):
            try:
                keys.append(b64decode(word, altchars=b"-_", validate=True))
            except ValueError:
                raise ValueError(f"session key {number} is no base64") from None
        return cls(keys, lifetime=lifetime, undecodable=undecodable)

    def __repr__(self) -> str:
        return f"SealedIds({len(self._keys)} keys)"

    def issue(self, kept: Kept) -> str:
        """Return an id that holds the session; each time another one.

        Raises:
            InvalidRequest: It would be too long.
        """
        from mcpwire.auth.jwt import seal

        if self._lifetime is not None:
            expires_at = int(self._clock() + self._lifetime)
            kept = attrs.evolve(kept, expires_at=expires_at)
        id = seal(encode_kept(kept), self._keys[0], kind=KIND)
        if len(id) > self._max_length:
            raise InvalidRequest(
                f"the session id would have {len(id)} characters, and no more than "
                f"{self._max_length} may be: choose fewer servers or shorter headers"
            )
        return id

    def read(self, id: str) -> Kept | None:
        """Return what an id holds; ``None``: it is not ours, too old or withdrawn."""
        from mcpwire.auth.jwt import unseal

        if len(id) > self._max_length:
            return None
        text = unseal(id, self._keys, kind=KIND)
        kept = None if text is None else decode_kept(text, self._clock())
        return None if kept is None or kept.nonce in self._withdrawn else kept

    def withdraw(self, id: str) -> None:
        """Never read an id again, in this process."""
        kept = self.read(id)
        if kept is None:
            return
        self._withdrawn[kept.nonce] = None
        if len(self._withdrawn) > MAX_WITHDRAWN:
            self._withdrawn.popitem(last=False)
            logger.warning("more sessions were ended than can be remembered")


class HandleIds:
    """Ids that say nothing: what is kept stays here, and goes by its id.

    A session that was let go of because it was idle can be gone on with, as long as it
    is kept.

    Args:
        lifetime: How long a session is kept since it was opened, in seconds; ``None``:
            for good.
        maximum: How many are kept; at the bound the client with the most loses its
            oldest, which can then not be gone on with.
        store: Where texts are kept by keys; with one that outlives the process, so do
            the sessions. They hold what clients declared, and credentials for servers
            that clients chose.
        clock: Returns the seconds since 1970.

    Raises:
        ValueError: An argument is wrong.
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

    def issue(self, kept: Kept) -> str:
        """Keep a session; return its id, which is a random text.

        Raises:
            InvalidRequest: There is too much of it.
        """
        if self._lifetime is not None:
            expires_at = int(self._clock() + self._lifetime)
            kept = attrs.evolve(kept, expires_at=expires_at)
        text = encode_kept(kept)
        if len(text) > MAX_KEPT:
            raise InvalidRequest(
                f"the session would be kept in {len(text)} bytes, and no more than "
                f"{MAX_KEPT} may be: declare less, or choose fewer servers"
            )
        id = client_key(secrets.token_urlsafe(HANDLE_BYTES), kept.client)
        client = client_of(id)
        while len(self._pool) >= self._maximum:
            oldest = self._pool.to_evict(client)
            assert oldest is not None  # any may leave
            self.withdraw(oldest)
        self._pool.add(id, client)
        self._store[id] = text
        return id

    def read(self, id: str) -> Kept | None:
        """Return what is kept under an id; ``None``: nothing, or it is too old."""
        text = self._store.get(id)
        if text is None:
            return None
        kept = decode_kept(text, self._clock())
        if kept is None:
            self.withdraw(id)
        return kept

    def withdraw(self, id: str) -> None:
        """Keep nothing under an id any more."""
        self._store.pop(id, None)
        self._pool.discard(id)


class _Ignoring:
    """Ignores what a server says while its session ends."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


async def end_sessions(plan: Plan, sessions: Mapping[str, str], limits: Limits) -> None:
    """Tell servers that sessions are over, all at once; two seconds at most."""
    await asyncio.gather(
        *(
            _end_session(each.target, sessions[each.name], limits)
            for each in plan.servers
            if each.name in sessions and isinstance(each.target, Http)
        )
    )


async def _end_session(target: Http, id: str, limits: Limits) -> None:
    if not is_session_id(id):
        return
    from mcpwire.transports.http.engine import open_engine
    from mcpwire.transports.http.streamable import HttpChannel

    engine = open_engine(target, limits, None)
    inbound: Any = _Ignoring()
    channel = HttpChannel(
        target, engine, inbound, limits=limits, recovery=DEFAULT_RECOVERY
    )
    channel.revision = LATEST_SESSION
    channel._heads.session_id = id  # noqa: SLF001 - no handshake will tell it
    # Closing a channel is what tells a server that its session is over.
    await channel.aclose()
