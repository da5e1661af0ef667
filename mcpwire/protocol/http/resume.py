"""What is known of one event stream, so that it can go on in another HTTP message.

In the session era a stream outlives its connection: the server may close that after
each event that has an id, and the client comes back with a GET that names the newest
one. Hundreds of such rounds are one stream, and cost what one round costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.protocol.http.backoff import full_jitter, retry_floor
from mcpwire.protocol.http.heads import can_resume_from

if TYPE_CHECKING:
    from mcpwire.limits import Recovery

__all__ = ["Resumption"]

_REMEMBERED: Final = 1_024
_ID_LENGTH_MAX: Final = 128  # of longer ones a digest is remembered


class Resumption:
    """The place that one stream has got to, and when to ask for the rest of it.

    A resumed message that dies without a new id is asked for again by the same id. A
    message that brought an event counts for nothing, however often the server hangs up.
    One that brought none makes the next wait longer: without end if it was closed in
    good order (the deadline of the call ends that); if it did not come about, or broke
    off, `Recovery.attempts` of them in a row are the end. Times are seconds of one
    clock that does not go back.

    Attributes:
        cursor: The newest id that can travel in `Last-Event-ID`; ``""``: none so far.
        retry_ms: The reconnection time that the stream named last, if any.
    """

    __slots__ = (
        "_ended_at",
        "_failures",
        "_has_brought",
        "_in_vain",
        "_last",
        "_recovery",
        "_retry_after",
        "_taken",
        "cursor",
        "retry_ms",
    )

    def __init__(self, recovery: Recovery) -> None:
        self.cursor = ""
        self.retry_ms: int | None = None
        self._recovery = recovery
        self._taken: dict[str | bytes, None] = {}
        self._last = ""
        self._has_brought = False
        self._in_vain = 0
        self._failures = 0
        self._ended_at = 0.0
        self._retry_after = 0.0

    def take(self, event_id: str) -> bool:
        """Take note of an event's id; tell whether the event is new.

        An event that has no id of its own has that of the one before it, as the HTML
        standard counts: the same id twice in a row in one message is two events. An id
        that came before is a replay, as far back as the last 1,024 ids. An empty id
        says nothing: neither is its event a replay, nor is the place lost.
        """
        if not event_id:
            self._has_brought = True
            return True
        if event_id == self._last:
            return True
        self._last = event_id
        key = _key(event_id)
        if key in self._taken:
            return False
        if len(self._taken) == _REMEMBERED:
            del self._taken[next(iter(self._taken))]
        self._taken[key] = None
        self._has_brought = True
        if can_resume_from(event_id):
            self.cursor = event_id
        return True

    def ended(
        self, now: float, *, failed: bool = False, retry_after: float | None = None
    ) -> None:
        """Note that a message of the stream is over.

        `failed`: it did not come about, or broke off; `retry_after` is when the server
        wants to be asked again, where it said so.
        """
        if self._has_brought:
            self._in_vain = self._failures = 0
        else:
            self._in_vain += 1
            self._failures = self._failures + 1 if failed else 0
        self._ended_at = now
        self._retry_after = retry_after or 0.0
        self._has_brought = False
        self._last = ""  # an id is handed down within one message only

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds to wait before the next GET, or ``None``: give up.

        The server's `retry:` (0.1 s to 60 s of it) and `Retry-After` are not gone
        below. `chance` is that of `full_jitter`. What has passed since the end counts.
        """
        recovery = self._recovery
        if not self.cursor or not recovery.resume:
            return None
        if self._failures >= recovery.attempts:
            return None
        wait = max(retry_floor(self.retry_ms), self._retry_after)
        if self._in_vain:
            wait += full_jitter(recovery, self._in_vain, chance)
        return max(0.0, self._ended_at + wait - now)


def _key(event_id: str) -> str | bytes:
    """Return what is remembered of an id: not more of it than is needed."""
    if len(event_id) <= _ID_LENGTH_MAX:
        return event_id
    from hashlib import blake2b

    return blake2b(event_id.encode("utf-8", "surrogatepass")).digest()
