"""Sessions by their ids: how many there may be, and when one has been idle too long.

A session that has a running request or an open stream is in use. The others go when
they were idle for too long, and before that when room is needed: the longest idle of
the client with the most first. There is one timer for all of them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from types import MethodType
from typing import TYPE_CHECKING, Final

from mcpwire.server.fair_pool import FairPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwire.server.http.session import HttpSession
    from mcpwire.server.request import Owner

__all__ = ["Registry"]

ID_BYTES: Final = 32
"""How much chance is in an id; 16 would do."""


class Registry:
    """The sessions of one server; see the module's text.

    Args:
        idle: How long a session may be idle, in seconds.
        maximum: How many there may be.
        end: Ends one that is not here any more.
    """

    def __init__(
        self, *, idle: float, maximum: int, end: Callable[[HttpSession], None]
    ) -> None:
        self._idle = idle
        self._maximum = maximum
        self._end = end
        # The one that was not used for longest is the first.
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._pool: FairPool[HttpSession] = FairPool()
        self._timer: asyncio.TimerHandle | None = None
        self._remove = self.remove

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[HttpSession]:
        """Go through all of them."""
        return iter(self._sessions.values())

    def has_room(self, owner: Owner, opening: int = 0) -> bool:
        """Tell whether there may be one more, for which another may have to go.

        An owner with more than this owner loses an idle one, else a busy one: an open
        question keeps a session busy, too. Else this owner loses an idle one.

        Args:
            owner: Whose it is.
            opening: How many are on their way in already.
        """
        if len(self._sessions) + opening < self._maximum:
            return True
        found = self._pool.to_displace(owner, _is_idle)
        if found is not None:
            self.remove(found)
        return found is not None

    def add(self, session: HttpSession, owner: Owner, id: str | None = None) -> str:
        """Take in a session; return the id it gets, unless one is given.

        2025-11-25 basic/transports, "Session Management": globally unique, visible
        ASCII; security best practices, "Session Hijacking": not to be guessed.

        Raises:
            ValueError: The id is somebody else's.
        """
        if id is None:
            id = secrets.token_urlsafe(ID_BYTES)
        elif id in self._sessions:
            raise ValueError("two sessions have one id")
        session.session.id = id
        # A third of what a partial takes.
        session.session.end = MethodType(self._remove, session)
        self._sessions[id] = session
        self._pool.add(session, owner)
        self.touch(session)
        if self._timer is None:
            self._arm()
        return id

    def find(self, id: str) -> HttpSession | None:
        """Return the session with that id.

        The id is a secret and may be looked up all the same: the hash of a text is
        keyed by chance, and two texts are compared only where all of it is equal.
        """
        return self._sessions.get(id)

    def touch(self, session: HttpSession) -> None:
        """Take note that a session is used, if it is still here."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            session.used_at = asyncio.get_running_loop().time()
            self._sessions.move_to_end(id)
            self._pool.touch(session)

    def remove(self, session: HttpSession) -> None:
        """End a session, if it is still here."""
        id = session.session.id
        if id is not None and self._sessions.get(id) is session:
            del self._sessions[id]
            self._pool.discard(session)
            session.session.end = None
            self._end(session)

    def close(self) -> None:
        """End all of them."""
        for session in list(self._sessions.values()):
            self.remove(session)
        # Not with the last that ends by itself: where sessions come and go one by one,
        # the loop would be left with a cancelled timer of each.
        self._disarm()

    def forget(self) -> list[HttpSession]:
        """Let go of all of them without ending them: their loop has ended."""
        forgotten = list(self._sessions.values())
        for session in forgotten:
            session.session.end = None
        self._sessions.clear()
        self._pool.clear()
        self._disarm()
        return forgotten

    # Idle ones...

    def _arm(self) -> None:
        first = next(iter(self._sessions.values()))
        self._timer = asyncio.get_running_loop().call_at(
            first.used_at + self._idle, self._sweep
        )

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used_at + self._idle > now:
                self._arm()
                return
            if session.is_active:
                self.touch(session)
            else:
                self.remove(session)


def _is_idle(session: HttpSession) -> bool:
    return not session.is_active
