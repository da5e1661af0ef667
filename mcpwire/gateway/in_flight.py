"""Find the in-flight call that a server's request belongs to.

Over HTTP a server sends its request on the stream of a call, so the transport names the
call. Over stdio nothing links the two: if exactly one call is in flight, the request
belongs to it; otherwise it is refused, because it must not reach another client. A
cancelled call counts for `CANCEL_GRACE_S` longer: its server may not know yet.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from mcpwire.errors import InternalError

__all__ = ["CANCEL_GRACE_S", "InFlightCalls"]

CANCEL_GRACE_S: Final = 5.0

MAX_CANCELLED: Final = 1_024

C = TypeVar("C")


class InFlightCalls(Generic[C]):
    """The calls in flight on one connection; times are seconds of one clock.

    Attributes:
        calls: Those calls, oldest first.
    """

    def __init__(self) -> None:
        self.calls: dict[C, None] = {}
        self._cancelled: deque[float] = deque(maxlen=MAX_CANCELLED)  # when each ends

    def add(self, call: C) -> None:
        """Add a call that begins."""
        self.calls[call] = None

    def finish(self, call: C) -> None:
        """Remove a call that was answered."""
        self.calls.pop(call, None)

    def cancel(self, call: C, now: float) -> None:
        """Remove a call that was cancelled; it counts for a moment longer."""
        if self.calls.pop(call, self) is None:
            self._cancelled.append(now + CANCEL_GRACE_S)

    def sole(self, now: float) -> C | None:
        """Return the only call in flight; ``None``: there are several or none."""
        return next(iter(self.calls), None) if self._count(now) == 1 else None

    def _count(self, now: float) -> int:
        """Return how many calls a message may belong to."""
        while self._cancelled and self._cancelled[0] <= now:
            self._cancelled.popleft()
        return len(self.calls) + len(self._cancelled)

    def owner(self, handle: object | None, now: float) -> C:
        """Return the call of a request; `handle` is the one that the transport names.

        Raises:
            InternalError: The call has ended, or nothing shows which one it is.
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
