"""Which call of several a server means that asks something.

Over HTTP a question comes on the stream of its call, and there is no doubt. On a pipe
nothing links the two; where one call is all there is, it is that one. Otherwise nobody
is asked: a question must never reach somebody that it is not for.

A call that was given up may still ask for a moment, as its server has yet to hear of
the end. So it counts as if it were under way for `LINGERS_S`.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from mcpwire.errors import InternalError

__all__ = ["LINGERS_S", "Flight"]

LINGERS_S: Final = 5.0
"""How long a call that was given up may still be the one that asks."""

LINGERING_MOST: Final = 1_024

C = TypeVar("C")


class Flight(Generic[C]):
    """The calls that are under way on one connection.

    Attributes:
        calls: Those calls, oldest first.
    """

    def __init__(self) -> None:
        self.calls: dict[C, None] = {}
        self._given_up: deque[float] = deque(maxlen=LINGERING_MOST)

    def begin(self, call: C) -> None:
        """Take note that a call is under way."""
        self.calls[call] = None

    def end(self, call: C) -> None:
        """Take note that it is answered."""
        self.calls.pop(call, None)

    def give_up(self, call: C, now: float) -> None:
        """Take note that nobody waits for its answer any more."""
        if self.calls.pop(call, self) is None:
            self._given_up.append(now + LINGERS_S)

    def only(self, now: float) -> C | None:
        """Return the call that all belongs to which nothing links to one, if any.

        Args:
            now: The time, by the clock that `give_up` was told.
        """
        return next(iter(self.calls), None) if self._count(now) == 1 else None

    def _count(self, now: float) -> int:
        """Return how many calls something may belong to."""
        given_up = self._given_up
        while given_up and given_up[0] <= now:
            given_up.popleft()
        return len(self.calls) + len(given_up)

    def whose(self, handle: object | None, now: float) -> C:
        """Return the call that a question belongs to.

        Args:
            handle: The call that the transport says; ``None``: it cannot say.
            now: The time, by the clock that `give_up` was told.

        Raises:
            InternalError: Nothing shows which; this is what the server is answered.
        """
        if handle is not None:
            for call in self.calls:
                if call is handle:
                    return call
            raise InternalError("the call that this question belongs to is over")
        count = self._count(now)
        if count == 1 and self.calls:
            return next(iter(self.calls))
        if not self.calls:
            raise InternalError(
                "no call is under way that this question could belong to, and the "
                "gateway serves several clients"
            )
        raise InternalError(
            f"{count} calls are under way, and nothing on this connection shows which "
            "of them this question belongs to"
        )
