"""When a lost connection may be opened again, and what may be sent on it again.

A server that dies after it has worked is started again at once. One that dies before it
has done anything is started ever more slowly, and after some attempts not at all::

             opened                  lost: it had lived
    closed ──────────► open ───────────────────────────► closed, 0 in vain
       ▲ failed: one more in vain    │ lost: it had not
       └─────────────────────────────┴─────────────────► closed, one more in vain

A connection has lived when a call was answered on it, or when it stood as long as the
longest delay: a child that crashes at its first call does not get a fresh count by
surviving the handshake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.protocol.methods import METHODS

if TYPE_CHECKING:
    from mcpwire.errors import ConnectionClosed
    from mcpwire.limits import Recovery
    from mcpwire.types.tools import Tool

__all__ = ["Restarts", "may_repeat", "tool_allows_repeat"]

# 2.0 ** 1024 is an OverflowError; by then any first delay is over the longest one.
_MOST_DOUBLINGS: Final = 100

# A method is repeatable in each span of revisions or, to be safe, not at all.
_REPEATABLE: Final = frozenset(spec.name for spec in METHODS) - frozenset(
    spec.name for spec in METHODS if not spec.repeatable
)


class Restarts:
    """Counts openings in vain and says how long to wait before the next.

    Whether a connection of this kind is opened again at all (`Recovery.restart`,
    `Recovery.reinitialize`) is for the caller to ask. Times are seconds of one clock
    that does not go back.
    """

    __slots__ = ("_ended_at", "_in_vain", "_lived", "_opened_at", "_recovery")

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self.reset()

    def reset(self) -> None:
        """Forget everything: somebody asked to connect."""
        self._in_vain = 0
        self._ended_at = 0.0
        self._opened_at: float | None = None
        self._lived = False

    def opened(self, now: float) -> None:
        """Note that a connection stands and can take calls."""
        self._opened_at = now
        self._lived = False

    def answered(self) -> None:
        """Note that a call was answered on it."""
        self._lived = True

    def lost(self, now: float) -> None:
        """Note that it is gone; when none stood, nothing happens."""
        if self._opened_at is None:
            return
        if self._lived or now - self._opened_at >= self._recovery.backoff_max:
            self._in_vain = 0
        else:
            self._in_vain += 1
        self._close(now)

    def failed(self, now: float) -> None:
        """Note that none came about."""
        self._in_vain += 1
        self._close(now)

    def _close(self, now: float) -> None:
        self._opened_at = None
        self._ended_at = now

    def delay(self, now: float, chance: float) -> float | None:
        """Return the seconds to wait from now, or ``None``: out of attempts.

        `chance`, from 0 to below 1, picks the delay: anything up to a bound that
        doubles with each opening in vain (full jitter), so that many clients of one
        server do not come back together. What has passed since the end counts.
        """
        if self._in_vain >= self._recovery.attempts:
            return None
        if not self._in_vain:
            return 0.0
        doublings = min(self._in_vain - 1, _MOST_DOUBLINGS)
        bound = self._recovery.backoff_initial * 2.0**doublings
        due = self._ended_at + chance * min(bound, self._recovery.backoff_max)
        return max(0.0, due - now)


def may_repeat(
    method: str, error: ConnectionClosed, *, idempotent: bool | None = None
) -> bool:
    """Tell whether a request that its connection took along may be sent once more.

    `idempotent` is what the caller, or a tool's own hints, say of this very request;
    ``None`` leaves it to the method.
    """
    if not error.sent:
        return True
    if idempotent is not None:
        return idempotent
    return method in _REPEATABLE


def tool_allows_repeat(tool: Tool | None) -> bool:
    """Tell whether a tool promises that calling it again does no more.

    2026-07-28 schema, ToolAnnotations: a tool may change something, and anew with each
    call, unless it says otherwise; so only what it says counts.
    """
    hints = tool.annotations if tool is not None else None
    return hints is not None and (
        hints.read_only_hint is True or hints.idempotent_hint is True
    )
